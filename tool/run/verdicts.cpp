// SPDX-License-Identifier: Apache-2.0
#include "tool/run/verdicts.hpp"

#include <algorithm>
#include <map>

namespace hawser::tool {
namespace {

struct TimedChange {
  std::uint32_t rank = 0;
  PathChange change;
};

std::vector<TimedChange> verdicts_in_order_of_time(std::span<const RankPaths> ranks) {
  std::vector<TimedChange> all;
  for (const RankPaths& rank : ranks) {
    for (const PathChange& change : rank.changes) {
      if (change.kind == PathChange::Kind::blamed || change.kind == PathChange::Kind::cleared) {
        all.push_back({rank.rank, change});
      }
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const TimedChange& a, const TimedChange& b) {
    return a.change.at_ns < b.change.at_ns;
  });
  return all;
}

FaultVerdict verdict_of(const TimedChange& timed) {
  const NicId local{timed.rank, timed.change.nic};
  const NicId remote{timed.change.peer, timed.change.remote_nic};
  switch (timed.change.blame) {
    case Blame::local_nic: return {Blame::local_nic, local, {}};
    case Blame::remote_nic: return {Blame::remote_nic, {}, remote};
    default: break;
  }
  // It is the same link, seen from either end.
  return {Blame::link, std::min(local, remote), std::max(local, remote)};
}

}  // namespace

std::vector<VerdictSpan> verdicts_of(std::span<const RankPaths> ranks) {
  struct Open {
    std::uint64_t since_ns = 0;
    std::uint32_t ranks = 0;  // that report it at the moment
  };
  std::map<FaultVerdict, Open> open;
  std::vector<VerdictSpan> spans;
  for (const TimedChange& timed : verdicts_in_order_of_time(ranks)) {
    const FaultVerdict verdict = verdict_of(timed);
    const auto at = open.try_emplace(verdict, Open{timed.change.at_ns, 0}).first;
    if (timed.change.kind == PathChange::Kind::blamed) {
      ++at->second.ranks;
      continue;
    }
    // A verdict that was reached before the run began has only its withdrawal here.
    if (at->second.ranks > 1) {
      --at->second.ranks;
      continue;
    }
    if (at->second.ranks == 1) spans.push_back({verdict, at->second.since_ns, timed.change.at_ns});
    open.erase(at);
  }
  for (const auto& [verdict, of] : open) spans.push_back({verdict, of.since_ns});
  std::stable_sort(spans.begin(), spans.end(), [](const VerdictSpan& a, const VerdictSpan& b) {
    return a.from_ns < b.from_ns;
  });
  return spans;
}

}  // namespace hawser::tool
