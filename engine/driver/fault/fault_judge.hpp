// SPDX-License-Identifier: Apache-2.0
// Decides the fate of each packet of one direction. It draws from DirectionFaults, and keeps the
// state of the bursty channel and of the limited link. All randomness comes from the seed, so the
// same seed gives the same packets the same fates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "engine/driver/fault/fault_spec.hpp"
#include "proto/base/random.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

// The fate of one packet. With all defaults the packet passes.
struct Fate {
  bool drop = false;  // overrides all others
  bool duplicate = false;
  bool corrupt = false;
  bool truncate = false;
  std::uint32_t overtaken_by = 0;  // waits until that many later packets of its queue have passed
  proto::Duration delay{};

  [[nodiscard]] bool passes() const {
    return !(drop || duplicate || corrupt || truncate) && overtaken_by == 0 && delay.ns <= 0;
  }
};

class FaultJudge {
 public:
  // After a pause a limited link lets this much through at once. Its queue holds that much; packets
  // beyond it are lost.
  static constexpr std::uint64_t kRateBurstBytes = 64 * 1024;
  static constexpr std::uint64_t kRateQueueBytes = 1024 * 1024;

  explicit FaultJudge(std::uint64_t seed) : random_(seed) {}

  void seed(std::uint64_t seed) { random_ = proto::Random(seed); }
  void set(const DirectionFaults& faults);

  // True if every packet passes.
  [[nodiscard]] bool idle() const { return idle_; }
  [[nodiscard]] Fate judge(std::uint64_t bytes, proto::Time now);

  // Damages the datagram: flips 1 to 3 of its bits.
  void flip_bits(std::span<std::byte> datagram);
  // Draws a length from 1 to bytes - 1. A datagram of one byte keeps its length.
  [[nodiscard]] std::uint32_t shorter(std::uint32_t bytes);
  // Draws only if the probability is above 0, so directions without faults cost nothing.
  [[nodiscard]] bool hits(double probability) {
    return probability > 0 && random_.chance(probability);
  }
  // Uniform in [0, limit).
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_.below(limit); }

 private:
  [[nodiscard]] bool lost();
  [[nodiscard]] bool queue_on_link(std::uint64_t bytes, proto::Time now, proto::Duration& wait);

  proto::Random random_;
  DirectionFaults faults_;
  bool idle_ = true;
  bool bad_ = false;  // state of the bursty channel
  proto::Time link_free_at_{std::numeric_limits<std::int64_t>::min()};
};

}  // namespace hawser::engine
