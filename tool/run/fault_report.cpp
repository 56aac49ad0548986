// SPDX-License-Identifier: Apache-2.0
#include "tool/run/fault_report.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tool/run/clock.hpp"
#include "tool/run/summary.hpp"

namespace hawser::tool {
namespace {

using Kind = TimedFault::Kind;
constexpr std::uint64_t kToTheEnd = VerdictSpan::kToTheEnd;

// Path events come a little after the fault. They may outlast it by the time that a path needs to
// prove itself again.
constexpr std::uint64_t kAftermathNs = 5'000'000'000;
// Ranks count their times from a barrier, which they don't leave at the same instant.
constexpr std::uint64_t kSkewNs = 10'000'000;

bool stops_packets(Kind kind) { return kind == Kind::kill_nic || kind == Kind::blackhole_nic; }

// One NIC, from the moment at which a fault hit it to its revival.
struct Hit {
  NicId nic;
  std::size_t fault = 0;  // index in the options
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = kToTheEnd;
  // A fault of every rank hits the ranks one after the other. By then paths to the first are down.
  std::uint64_t first_of_fault_ns = 0;

  [[nodiscard]] bool explains(const VerdictSpan& span) const {
    const FaultVerdict& verdict = span.verdict;
    const bool concerned = verdict.blames(nic) || (verdict.blame == Blame::link &&
                                                   (verdict.local == nic || verdict.remote == nic));
    return concerned && span.from_ns + kSkewNs >= first_of_fault_ns &&
           (to_ns == kToTheEnd || span.from_ns < to_ns + kAftermathNs);
  }
};

// The faults in a rank's `injected` must be in the order of time.
std::vector<Hit> hits_of(const RunOptions& options, const std::vector<RankResult>& results) {
  std::vector<Hit> hits;
  for (const RankResult& result : results) {
    for (auto fault = result.injected.begin(); fault != result.injected.end(); ++fault) {
      const TimedFault& plan = options.timed_faults.at(fault->index);
      if (!plan.of_nic() || plan.kind == Kind::revive_nic) continue;
      const auto revival = std::find_if(fault, result.injected.end(), [&](const Injected& later) {
        const TimedFault& other = options.timed_faults.at(later.index);
        return other.kind == Kind::revive_nic && other.nic == plan.nic;
      });
      hits.push_back({{result.rank, plan.nic},
                      fault->index,
                      fault->at_ns,
                      revival != result.injected.end() ? revival->at_ns : kToTheEnd});
    }
  }
  for (Hit& hit : hits) {
    hit.first_of_fault_ns = hit.from_ns;
    for (const Hit& other : hits) {
      if (other.fault != hit.fault) continue;
      hit.first_of_fault_ns = std::min(hit.first_of_fault_ns, other.from_ns);
    }
  }
  return hits;
}

std::optional<std::uint64_t> first_path_down(const Hit& hit,
                                             const std::vector<RankResult>& results) {
  std::optional<std::uint64_t> first;
  for (const RankResult& result : results) {
    for (const PathChange& change : result.path_changes) {
      const bool concerned = NicId{result.rank, change.nic} == hit.nic ||
                             (change.kind == PathChange::Kind::path_down &&
                              NicId{change.peer, change.remote_nic} == hit.nic);
      const bool down = change.kind == PathChange::Kind::path_down ||
                        change.kind == PathChange::Kind::driver_down;
      if (!concerned || !down) continue;
      if (change.at_ns + kSkewNs < hit.first_of_fault_ns || change.at_ns >= hit.to_ns) continue;
      if (!first || change.at_ns < *first) first = change.at_ns;
    }
  }
  return first;
}

std::optional<std::uint64_t> first_blame(const Hit& hit, const std::vector<VerdictSpan>& spans) {
  for (const VerdictSpan& span : spans) {
    if (span.verdict.blames(hit.nic) && hit.explains(span)) return span.from_ns;
  }
  return std::nullopt;
}

// A process that was started again counts its times from its own begin; the others wait for it
// then.
std::vector<RankResult> since_the_first_begin(std::vector<RankResult> results) {
  std::uint64_t first = ~std::uint64_t{0};
  for (const RankResult& result : results) {
    if (result.life == 0) first = std::min(first, result.begun_ns);
  }
  for (RankResult& result : results) {
    if (result.life == 0 || result.begun_ns < first) continue;
    const std::uint64_t later = result.begun_ns - first;
    for (Injected& fault : result.injected) fault.at_ns += later;
    for (PathChange& change : result.path_changes) change.at_ns += later;
  }
  return results;
}

std::vector<FaultRow> rows_of(const RunOptions& options) {
  std::vector<FaultRow> rows;
  for (const TimedFault& fault : options.timed_faults) {
    FaultRow row;
    row.text = fmt::format(
        "{}: {}", fault.rank ? fmt::format("rank {}", *fault.rank) : "every rank", describe(fault));
    row.when = fault.when;
    row.to_be_seen = stops_packets(fault.kind);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::uint64_t between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return to_ns > from_ns ? to_ns - from_ns : 0;
}

std::string delays_text(const Delays& delays, std::uint32_t of) {
  if (delays.n == 0) return "-";
  const std::string text = delays.n == 1
                               ? duration_text(delays.shortest_ns)
                               : fmt::format("{} to {}", duration_text(delays.shortest_ns),
                                             duration_text(delays.longest_ns));
  return delays.n == of ? text : fmt::format("{} ({} of {})", text, delays.n, of);
}

nlohmann::json delays_json(const Delays& delays) {
  return {{"n", delays.n}, {"shortest_ns", delays.shortest_ns}, {"longest_ns", delays.longest_ns}};
}

std::string name_of(const NicId& nic) {
  return fmt::format("NIC {} of rank {}", nic.nic, nic.rank);
}

}  // namespace

void Delays::add(std::uint64_t ns) {
  shortest_ns = n == 0 ? ns : std::min(shortest_ns, ns);
  longest_ns = std::max(longest_ns, ns);
  ++n;
}

std::string describe(const FaultVerdict& verdict) {
  switch (verdict.blame) {
    case Blame::local_nic: return name_of(verdict.local) + " (seen by its own paths)";
    case Blame::remote_nic: return name_of(verdict.remote) + " (seen by other ranks' paths)";
    case Blame::link:
      return fmt::format("the link between {} and {}", name_of(verdict.local),
                         name_of(verdict.remote));
    case Blame::nobody: break;
  }
  return {};
}

FaultReport compare_faults(const RunOptions& options, const std::vector<RankResult>& told) {
  FaultReport report;
  const std::vector<RankResult> results = since_the_first_begin(told);
  report.rows = rows_of(options);
  std::vector<RankPaths> all;
  for (const RankResult& result : results) {
    all.push_back({result.rank, result.path_changes});
    report.changes_left_out += result.path_changes_left_out;
  }
  const std::vector<VerdictSpan> spans = verdicts_of(all);
  const std::vector<Hit> hits = hits_of(options, results);
  for (const Hit& hit : hits) {
    FaultRow& row = report.rows[hit.fault];
    row.at_ns = row.hit == 0 ? hit.from_ns : std::min(row.at_ns, hit.from_ns);
    ++row.hit;
    if (!row.to_be_seen) continue;
    if (const auto at = first_path_down(hit, results)) row.path_down.add(between(hit.from_ns, *at));
    if (const auto at = first_blame(hit, spans)) row.blamed.add(between(hit.from_ns, *at));
    const auto own = std::find_if(all.begin(), all.end(),
                                  [&](const RankPaths& rank) { return rank.rank == hit.nic.rank; });
    if (const auto at = first_blame(hit, verdicts_of(std::span(own, 1)))) {
      row.blamed_by_own_rank.add(between(hit.from_ns, *at));
    }
  }
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(report.not_injected),
               [&](const VerdictSpan& span) {
                 // All NICs of a process that is gone are dead, until the next one is there.
                 const auto restarted = [&](const NicId& nic) {
                   return options.restarts_of(nic.rank) > 0;
                 };
                 if (restarted(span.verdict.local) || restarted(span.verdict.remote)) return false;
                 return std::none_of(hits.begin(), hits.end(),
                                     [&](const Hit& hit) { return hit.explains(span); });
               });
  return report;
}

std::string to_text(const FaultReport& report) {
  if (report.rows.empty() && report.not_injected.empty()) return {};
  std::string text = "injected faults, and the time until paths detected them (-: they did not):\n";
  for (const FaultRow& row : report.rows) {
    text += fmt::format("  {:3.0f}%  {}\n", 100 * row.when, row.text);
    if (!row.to_be_seen || row.hit == 0) continue;
    text += fmt::format(
        "        first path down: {}   NIC blamed by its rank's own paths: {}   by all ranks': "
        "{}\n",
        delays_text(row.path_down, row.hit), delays_text(row.blamed_by_own_rank, row.hit),
        delays_text(row.blamed, row.hit));
  }
  for (const VerdictSpan& span : report.not_injected) {
    text += fmt::format("  seen, but not injected: {}, from {:.2f} s ", describe(span.verdict),
                        seconds(span.from_ns));
    text += span.to_ns == kToTheEnd ? "to the end\n"
                                    : fmt::format("to {:.2f} s\n", seconds(span.to_ns));
  }
  if (report.changes_left_out > 0) {
    text += fmt::format("  {} changes of paths exceeded the limit and are left out\n",
                        report.changes_left_out);
  }
  return text + "\n";
}

nlohmann::json to_json(const FaultReport& report) {
  nlohmann::json injected = nlohmann::json::array();
  for (const FaultRow& row : report.rows) {
    injected.push_back({{"text", row.text},
                        {"when", row.when},
                        {"hit", row.hit},
                        {"at_ns", row.at_ns},
                        {"path_down", delays_json(row.path_down)},
                        {"blamed", delays_json(row.blamed)},
                        {"blamed_by_own_rank", delays_json(row.blamed_by_own_rank)}});
  }
  nlohmann::json others = nlohmann::json::array();
  for (const VerdictSpan& span : report.not_injected) {
    nlohmann::json one{{"verdict", describe(span.verdict)}, {"from_ns", span.from_ns}};
    if (span.to_ns != kToTheEnd) one["to_ns"] = span.to_ns;
    others.push_back(std::move(one));
  }
  return {{"injected", injected},
          {"not_injected", others},
          {"path_changes_left_out", report.changes_left_out}};
}

}  // namespace hawser::tool
