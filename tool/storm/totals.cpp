// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/totals.hpp"

#include <fmt/format.h>

namespace hawser::tool {
namespace {

std::uint64_t microseconds_of(proto::Duration duration) {
  return duration.ns < 0 ? 0 : static_cast<std::uint64_t>(duration.ns) / 1000;
}

}  // namespace

void Totals::add(const sim::Plan& plan, const sim::StormOutcome& outcome, std::uint64_t wall_ns) {
  const auto put = [&](Quantity quantity, std::uint64_t value) {
    quantities[static_cast<std::size_t>(quantity)].add(value);
  };
  ++runs;
  digest += outcome.digest;
  events += outcome.events;
  turns += outcome.turns;
  failed_sessions.add(outcome.failed_sessions);
  std::uint64_t begun = 0, kinds = 0;
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
    faults[i].add(outcome.faults[i]);
    begun += outcome.faults[i];
    kinds += outcome.faults[i] > 0;
  }
  const auto times = [&](sim::FaultKind kind) {
    return outcome.faults[static_cast<std::size_t>(kind)];
  };
  dead_processes.add(times(sim::FaultKind::crash) + times(sim::FaultKind::restart) +
                     times(sim::FaultKind::stale_epoch));
  for (std::size_t i = 0; i < sim::kCensusCells; ++i) census[i].add(outcome.census.counts[i]);
  const std::size_t range = seed_range_of(plan.seed);
  ranges[range].add(kSeedRanges[range], outcome, begun);
  put(Quantity::packets, outcome.packets);
  put(Quantity::frames, outcome.frames);
  put(Quantity::messages, plan.messages.size());
  for (const sim::MessagePlan& message : plan.messages) put(Quantity::message_bytes, message.bytes);
  put(Quantity::faults, begun);
  put(Quantity::fault_kinds, kinds);
  put(Quantity::completions, outcome.completions);
  put(Quantity::virtual_us, microseconds_of(outcome.lasted));
  put(Quantity::after_healing_us, microseconds_of(outcome.after_healing));
  put(Quantity::wall_us, wall_ns / 1000);
}

void Totals::merge(const Totals& other) {
  runs += other.runs;
  digest += other.digest;
  events += other.events;
  turns += other.turns;
  failed_sessions.merge(other.failed_sessions);
  dead_processes.merge(other.dead_processes);
  for (std::size_t i = 0; i < ranges.size(); ++i) ranges[i].merge(other.ranges[i]);
  for (std::size_t i = 0; i < faults.size(); ++i) faults[i].merge(other.faults[i]);
  for (std::size_t i = 0; i < census.size(); ++i) census[i].merge(other.census[i]);
  for (std::size_t i = 0; i < kQuantities; ++i) quantities[i].merge(other.quantities[i]);
}

namespace {

// Whether plans of that range have faults of that kind.
bool draws(const StormRange& range, sim::FaultKind kind) {
  const bool is_newer = kind == sim::FaultKind::narrow || kind == sim::FaultKind::stale_epoch;
  if (is_newer) return range.first >= sim::kFirstOfEpochs;
  return kind != sim::FaultKind::strangers || !sim::has_partners(range.first);
}

// Whether the range exists for the event that the cell counts.
bool is_there_for(const StormRange& range, std::size_t cell) {
  const sim::CensusRow& row = sim::census_rows()[cell];
  if (!row.expected) return false;
  if (sim::has_partners(range.first)) return row.group == sim::CensusGroup::place;
  if (range.first >= sim::kFirstOfOneSided) return row.group == sim::CensusGroup::one_sided;
  return range.first >= sim::kFirstOfEpochs &&
         (row.group == sim::CensusGroup::way ||
          (row.group == sim::CensusGroup::reason && row.name == "stale_epoch"));
}

class RangeMarks {
 public:
  RangeMarks(const StormRange& range, const RangeTotals& totals, std::vector<Mark>& all)
      : range_(range), totals_(totals), all_(all) {}

  void add() {
    add_median("packets", range_.packets, totals_.packets, totals_.runs_with_packets_wanted);
    add_median("faults", range_.faults, totals_.faults, totals_.runs_with_faults_wanted);
    for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
      if (!draws(range_, static_cast<sim::FaultKind>(i))) continue;
      note(sim::kFaultNames[i], totals_.seeds_with_fault[i], range_.fault_share);
    }
    add_share("each kind of fault", range_.fault_share);
    if (range_.cell_share == 0) return;
    for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
      if (!is_there_for(range_, cell)) continue;
      note(sim::census_cell_name(cell), totals_.seeds_with_cell[cell], range_.cell_share);
    }
    add_share("each event of its own", range_.cell_share);
  }

 private:
  [[nodiscard]] std::string prefix() const {
    return range_.name.empty() ? "" : fmt::format("{}: ", range_.name);
  }
  void add_median(std::string_view what, std::uint64_t wanted, const Histogram& histogram,
                  std::uint64_t enough) {
    all_.push_back({fmt::format("{}{} {} or more in half of the seeds: the median is {}", prefix(),
                                wanted, what, histogram.quantile(0.5)),
                    2 * enough >= totals_.runs});
  }
  void note(std::string_view name, std::uint64_t seeds, double wanted) {
    const auto runs = static_cast<double>(totals_.runs);
    const auto with_it = static_cast<double>(seeds);
    if (with_it >= wanted * runs) return;
    rare_ += fmt::format("{}{} ({:.1f}%)", rare_.empty() ? "" : ", ", name, 100 * with_it / runs);
  }
  void add_share(std::string_view what, double wanted) {
    all_.push_back({fmt::format("{}{} in {:g}% of the seeds{}{}", prefix(), what, 100 * wanted,
                                rare_.empty() ? "" : ", but for ", rare_),
                    rare_.empty()});
    rare_.clear();
  }

  const StormRange& range_;
  const RangeTotals& totals_;
  std::vector<Mark>& all_;
  std::string rare_;
};

}  // namespace

std::size_t seed_range_of(std::uint64_t seed) {
  std::size_t range = 0;
  for (std::size_t i = 0; i < kSeedRanges.size(); ++i) {
    if (seed >= kSeedRanges[i].first) range = i;
  }
  return range;
}

void RangeTotals::add(const StormRange& range, const sim::StormOutcome& outcome,
                      std::uint64_t begun) {
  ++runs;
  runs_with_packets_wanted += outcome.packets >= range.packets;
  runs_with_faults_wanted += begun >= range.faults;
  packets.add(outcome.packets);
  faults.add(begun);
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) seeds_with_fault[i] += outcome.faults[i] > 0;
  for (std::size_t i = 0; i < sim::kCensusCells; ++i) {
    seeds_with_cell[i] += outcome.census.counts[i] > 0;
  }
}

void RangeTotals::merge(const RangeTotals& other) {
  runs += other.runs;
  runs_with_packets_wanted += other.runs_with_packets_wanted;
  runs_with_faults_wanted += other.runs_with_faults_wanted;
  packets.merge(other.packets);
  faults.merge(other.faults);
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
    seeds_with_fault[i] += other.seeds_with_fault[i];
  }
  for (std::size_t i = 0; i < sim::kCensusCells; ++i)
    seeds_with_cell[i] += other.seeds_with_cell[i];
}

std::vector<Mark> marks(const Totals& totals) {
  std::vector<Mark> all;
  for (std::size_t i = 0; i < kSeedRanges.size(); ++i) {
    if (totals.ranges[i].runs > 0) RangeMarks(kSeedRanges[i], totals.ranges[i], all).add();
  }
  return all;
}

std::vector<std::string> unvisited(const Totals& totals) {
  std::vector<std::string> names;
  for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
    if (sim::census_rows()[cell].expected && totals.census[cell].times == 0) {
      names.push_back(sim::census_cell_name(cell));
    }
  }
  return names;
}

}  // namespace hawser::tool
