// SPDX-License-Identifier: Apache-2.0
// Decides what becomes of each packet of one direction: rolls the dice of DirectionFaults, keeps
// the state of the bursty channel and of the limited link. All randomness comes from the seed, and
// from the same seed the same packets have the same fates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "engine/driver/fault/fault_spec.hpp"
#include "proto/base/random.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

// What happens to one packet. All default: it passes.
struct Fate {
  bool drop = false;  // outweighs the rest
  bool duplicate = false;
  bool corrupt = false;
  bool truncate = false;
  std::uint32_t overtaken_by = 0;  // held back until so many later packets of its queue have passed
  proto::Duration delay{};

  [[nodiscard]] bool passes() const {
    return !(drop || duplicate || corrupt || truncate) && overtaken_by == 0 && delay.ns <= 0;
  }
};

class FaultJudge {
 public:
  // A limited link lets this much through at once after a pause, and holds that much; what would
  // wait behind more is lost.
  static constexpr std::uint64_t kRateBurstBytes = 64 * 1024;
  static constexpr std::uint64_t kRateQueueBytes = 1024 * 1024;

  explicit FaultJudge(std::uint64_t seed) : random_(seed) {}

  void seed(std::uint64_t seed) { random_ = proto::Random(seed); }
  void set(const DirectionFaults& faults);

  // No packet would have a fate.
  [[nodiscard]] bool idle() const { return idle_; }
  [[nodiscard]] Fate judge(std::uint64_t bytes, proto::Time now);

  // The damage itself.
  void flip_bits(std::span<std::byte> datagram);
  // A length from 1 to bytes - 1; a datagram of one byte keeps it.
  [[nodiscard]] std::uint32_t shorter(std::uint32_t bytes);
  // A fault that is off draws nothing: idle directions cost nothing.
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
