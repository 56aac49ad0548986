// SPDX-License-Identifier: Apache-2.0
// What a fabric delivers over time: how many bytes had come to ports, looked at again and again.
// How long a run will be is not known, so looks are close at first, and whenever there are too many
// every other one is forgotten and the time between them doubles.
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

  // Looks from now on, and lives as long as the events.
  Throughput(fabric::EventWheel& events, const fabric::Network& network);
  // The same of other bytes, which `delivered` counts: it never says less than before.
  Throughput(fabric::EventWheel& events, std::function<std::uint64_t()> delivered);

  void on_event(fabric::Instant now, std::uint32_t) override;

  // Bytes of whole packets that came in each of so many equal parts of the time from `begin` to
  // `end`, which are not before the first look. What came between two looks is spread evenly.
  [[nodiscard]] std::vector<std::uint64_t> slices(fabric::Instant begin, fabric::Instant end,
                                                  std::size_t count) const;
  // The time between two looks now: what happened in less can't be told.
  [[nodiscard]] fabric::Span resolution() const { return period_; }
  // That had come by then, since the first look.
  [[nodiscard]] std::uint64_t bytes_until(fabric::Instant at) const;

 private:
  fabric::EventWheel& events_;
  std::function<std::uint64_t()> delivered_;
  fabric::Instant begin_;
  fabric::Span period_ = fabric::nanoseconds(10);
  std::uint64_t before_;              // what had come when it began
  std::vector<std::uint64_t> looks_;  // a period after each other, the first at begin_
};

// When nine tenths of all bytes had come: later on flows end, and what is left comes slowly.
[[nodiscard]] fabric::Instant mostly_come(const Throughput& throughput, fabric::Instant begin,
                                          fabric::Instant end);

// How long after `fault` what arrives is enough again: 0 if it is not less within 100 us, kNever's
// if it stays so, or if looks were too far apart to tell. Enough are nine tenths of what came in
// the 20 us before, in 10 us and in the 40 us from there. Where it is known what is left of the
// cables, it is nine tenths of that in 10 us, and 19 twentieths in the 40 us; or of what came in
// the 100 us before the fault, if that is less. Looked at is what had come when nine tenths of all
// bytes had.
[[nodiscard]] fabric::Span capacity_back(const Throughput& throughput, fabric::Instant begin,
                                         fabric::Instant fault, fabric::Instant end,
                                         std::optional<std::uint64_t> left_bits_per_s = {});

}  // namespace hawser::experiment
