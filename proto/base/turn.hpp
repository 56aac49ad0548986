// SPDX-License-Identifier: Apache-2.0
// What holds for the present pass of the poll loop, and where its results go: counters,
// completions, events and trace records. proto/endpoint/pass.cpp is the pass itself.
//
// Time. `now` is when the half of the pass began that is under way, or when the caller made the
// call that is under way. A pass is late if this end was away just before it or in the middle of
// it: then the rings may hold what timers wait for. A timer that expires in a late pass is put off
// once, so that a drain of the rings comes first.
//
// Invariant: now never goes back, whatever the caller's clock does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "hawser/events.hpp"
#include "hawser/stats.hpp"
#include "hawser/trace.hpp"
#include "proto/base/absence.hpp"
#include "proto/base/mechanisms.hpp"
#include "proto/base/operations.hpp"
#include "proto/base/random.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/time.hpp"
#include "proto/base/timer.hpp"

namespace hawser::proto {

class Turn {
 public:
  // `events`: how many the caller may leave untaken before the oldest are lost.
  Turn(const AllTunables& of_endpoint, std::uint64_t seed, std::uint32_t events)
      : tunables(of_endpoint),
        granularity(microseconds(of_endpoint.timer_granularity_us)),
        random(seed),
        operations(static_cast<std::uint32_t>(of_endpoint.max_operations)),
        events_(events) {}

  const AllTunables tunables;
  const Duration granularity;
  Random random;
  EndpointStats counters;
  Operations operations;

  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  // When this pass began to look into the rings; 0 before the first.
  [[nodiscard]] Time pass_began() const { return pass_began_; }
  [[nodiscard]] bool is_late() const { return late_; }
  [[nodiscard]] const Absence& absence() const { return absence_; }
  [[nodiscard]] bool was_away_since(Time then) const { return absence_.since(then) > Duration{}; }
  [[nodiscard]] bool has_progressed() const { return progressed_; }
  [[nodiscard]] bool was_refused() const { return refused_; }
  [[nodiscard]] bool warns() const { return warns_; }
  [[nodiscard]] const Event& last_warning() const { return last_warning_; }

  // A lower bound of when the packet at hand arrived.
  [[nodiscard]] Time arrived() const { return arrived_; }
  // The NIC says that the packet at hand arrived at `at`.
  void packet_arrived(Time at) { arrived_ = earlier(later(previous_pass_, at), now_); }

  // ---- calls between passes
  void call(Time at) { now_ = later(now_, at); }
  // The call has left something to do at once: a pass is due now.
  void ask_for_pass() { asked_wake_ = earlier(asked_wake_, now_); }

  // ---- the pass, in this order
  // Returns how much later it begins than the engine was asked for.
  Duration begin(Time at) {
    now_ = later(now_, at);
    progressed_ = refused_ = warns_ = false;
    const bool is_first = pass_began_ == Time{};
    const Time expected = asked_wake_ == kNever ? now_ : later(asked_wake_, pass_began_);
    late_ = !is_first && was_away(expected);
    late_ |= std::exchange(away_in_pass_, false);
    ++number_;
    return is_first || now_ < expected ? Duration{} : now_ - expected;
  }
  void look_into_rings() {
    previous_pass_ = pass_began_;
    pass_began_ = now_;
  }
  // The second half begins. Returns how long the first one took.
  Duration begin_second_half(Time at) {
    now_ = later(now_, at);
    away_in_pass_ = was_away(pass_began_);
    late_ |= away_in_pass_;
    return now_ - pass_began_;
  }
  // The engine is asked to turn again at `at`, or at once if something has progressed.
  void end(Time at) { asked_wake_ = progressed_ ? now_ : at; }

  // Something was received, sent or completed: the next pass may find more.
  void progress() { progressed_ = true; }
  // A NIC or the pool refused something.
  void refused() { refused_ = true; }

  // Whether an expired timer waits for one drain of the rings. Then it fires `by` later.
  [[nodiscard]] bool postpones(Timer& timer, Duration by) const {
    return late_ && timer.postpone(now_ + by);
  }

  // ---- results
  void complete(const Completion& completion) {
    operations.complete(completion);
    progress();
  }
  void emit(const Event& event) {
    Event stamped = event;
    stamped.time_ns = static_cast<std::uint64_t>(now_.ns);
    stamped.number = events_emitted_++;
    if (events_.full()) {
      (void)events_.pop();  // the newest ones tell the present state
      ++counters.events_lost;
    }
    (void)events_.push(stamped);
  }
  // An event that should be known at once: an operation stands still, or a newcomer finds no place.
  void warn(const Event& event) {
    warns_ = true;
    last_warning_ = event;
    emit(event);
  }
  // Moves events to the caller; returns how many.
  std::size_t poll_events(std::span<Event> events) {
    std::size_t n = 0;
    while (n < events.size() && !events_.empty()) events[n++] = events_.pop();
    return n;
  }

  // ---- the caller's trace hook
  void trace_to(TraceHook hook, void* context) {
    trace_hook_ = hook;
    trace_context_ = context;
  }
  [[nodiscard]] bool tracing() const { return trace_hook_ != nullptr; }
  // Only while tracing.
  void trace(TraceRecord record) const {
    record.time_ns = static_cast<std::uint64_t>(now_.ns);
    trace_hook_(trace_context_, record);
  }

 private:
  // Notes that this end was away from `left` until now, if that is long.
  bool was_away(Time left) {
    const Duration late = microseconds(tunables.late_wakeup_us);
    if (now_ - left <= late) return false;
    ++counters.late_turns;
    const Duration timeout = milliseconds(tunables.peer_timeout_ms);
    absence_.note(left, now_, {.old = timeout * 2, .presence = late, .absence = timeout / 8});
    return true;
  }

  Time now_{};
  Time pass_began_{};
  Time previous_pass_{};
  Time arrived_{};
  Time asked_wake_{kNever};
  std::uint32_t number_ = 0;
  bool late_ = false;
  bool away_in_pass_ = false;
  bool progressed_ = false;
  bool refused_ = false;
  bool warns_ = false;
  Event last_warning_;
  Absence absence_;
  Ring<Event> events_;
  std::uint64_t events_emitted_ = 0;
  TraceHook trace_hook_ = nullptr;
  void* trace_context_ = nullptr;
};

}  // namespace hawser::proto
