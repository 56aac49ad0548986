// SPDX-License-Identifier: Apache-2.0
// Layer 1 of loss detection: is a packet lost, given that a later one of the same path was
// acknowledged? A pure function after RFC 9002 §6.1.
//
// One path is close to FIFO, so being overtaken within it means loss. Reordering between paths
// never reaches this rule. Once a packet declared lost is acknowledged after all, the path is known
// to reorder, and only time decides there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/time.hpp"
#include "proto/path/response_time.hpp"

namespace hawser::proto {

struct GapVerdict {
  bool lost = false;
  Time ask_again = kNever;  // if not lost yet: when it will be, unless acknowledged before
};

// How old a packet must be that a later one of its path has overtaken.
[[nodiscard]] inline Duration gap_patience(const ResponseTime& response) {
  const Duration reference =
      response.smoothed() < response.latest() ? response.latest() : response.smoothed();
  return reference * 9 / 8;
}

// The same without evidence from order: the path has reordered, or nothing was sent after the
// packet. Then the time by which this host's answers vary is added.
[[nodiscard]] inline Duration unordered_patience(const ResponseTime& response,
                                                 Duration granularity) {
  return std::max(gap_patience(response), response.overdue(granularity));
}

[[nodiscard]] inline GapVerdict judge_age(Time sent, Time now, Duration patience) {
  const Time deadline = sent + patience;
  if (deadline <= now) return {true, kNever};
  return {false, deadline};
}

// For packets that go over several lanes, by their departures. `newest` is the latest departure
// among those that arrived. Age says little there: a delay may have held up a packet and all later
// ones. Age decides only when an answer is overdue.
[[nodiscard]] inline GapVerdict judge_departure(Time sent, Time newest, Time now, Duration window,
                                                Duration patience) {
  if (sent + window < newest) return {true, kNever};
  return judge_age(sent, now, patience);
}

// `behind`: how far the largest acknowledged number is ahead of the packet. From `enough` on it is
// lost.
[[nodiscard]] inline GapVerdict judge_gap(std::uint64_t behind, std::uint64_t enough, Time sent,
                                          Time now, Duration patience) {
  if (behind >= enough) return {true, kNever};
  return judge_age(sent, now, patience);
}

}  // namespace hawser::proto
