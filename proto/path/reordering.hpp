// SPDX-License-Identifier: Apache-2.0
// How far packets of one NIC overtake each other on their way, as time between their departures. It
// decides how long an overtaken packet is waited for. RFC 8985 (RACK-TLP) §6.2 does this per
// connection; here all paths of a NIC share it, as a single flow ends before it knows its fabric.
//
// A time between departures means the same however long a host was absent: an absence delays
// packets in order.
//
// If packets have come back in order for long, the NIC counts as ordered, like a single way: it
// waits for less than a round trip. Each mistake doubles the number of packets that the next such
// belief needs.
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
  // A packet arrived. `by`: how much earlier it left than the newest packet that overtook it, if
  // any.
  void note(Duration by) {
    if (Duration{} < by) most_ = std::max(by, most_ - most_ / kFading);
    if (by <= kSlight) {
      if (in_order_ < kLongestRun) ++in_order_;
      return;
    }
    if (ordered()) needed_ = std::min(needed_ * 2, kLongestRun);
    in_order_ = 0;
  }

  // None of the last packets was overtaken by more than a slight time.
  [[nodiscard]] bool ordered() const { return in_order_ >= needed_; }

  // A packet is lost if one arrived that was sent this much later. The window is half as much again
  // as recent overtaking (acknowledgements, which report it, are some microseconds apart). It is at
  // least five quarters of a round trip, or of the granularity if that is shorter. An ordered NIC
  // has an eighth of a round trip.
  [[nodiscard]] Duration window(const ResponseTime& response, Duration granularity) const {
    if (ordered()) return std::max(response.smoothed() / 8, kLeastWindow);
    return std::max(most_ * 3 / 2, std::min(response.smoothed(), granularity) * 5 / 4);
  }
  // The age from which a packet that its receiver requests counts as lost.
  [[nodiscard]] Duration asked(const ResponseTime& response) const {
    return ordered() ? response.smoothed() : response.smoothed() + most_ * 3 / 2;
  }
  // When the answer to a packet is overdue, by the same measure.
  [[nodiscard]] Duration overdue(const ResponseTime& response, Duration granularity) const {
    const Duration window = this->window(response, granularity);
    return std::max(response.smoothed() + std::max(response.variance() * 4, window),
                    response.latest() + window);
  }

  // When several packets on different lanes are late, on a path with known answer times. It has no
  // floor for what a single packet may meet.
  [[nodiscard]] Duration several_overdue(const ResponseTime& response) const {
    const Duration overtaken = most_ * 3 / 2;
    return std::max(response.smoothed() + std::max(response.variance() * 4, overtaken),
                    response.latest() + overtaken);
  }

 private:
  static constexpr int kFading = 1024;            // packets that were overtaken
  static constexpr std::uint32_t kFirstRun = 64;  // packets in order that make a NIC an ordered one
  static constexpr std::uint32_t kLongestRun = 4096;
  static constexpr Duration kSlight = nanoseconds(500);  // lanes differ in length
  static constexpr Duration kLeastWindow = microseconds(1);
  Duration most_{};
  std::uint32_t in_order_ = 0;
  std::uint32_t needed_ = kFirstRun;
};

}  // namespace hawser::proto
