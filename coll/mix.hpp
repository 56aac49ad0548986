// SPDX-License-Identifier: Apache-2.0
// How an all-reduce is divided among schedules when its ranks have unlike bandwidth.
//
// Schedule k attaches the k slowest ranks to a ring of the others (attached_plan.hpp); schedule 0
// is the ring of all. For a byte of data an attached rank moves 1 byte each way, and each other one
// 1 + (p-2)/(p-k). Let x_k be the part of schedule k, and c_1 <= ... <= c_p the bandwidths. A rank
// then moves n(1 + y_i), where the y_i don't fall and sum to p-2. Each such y has
//
//   x_k = (p-k) (y_{k+1} - y_k) / (p-2)        y_0 = 0
//
// The bound of any schedule (docs/internals/collectives.md) is T = max(1/c_1, (2p-2)/C) for n = 1,
// where C is the sum of all c_i.
//   - If all ranks can be busy for T = (2p-2)/C, y_i = c_i T - 1.
//   - If the slowest rank takes longer (c_1 (2p-2) < C), y_i is in proportion to c_i - c_1.
// Both are quotients of whole numbers, so all ranks compute the same parts.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "hawser/collectives.hpp"

namespace hawser::coll {

// A rank's bandwidth, in any unit that is the same for all ranks: 1 to kMostBandwidth.
using Bandwidth = std::uint8_t;
inline constexpr Bandwidth kMostBandwidth = 16;

class Mix {
 public:
  static constexpr std::uint32_t kMostParts = 4;

  struct Part {
    Rank attached = 0;        // the schedule: this many of the slowest ranks are attached
    std::uint64_t begin = 0;  // elements of the data
    std::uint64_t elements = 0;
  };

  // `ascending` has the bandwidth of each rank, the slowest first. Parts begin at multiples of
  // `line` elements. If there are more than kMostParts, or more than `most_streams` streams (at
  // least 2), the smallest parts go to their neighbours. Parts of no elements are left out, so
  // there may be none.
  Mix(std::span<const Bandwidth> ascending, std::uint64_t elements, std::uint64_t line,
      std::uint32_t most_streams) noexcept;

  // The streams of a rank in which it sends, and those in which it receives: at most these.
  [[nodiscard]] std::uint32_t streams() const noexcept;

  [[nodiscard]] std::span<const Part> parts() const noexcept {
    return std::span(parts_).first(count_);
  }

 private:
  std::array<Part, kMostParts> parts_{};
  std::uint32_t count_ = 0;
};

}  // namespace hawser::coll
