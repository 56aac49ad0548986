// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/findings.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

using experiment::Metric;
using experiment::Plan;

constexpr std::size_t kMostTimes = 4000;  // kept of a run
constexpr double kMegabyte = 1e6;

std::vector<std::int64_t> times_of(const experiment::Trial& trial) {
  std::vector<std::int64_t> all;
  for (const experiment::FlowResult& flow : trial.flows) {
    if (flow.has_ended()) all.push_back(flow.took_ps());
  }
  std::ranges::sort(all);
  if (all.size() <= kMostTimes) return all;
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < kMostTimes; ++i) {
    some.push_back(all[i * (all.size() - 1) / (kMostTimes - 1)]);
  }
  return some;
}

// The values, sorted from the best to the worst; nothing if one is missing.
std::optional<std::vector<double>> values_of(const std::vector<KeptRun>& runs, Metric metric) {
  std::vector<double> values;
  for (const KeptRun& run : runs) {
    const auto value = run.failure.empty() ? run.numbers.value(metric) : std::nullopt;
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  if (experiment::more_is_better(metric)) std::ranges::reverse(values);
  return values;
}

}  // namespace

std::string said(Metric metric, double value) {
  switch (metric) {
    case Metric::last_flow_over_ideal: return fmt::format("{:.3f} of the ideal", value);
    case Metric::goodput: return fmt::format("{:.1f} Gb/s", value);
    case Metric::retransmitted: return fmt::format("{:.0f} packets", value);
    case Metric::left_used: return fmt::format("{:.3f} of what is left", value);
    case Metric::blamed_wrongly: return fmt::format("{:.0f} paths", value);
    case Metric::resent_in_vain: return fmt::format("{:.5f} of the packets", value);
    default: return fmt::format("{:.1f} us", value);
  }
}

std::optional<double> Group::median(Metric metric) const {
  const auto values = values_of(runs, metric);
  if (!values) return std::nullopt;
  return (*values)[(values->size() - 1) / 2];
}

std::optional<double> Group::worst(Metric metric) const {
  const auto values = values_of(runs, metric);
  return values ? std::optional<double>(values->back()) : std::nullopt;
}

double Group::cpu_s() const {
  double sum = 0;
  for (const KeptRun& run : runs) sum += run.cpu_s;
  return sum;
}

Findings::Findings(const std::vector<Plan>& plans) : plans_(plans) {
  for (std::size_t point = 0; point < plans.size(); ++point) {
    for (std::size_t sender = 0; sender < plans[point].senders.size(); ++sender) {
      groups_.push_back({point, sender, {}});
    }
  }
}

void Findings::add(const RunResult& result) {
  Group& group = groups_[result.name.point * plans_.front().senders.size() + result.name.sender];
  KeptRun run;
  run.seed = result.name.seed;
  run.failure = result.failure;
  run.sessions_up = result.trial.sessions_up;
  run.numbers = result.trial.numbers;
  run.cpu_s = result.cpu_s;
  run.memory_bytes = result.memory_bytes;
  run.took_ps = times_of(result.trial);
  run.lasted_ps = result.trial.lasted_ps;
  run.slices = result.trial.slices;
  run.faults = result.trial.faults;
  if (group.runs.empty()) run.links = result.trial.links;
  group.runs.push_back(std::move(run));
  ++runs_;
}

double Findings::cpu_s() const {
  double sum = 0;
  for (const Group& group : groups_) sum += group.cpu_s();
  return sum;
}

std::uint64_t Findings::memory_bytes() const {
  std::uint64_t most = 0;
  for (const Group& group : groups_) {
    for (const KeptRun& run : group.runs) most = std::max(most, run.memory_bytes);
  }
  return most;
}

std::string Findings::place_of(const Group& group, const KeptRun& run) const {
  const Plan& plan = plans_[group.point];
  std::string place = plan.senders[group.sender];
  for (std::size_t i = 0; i < plan.ranges.size(); ++i) {
    place += fmt::format(", {} {}", plan.ranges[i].path, plan.values[i]);
  }
  return place + fmt::format(", seed {}", run.seed);
}

std::string Findings::who_died() const {
  for (const Group& group : groups_) {
    for (const KeptRun& run : group.runs) {
      if (!run.failure.empty()) return place_of(group, run) + ": " + run.failure;
    }
  }
  return {};
}

std::optional<Findings::Worst> Findings::worst_run() const {
  const Metric metric = plans_.front().metric;
  std::optional<Worst> worst;
  for (const Group& group : groups_) {
    if (group.sender != 0) continue;
    for (const KeptRun& run : group.runs) {
      const auto value = run.failure.empty() ? run.numbers.value(metric) : std::nullopt;
      const bool is_worse =
          !worst || (worst->value &&
                     (!value || (experiment::more_is_better(metric) ? *value < *worst->value
                                                                    : *value > *worst->value)));
      if (is_worse) worst = Worst{&group, &run, value};
    }
  }
  return worst;
}

bool Findings::holds() const {
  const auto worst = worst_run();
  return worst && worst->value && who_died().empty() &&
         experiment::holds(plans_.front().metric, plans_.front().expected, *worst->value);
}

std::string Findings::verdict() const {
  const Plan& plan = plans_.front();
  const auto worst = worst_run();
  if (!worst) return "there is no run to judge";
  const std::string died = who_died();
  if (!died.empty()) return "a run died: " + died;
  const std::string place = place_of(*worst->group, *worst->run);
  const std::string bound = fmt::format(
      "{} {} was expected", experiment::more_is_better(plan.metric) ? "at least" : "at most",
      said(plan.metric, plan.expected.bound));
  std::string text = fmt::format("the expectation {}: {} ", holds() ? "holds" : "does not hold",
                                 experiment::name_of(plan.metric));
  if (worst->value) {
    text += fmt::format("is {} at worst ({})", said(plan.metric, *worst->value), place);
  } else if (!worst->run->sessions_up) {
    text +=
        fmt::format("has no value, as sessions did not come up in {} ({})",
                    said(Metric::last_flow_us, static_cast<double>(plan.limit.ps) * 1e-6), place);
  } else {
    const auto& numbers = worst->run->numbers;
    text += numbers.ended < numbers.flows
                ? fmt::format("has no value, as {} of {} flows ended ({})", numbers.ended,
                              numbers.flows, place)
                : fmt::format("has no value, as it is never reached ({})", place);
  }
  text += fmt::format("; {}", bound);
  if (plan.expected.figure == 0) return text + fmt::format(" ({})", plan.expected.source);
  return text + fmt::format("; for comparison: {} ({})", said(plan.metric, plan.expected.figure),
                            plan.expected.source);
}

std::string Findings::excess_of_cost(double share) const {
  const Plan& plan = plans_.front();
  std::string text;
  if (cpu_s() > 2 * plan.runtime_s * share) {
    text = fmt::format("it took {:.1f} CPU-seconds, but the plan states {:.1f}", cpu_s(),
                       plan.runtime_s * share);
  }
  const double megabytes = static_cast<double>(memory_bytes()) / kMegabyte;
  if (megabytes > 2 * static_cast<double>(plan.memory_mb)) {
    text += text.empty() ? "it took " : "; and ";
    text +=
        fmt::format("{:.0f} MB in one process, but the plan states {}", megabytes, plan.memory_mb);
  }
  return text;
}

}  // namespace hawser::tool
