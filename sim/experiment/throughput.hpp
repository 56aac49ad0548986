// What a fabric delivers over time: how many bytes had come to ports, looked at again and again.
// How long a run will be is not known, so looks are close at first, and whenever there are too many
// every other one is forgotten and the time between them doubles.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/network.hpp"

namespace hawser::experiment {

class Throughput final : public fabric::Actor {
 public:
  static constexpr std::size_t kMostLooks = 8192;

  // Looks from now on, and lives as long as the events.
  Throughput(fabric::EventWheel& events, const fabric::Network& network);

  void on_event(fabric::Instant now, std::uint32_t) override;

  // Bytes of whole packets that came in each of so many equal parts of the time from `begin` to
  // `end`, which are not before the first look. What came between two looks is spread evenly.
  [[nodiscard]] std::vector<std::uint64_t> slices(fabric::Instant begin, fabric::Instant end,
                                                  std::size_t count) const;
  // That had come by then, since the first look.
  [[nodiscard]] std::uint64_t bytes_until(fabric::Instant at) const;

 private:
  fabric::EventWheel& events_;
  const fabric::Network& network_;
  fabric::Instant begin_;
  fabric::Span period_ = fabric::nanoseconds(10);
  std::uint64_t before_;              // what had come when it began
  std::vector<std::uint64_t> looks_;  // a period after each other, the first at begin_
};

// How long after `fault` as much arrives again as in the time before it, nine tenths of that, in
// every 10 us: 0 if it never was less, kNever's if it stays so. What comes when nine tenths of all
// bytes have come isn't looked at, as then flows end.
[[nodiscard]] fabric::Span capacity_back(const Throughput& throughput, fabric::Instant begin,
                                         fabric::Instant fault, fabric::Instant end);

}  // namespace hawser::experiment
