// SPDX-License-Identifier: Apache-2.0
// How far packets of one NIC overtake each other on their way, in the time between their
// departures, and so how long one that was overtaken is waited for. RFC 8985 (RACK-TLP) §6.2 for
// what one connection is there; shared by all paths of a NIC, as one flow alone is over before it
// knows its fabric.
//
// A time between departures means the same however long a host was away: what is late because of
// that is late in order.
//
// Where packets have come back in order for long, the order of departures means something again, as
// on a single way: less than a round trip is waited for. Each time that this was a mistake it takes
// twice as many packets until it is believed again.
//
// Invariant: kFirstRun <= needed_ <= kLongestRun.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/time.hpp"
#include "proto/path/response_time.hpp"

namespace hawser::proto {

class Reordering {
 public:
  // A packet has arrived that one sent so much later had overtaken, if that is more than nothing.
  void note(Duration by) {
    if (Duration{} < by) most_ = std::max(by, most_ - most_ / kFading);
    if (by <= kSlight) {
      if (in_order_ < kLongestRun) ++in_order_;
      return;
    }
    if (ordered()) needed_ = std::min(needed_ * 2, kLongestRun);
    in_order_ = 0;
  }

  // None of so many packets was overtaken by more than next to nothing.
  [[nodiscard]] bool ordered() const { return in_order_ >= needed_; }

  // A packet is lost if one arrived that was sent so much later: half as much again as was seen
  // lately (acknowledgements, which tell of it, are some microseconds apart), and a quarter more
  // than a round trip, if that is short. Where packets keep their order, an eighth of a round trip.
  [[nodiscard]] Duration window(const ResponseTime& response, Duration granularity) const {
    if (ordered()) return std::max(response.smoothed() / 8, kLeastWindow);
    return std::max(most_ * 3 / 2, std::min(response.smoothed(), granularity) * 5 / 4);
  }
  // How old a packet must be at least that its receiver misses and asks for.
  [[nodiscard]] Duration asked(const ResponseTime& response) const {
    return ordered() ? response.smoothed() : response.smoothed() + most_ * 3 / 2;
  }
  // When the answer to a packet is overdue, by the same measure.
  [[nodiscard]] Duration overdue(const ResponseTime& response, Duration granularity) const {
    const Duration window = this->window(response, granularity);
    return std::max(response.smoothed() + std::max(response.variance() * 4, window),
                    response.latest() + window);
  }

  // When several packets that went different ways are late, of a path that has shown what its
  // answers take: no floor for what a single one may meet.
  [[nodiscard]] Duration several_overdue(const ResponseTime& response) const {
    const Duration overtaken = most_ * 3 / 2;
    return std::max(response.smoothed() + std::max(response.variance() * 4, overtaken),
                    response.latest() + overtaken);
  }

 private:
  static constexpr int kFading = 1024;            // packets that were overtaken
  static constexpr std::uint32_t kFirstRun = 64;  // packets in order that make a NIC an ordered one
  static constexpr std::uint32_t kLongestRun = 4096;
  static constexpr Duration kSlight = nanoseconds(500);  // ways differ in length
  static constexpr Duration kLeastWindow = microseconds(1);
  Duration most_{};
  std::uint32_t in_order_ = 0;
  std::uint32_t needed_ = kFirstRun;
};

}  // namespace hawser::proto
