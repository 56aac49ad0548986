// SPDX-License-Identifier: Apache-2.0
// How many bytes a receiver lets be under way to it that it granted, over all peers.
//
// It should be what its share of its NICs brings in within a response time: with less the link is
// idle, with more the bytes only queue. The share is not known (other processes have the same NIC,
// and the line's rate says nothing), and neither is the response time of an empty link (what is
// measured holds queues, and the absences of busy hosts). But the product of both shows when it is
// tried: below it the arrival rate grows with the budget, above it it doesn't.
//
// So the budget is judged in three phases, each some rounds of a response time long, the first of
// which is a mixture and not looked at: twice the *measure* (the margin that a host's absences
// need), the measure, and a quarter more. If that quarter brought as much as a quarter of itself in
// rate, the measure grows: it is doubled until that first fails, then raised by a quarter. If not,
// it shrinks by a sixteenth. So noise (hosts that are away make a phase poor, whatever the budget)
// errs towards more. A round in which no grant waited for the budget says nothing and begins the
// phases anew.
//
// Invariant: least <= bytes() <= ceiling, whatever the rounds bring.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/base/assert.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

class GrantBudget {
 public:
  static constexpr std::uint64_t kSmallest = 16;  // the first budget, divided by it, is the least

  GrantBudget() = default;
  // `ceiling`: what the receive rings hold.
  GrantBudget(std::uint64_t first, std::uint64_t ceiling, std::uint64_t packet)
      : least_(std::max<std::uint64_t>(first / kSmallest, packet)),
        ceiling_(std::max(ceiling, least_)) {
    set(first / 2);
  }

  // What the links bring in within a response time, if that is known: the first measure at least.
  // Says nothing once one was tried.
  void begin_with(std::uint64_t measure) {
    if (starting_ && measured_ == 0) set(std::max(measure_, measure));
  }

  [[nodiscard]] std::uint64_t bytes() const {
    return std::clamp(measure_ * kEighths[phase_] / 8, least_, ceiling_);
  }
  [[nodiscard]] std::uint64_t awaited() const { return awaited_; }
  [[nodiscard]] std::uint64_t room() const { return awaited_ < bytes() ? bytes() - awaited_ : 0; }

  // What counts of a sender's changes from `before` to `after` bytes.
  void recount(std::uint64_t before, std::uint64_t after) {
    HAWSER_ASSERT(awaited_ >= before);
    awaited_ += after - before;
  }
  void on_arrival(std::uint64_t bytes) { arrived_ += bytes; }
  // A grant had to wait for room.
  void on_short() { short_ = true; }
  // Packets that were here were dropped: the rings hold less than they seem to.
  void on_overrun() {
    starting_ = false;
    set(measure_ / 2);
    begin(kHold);
  }

  // How long what is awaited takes at the rate of the last rounds; nothing if there was none.
  [[nodiscard]] Duration time_to_come() const {
    if (lately_ <= 0) return Duration{};
    return Duration{static_cast<std::int64_t>(static_cast<double>(awaited_) / lately_)};
  }

  // At the end of a turn: ends the round if it has lasted as long as a response takes.
  void end_round(Time now, Duration response) {
    const Duration elapsed = now - round_start_;
    if (elapsed < std::max(response, Duration{1})) return;
    const double rate = static_cast<double>(arrived_) / static_cast<double>(elapsed.ns);
    if (arrived_ > 0) lately_ = std::max(rate, lately_ * kFading);
    if (short_) {
      if (round_ > 0) {
        judged_bytes_ += arrived_;
        judged_time_ = judged_time_ + elapsed;
      }
      if (++round_ == kRounds[phase_]) next_phase();
    } else {
      begin(kHold);
    }
    round_start_ = now;
    arrived_ = 0;
    short_ = false;
  }

 private:
  enum Phase : std::uint8_t { kHold, kMeasure, kMore, kPhases };
  static constexpr std::array<std::uint64_t, kPhases> kEighths{16, 8, 10};
  static constexpr std::array<std::uint32_t, kPhases> kRounds{12, 4, 4};
  static constexpr double kFading = 31.0 / 32;
  static constexpr double kWorthMore = 17.0 / 16;  // a quarter of the quarter

  void begin(Phase phase) {
    phase_ = phase;
    round_ = 0;
    judged_bytes_ = 0;
    judged_time_ = Duration{};
  }
  void set(std::uint64_t measure) {
    measure_ = std::clamp(measure, least_, std::max(least_, ceiling_ / 2));
  }

  void next_phase() {
    const double rate = static_cast<double>(judged_bytes_) / static_cast<double>(judged_time_.ns);
    if (phase_ == kMeasure) measured_ = rate;
    if (phase_ != kMore) return begin(phase_ == kHold ? kMeasure : kMore);
    if (rate >= measured_ * kWorthMore) {
      set(starting_ ? measure_ * 2 : measure_ + measure_ / 4);
    } else {
      starting_ = false;
      set(measure_ - measure_ / 16);
    }
    begin(starting_ ? kMeasure : kHold);
  }

  std::uint64_t least_ = 0;
  std::uint64_t ceiling_ = 0;
  std::uint64_t measure_ = 0;
  std::uint64_t awaited_ = 0;

  std::uint64_t arrived_ = 0;  // in this round
  Time round_start_{};
  bool short_ = false;

  Phase phase_ = kHold;
  bool starting_ = true;
  std::uint32_t round_ = 0;  // of the phase
  std::uint64_t judged_bytes_ = 0;
  Duration judged_time_{};
  double measured_ = 0;  // bytes a ns that the measure brought
  double lately_ = 0;    // that came in the last rounds: the best, fading
};

}  // namespace hawser::proto
