// Layer 1 of loss detection: is a packet lost, given that a later one of the same path was
// acknowledged? A pure function after RFC 9002 §6.1.
//
// One path is close to FIFO, so being overtaken within it means loss; reordering between paths
// never reaches this rule. Once a packet that it declared lost was acknowledged after all,
// reordering inside that path is proven, and only time decides there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/response_time.hpp"
#include "proto/time.hpp"

namespace hawser::proto {

struct GapVerdict {
  bool lost = false;
  Time ask_again = kNever;  // if not lost yet: when it will be, unless acknowledged before
};

// Where packets overtake each other, the acknowledgement of one that was overtaken is an answer of
// its own, as late as its host's answers are: then what is overdue counts.
[[nodiscard]] inline Duration gap_patience(const ResponseTime& response, bool reordering_proven,
                                           Duration granularity) {
  const Duration patience =
      (response.smoothed() < response.latest() ? response.latest() : response.smoothed()) * 9 / 8;
  if (!reordering_proven) return patience;
  return std::max(patience, response.overdue(granularity));
}

// `number` < `largest_acked`, both path numbers of one path.
[[nodiscard]] inline GapVerdict judge_gap(std::uint64_t number, std::uint64_t largest_acked,
                                          Time sent, Time now, Duration patience,
                                          std::uint64_t reorder_packets, bool reordering_proven) {
  if (!reordering_proven && largest_acked - number >= reorder_packets) return {true, kNever};
  const Time deadline = sent + patience;
  if (deadline <= now) return {true, kNever};
  return {false, deadline};
}

}  // namespace hawser::proto
