// SPDX-License-Identifier: Apache-2.0
// How many granted bytes, over all peers, a receiver lets be under way to it.
//
// The budget should be what the receiver's share of its NICs brings in within a response time. With
// less the link idles; with more the bytes only queue. The share is unknown: other processes use
// the same NIC, and the line rate says nothing. The response time of an empty link is unknown too:
// samples include queues, and absences of busy hosts. But trying shows their product: below it the
// arrival rate grows with the budget, above it it doesn't.
//
// Therefore the budget is judged in three phases, each of some rounds as long as a response time:
//   1. Twice the *measure*, the margin that a host's absences need. Each phase's first round is a
//      mixture and not counted.
//   2. The measure.
//   3. A quarter more. If the rate grew by at least a quarter of that quarter, the measure grows:
//      it doubles until the first failure, and rises by a quarter from then on. Otherwise it
//      shrinks by a sixteenth. Noise (absences of hosts) therefore errs towards more.
// A round in which no grant waited for the budget says nothing and begins the phases anew.
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
  static constexpr std::uint64_t kSmallest = 16;  // the least budget is the first divided by it

  GrantBudget() = default;
  // `ceiling`: the capacity of the receive rings.
  GrantBudget(std::uint64_t first, std::uint64_t ceiling, std::uint64_t packet)
      : least_(std::max<std::uint64_t>(first / kSmallest, packet)),
        ceiling_(std::max(ceiling, least_)) {
    set(first / 2);
  }

  // Raises the first measure to the bytes that the links bring in within a response time, if that
  // is known. No effect once a measure was tried.
  void begin_with(std::uint64_t measure) {
    if (starting_ && measured_ == 0) set(std::max(measure_, measure));
  }

  [[nodiscard]] std::uint64_t bytes() const {
    return std::clamp(measure_ * kEighths[phase_] / 8, least_, ceiling_);
  }
  [[nodiscard]] std::uint64_t awaited() const { return awaited_; }
  [[nodiscard]] std::uint64_t room() const { return awaited_ < bytes() ? bytes() - awaited_ : 0; }

  // A sender's counted bytes change from `before` to `after`.
  void recount(std::uint64_t before, std::uint64_t after) {
    HAWSER_ASSERT(awaited_ >= before);
    awaited_ += after - before;
  }
  void on_arrival(std::uint64_t bytes) { arrived_ += bytes; }
  // A grant had to wait for room.
  void on_short() { short_ = true; }
  // This host dropped packets after they arrived: the rings hold less than they seem to.
  void on_overrun() {
    starting_ = false;
    set(measure_ / 2);
    begin(kHold);
  }

  // How long the awaited bytes take at the rate of the last rounds; zero if there was none.
  [[nodiscard]] Duration time_to_come() const {
    if (lately_ <= 0) return Duration{};
    return Duration{static_cast<std::int64_t>(static_cast<double>(awaited_) / lately_)};
  }

  // At the end of a turn: ends the round once it has lasted a response time.
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
  double measured_ = 0;  // bytes per ns that the measure brought
  double lately_ = 0;    // the best rate of the last rounds, fading
};

}  // namespace hawser::proto
