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
  dead_processes.add(times(sim::FaultKind::crash) + times(sim::FaultKind::restart));
  for (std::size_t i = 0; i < sim::kCensusCells; ++i) census[i].add(outcome.census.counts[i]);
  runs_with_packets_wanted += outcome.packets >= kPacketsWanted;
  runs_with_faults_wanted += begun >= kFaultsWanted;
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
  events += other.events;
  turns += other.turns;
  failed_sessions.merge(other.failed_sessions);
  dead_processes.merge(other.dead_processes);
  runs_with_packets_wanted += other.runs_with_packets_wanted;
  runs_with_faults_wanted += other.runs_with_faults_wanted;
  for (std::size_t i = 0; i < faults.size(); ++i) faults[i].merge(other.faults[i]);
  for (std::size_t i = 0; i < census.size(); ++i) census[i].merge(other.census[i]);
  for (std::size_t i = 0; i < kQuantities; ++i) quantities[i].merge(other.quantities[i]);
}

std::vector<Mark> marks(const Totals& totals) {
  std::vector<Mark> all;
  all.push_back({fmt::format("{} packets or more in half of the seeds: the median is {}",
                             kPacketsWanted, totals.of(Quantity::packets).quantile(0.5)),
                 2 * totals.runs_with_packets_wanted >= totals.runs});
  all.push_back({fmt::format("{} faults or more in half of the seeds: the median is {}",
                             kFaultsWanted, totals.of(Quantity::faults).quantile(0.5)),
                 2 * totals.runs_with_faults_wanted >= totals.runs});
  std::string rare;
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
    const auto seeds = static_cast<double>(totals.faults[i].seeds);
    const auto runs = static_cast<double>(totals.runs);
    if (seeds >= kFaultShareWanted * runs) continue;
    rare += fmt::format("{}{} ({:.1f}%)", rare.empty() ? "" : ", ", sim::kFaultNames[i],
                        100 * seeds / runs);
  }
  all.push_back({fmt::format("each kind of fault in {:.0f}% of the seeds{}{}",
                             100 * kFaultShareWanted, rare.empty() ? "" : ", but for ", rare),
                 rare.empty()});
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
