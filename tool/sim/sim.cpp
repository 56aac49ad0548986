// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/sim.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "tool/error.hpp"
#include "tool/interrupt.hpp"
#include "tool/run/memory.hpp"
#include "tool/sim/findings.hpp"
#include "tool/sim/plan_json.hpp"
#include "tool/sim/report.hpp"
#include "tool/sim/results.hpp"
#include "tool/sim/tables.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

using experiment::Plan;
using experiment::SeedRange;

constexpr double kMegabyte = 1e6;

SeedRange seeds_of(const Plan& plan, const SimOptions& options) {
  const SeedRange all = options.tune ? plan.tune : plan.judge;
  if (!options.seeds) return all;
  const auto [first, last] = *options.seeds;
  if (first >= all.first && last <= all.last) return {first, last};
  throw InputError(fmt::format("--seeds {}..{}: the plan's seeds to {} are {}..{}", first, last,
                               options.tune ? "tune" : "judge", all.first, all.last));
}

std::vector<RunName> runs_of(const std::vector<Plan>& plans, const SeedRange& seeds) {
  std::vector<RunName> runs;
  for (std::size_t point = 0; point < plans.size(); ++point) {
    for (std::size_t sender = 0; sender < plans[point].senders.size(); ++sender) {
      for (std::uint64_t i = 0; i < seeds.count(); ++i) {
        runs.push_back({point, sender, seeds.first + i});
      }
    }
  }
  return runs;
}

// As many jobs as memory has room for.
unsigned jobs_of(const SimOptions& options, const Plan& plan) {
  const double room = static_cast<double>(available_memory_bytes()) /
                      (static_cast<double>(plan.memory_mb) * kMegabyte);
  if (room >= options.jobs) return options.jobs;
  const auto fit = std::max(1u, static_cast<unsigned>(room));
  tell("{} concurrent runs instead of {}: one takes {} MB\n", fit, options.jobs, plan.memory_mb);
  return fit;
}

std::string line_of(const Findings& findings, const Group& group) {
  using experiment::Metric;
  const Plan& plan = findings.plans()[group.point];
  std::string place;
  for (std::size_t i = 0; i < plan.ranges.size(); ++i) {
    place += fmt::format("{} {}  ", plan.ranges[i].path, plan.values[i]);
  }
  std::string line = fmt::format("  {}{:<20}", place, plan.senders[group.sender]);
  const auto add = [&](const char* what, Metric metric) {
    const auto value = group.median(metric);
    line += fmt::format("  {} {:>10}", what, value ? said(metric, *value) : "none");
  };
  add("last flow", Metric::last_flow_us);
  add("p99 excess", Metric::p99_flow_excess_us);
  add("resent", Metric::retransmitted);
  return line + fmt::format("  {:.1f} CPU-s\n", group.cpu_s());
}

void tell(const Findings& findings, double share) {
  for (const Group& group : findings.groups()) {
    if (!group.runs.empty()) fmt::print("{}", line_of(findings, group));
  }
  fmt::print("{}\n", findings.verdict());
  const std::string cost = findings.excess_of_cost(share);
  if (!cost.empty()) fmt::print("{}\n", cost);
}

ExitCode run(const SimOptions& options, const std::vector<Plan>& plans, const SeedRange& seeds) {
  const std::vector<RunName> runs = runs_of(plans, seeds);
  ResultsFolder results(options.to);
  results.write("runs.csv", runs_head(plans));
  results.write("flows.csv", flows_head());
  results.write("series.csv", series_head());
  Findings findings(plans);
  const Work work = [&plans](const RunName& name) {
    const Plan& plan = plans[name.point];
    return experiment::run_trial(plan, plan.senders[name.sender], name.seed);
  };
  const auto number_of = [&](const RunName& name) {
    const std::size_t senders = plans.front().senders.size();
    return (name.point * senders + name.sender) * seeds.count() + (name.seed - seeds.first) + 1;
  };
  const auto take = [&](RunResult&& result) {
    const std::size_t number = number_of(result.name);
    results.write("runs.csv", runs_line(number, plans, result));
    results.write("flows.csv", flows_lines(number, result));
    results.write("series.csv", series_lines(number, result));
    findings.add(result);
  };
  const RunsEnd end =
      run_all(runs, work, jobs_of(options, plans.front()), interrupted, stderr, take);
  const double share = static_cast<double>(end.done) /
                       static_cast<double>(plans.size() * plans.front().senders.size() *
                                           plans.front().judge.count());
  if (end.done > 0) {
    results.write("report.html",
                  report_html(findings, {options.plan_file, seeds, runs.size(), share}));
    results.finish();
    tell(findings, share);
  }
  if (end.interrupted) {
    fmt::print("interrupted after {} of {} runs; {}\n", end.done, runs.size(),
               end.done > 0 ? "the results cover the runs that ended" : "there are no results");
  }
  if (end.done > 0) {
    fmt::print("in '{}': runs.csv, flows.csv, series.csv, report.html\n", options.to);
  }
  if (end.interrupted) return ExitCode::interrupted;
  return findings.holds() ? ExitCode::ok : ExitCode::wrong;
}

}  // namespace

ExitCode run_plan(const SimOptions& options) {
  catch_interrupts();
  const std::vector<Plan> plans = read_plans(options.plan_file);
  const SeedRange seeds = seeds_of(plans.front(), options);
  if (options.check_only) {
    fmt::print("{} runs: {} points, {} senders, seeds {}..{}\n", runs_of(plans, seeds).size(),
               plans.size(), plans.front().senders.size(), seeds.first, seeds.last);
    return ExitCode::ok;
  }
  return run(options, plans, seeds);
}

}  // namespace hawser::tool
