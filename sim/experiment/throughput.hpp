// SPDX-License-Identifier: Apache-2.0
// The bytes that a fabric has delivered to ports, sampled over time. The length of a run is not
// known beforehand, so samples are close at first. Whenever there are too many, every other one is
// dropped and the time between samples doubles.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/fabric/network.hpp"

namespace hawser::experiment {

class Throughput final : public fabric::Actor {
 public:
  static constexpr std::size_t kMostLooks = 8192;

  // Samples from now on; it lives as long as the events.
  Throughput(fabric::EventWheel& events, const fabric::Network& network);
  // The same for another count of bytes: `delivered` returns it, and never less than before.
  Throughput(fabric::EventWheel& events, std::function<std::uint64_t()> delivered);

  void on_event(fabric::Instant now, std::uint32_t) override;

  // The bytes of whole packets that came in each of `count` equal parts of the time from `begin` to
  // `end`, neither of which is before the first sample. The bytes between two samples are spread
  // evenly.
  [[nodiscard]] std::vector<std::uint64_t> slices(fabric::Instant begin, fabric::Instant end,
                                                  std::size_t count) const;
  // The present time between two samples: anything shorter can't be told.
  [[nodiscard]] fabric::Span resolution() const { return period_; }
  // The bytes that had come by then, since the first sample.
  [[nodiscard]] std::uint64_t bytes_until(fabric::Instant at) const;

 private:
  fabric::EventWheel& events_;
  std::function<std::uint64_t()> delivered_;
  fabric::Instant begin_;
  fabric::Span period_ = fabric::nanoseconds(10);
  std::uint64_t before_;              // bytes that had come before the first sample
  std::vector<std::uint64_t> looks_;  // one each period, the first at begin_
};

// When nine tenths of all bytes had come. Flows end after that, and the rest comes slowly.
[[nodiscard]] fabric::Instant mostly_come(const Throughput& throughput, fabric::Instant begin,
                                          fabric::Instant end);

// How long after `fault` enough bytes arrive again. It is 0 if the rate does not fall within 100
// us. It is kNever's if the rate stays low, or if samples were too far apart to tell.
// Enough bytes must come both in 10 us and in the 40 us from there. Without `left_bits_per_s` that
// is nine tenths of the rate in the 20 us before the fault. With it, the reference is the lower of
// `left_bits_per_s` and the rate in the 100 us before the fault. Enough is then nine tenths of the
// reference in 10 us, and 19 twentieths in the 40 us. Only the time until nine tenths of all bytes
// had come is looked at.
[[nodiscard]] fabric::Span capacity_back(const Throughput& throughput, fabric::Instant begin,
                                         fabric::Instant fault, fabric::Instant end,
                                         std::optional<std::uint64_t> left_bits_per_s = {});

}  // namespace hawser::experiment
