// SPDX-License-Identifier: Apache-2.0
// The findings that summarize several runs, and the verdict on the expectation.
#include "tool/sim/findings.hpp"

#include <catch2/catch.hpp>

namespace hawser::tool {
namespace {

using experiment::Metric;
using experiment::Plan;

constexpr std::int64_t kUs = 1'000'000;

std::vector<Plan> a_plan() {
  Plan plan;
  plan.metric = Metric::last_flow_us;
  plan.expected = {100, 90, "a paper"};
  plan.senders = {"hawser", "other"};
  plan.runtime_s = 10;
  plan.memory_mb = 100;
  return {plan};
}

RunResult run_of(std::size_t sender, std::uint64_t seed, std::int64_t last_us) {
  RunResult result;
  result.name = {0, sender, seed};
  result.cpu_s = 3;
  result.memory_bytes = 50'000'000;
  result.trial.sessions_up = true;
  result.trial.numbers.flows = result.trial.numbers.ended = 1;
  result.trial.numbers.ideal_ps = 50 * kUs;
  if (last_us > 0) {
    result.trial.numbers.last_ps = last_us * kUs;
    result.trial.numbers.bytes = 10'000;
  } else {
    result.trial.numbers.ended = 0;
  }
  return result;
}

TEST_CASE("sim_findings__every_run_of_the_first_sender_must_hold") {
  const auto plans = a_plan();
  Findings findings(plans);
  CHECK_FALSE(findings.holds());
  findings.add(run_of(0, 1, 80));
  findings.add(run_of(0, 2, 100));
  findings.add(run_of(1, 1, 500));
  CHECK(findings.holds());
  CHECK(
      findings.verdict() ==
      "the expectation holds: last_flow_us is 100.0 us at worst (hawser, seed 2); at most 100.0 us "
      "was expected; for comparison: 90.0 us (a paper)");
  findings.add(run_of(0, 3, 101));
  CHECK_FALSE(findings.holds());
  CHECK(findings.verdict().starts_with("the expectation does not hold: last_flow_us is 101.0 us"));
}

TEST_CASE("sim_findings__what_has_no_number_holds_nothing") {
  const auto plans = a_plan();
  Findings findings(plans);
  findings.add(run_of(0, 1, 80));
  findings.add(run_of(0, 2, 0));
  findings.add(run_of(0, 3, 300));
  CHECK_FALSE(findings.holds());
  CHECK(findings.verdict().starts_with(
      "the expectation does not hold: last_flow_us has no value, as 0 of 1 flows ended "
      "(hawser, seed 2); at most"));
  CHECK_FALSE(findings.group(0, 0).median(Metric::last_flow_us));
}

TEST_CASE("sim_findings__a_run_that_died_is_what_is_told") {
  const auto plans = a_plan();
  Findings findings(plans);
  findings.add(run_of(0, 1, 80));
  RunResult dead;
  dead.name = {0, 1, 1};
  dead.failure = "died of signal 11 (Segmentation fault)";
  findings.add(dead);
  CHECK_FALSE(findings.holds());
  CHECK(findings.verdict() == "a run died: other, seed 1: died of signal 11 (Segmentation fault)");
}

TEST_CASE("sim_findings__medians_and_worst_are_of_all_seeds") {
  const auto plans = a_plan();
  Findings findings(plans);
  for (const std::int64_t us : {30, 10, 40, 20}) {
    findings.add(run_of(0, static_cast<std::uint64_t>(us), us));
  }
  const Group& group = findings.group(0, 0);
  CHECK(group.median(Metric::last_flow_us) == 20.0);
  CHECK(group.worst(Metric::last_flow_us) == 40.0);
  CHECK(group.median(Metric::last_flow_over_ideal) == 0.4);
  // More goodput is better, so the worst value is the least.
  CHECK(*group.worst(Metric::goodput) == Approx(2));
  CHECK(*group.median(Metric::goodput) == Approx(4));
}

TEST_CASE("sim_findings__more_than_twice_the_cost_is_told") {
  const auto plans = a_plan();
  Findings findings(plans);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) findings.add(run_of(0, seed, 80));
  CHECK(findings.cpu_s() == 18.0);
  CHECK(findings.excess_of_cost(1) == "");
  CHECK(findings.excess_of_cost(0.5) == "it took 18.0 CPU-seconds, but the plan states 5.0");
  RunResult large = run_of(0, 7, 80);
  large.memory_bytes = 201'000'000;
  findings.add(large);
  CHECK(findings.excess_of_cost(0.5) ==
        "it took 21.0 CPU-seconds, but the plan states 5.0; and 201 MB in one process, but the "
        "plan states 100");
}

TEST_CASE("sim_findings__very_many_flows_are_thinned_evenly") {
  const auto plans = a_plan();
  Findings findings(plans);
  RunResult result = run_of(0, 1, 80);
  result.trial.flows.resize(100'000);
  for (std::size_t i = 0; i < result.trial.flows.size(); ++i) {
    result.trial.flows[i].started_ps = 0;
    result.trial.flows[i].ended_ps = static_cast<std::int64_t>(i);
  }
  findings.add(result);
  const auto& took = findings.group(0, 0).runs[0].took_ps;
  CHECK(took.size() == 4000);
  CHECK(took.front() == 0);
  CHECK(took.back() == 99'999);
  CHECK(took[2000] == Approx(50'000).margin(30));
}

}  // namespace
}  // namespace hawser::tool
