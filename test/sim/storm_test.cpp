// SPDX-License-Identifier: Apache-2.0
// Storms of some seeds; and one seed gives one run.
#include <catch2/catch.hpp>
#include <vector>

#include "sim/storm/plan_check.hpp"
#include "sim/storm/storm.hpp"

namespace hawser::test {
namespace {

// Only a few seeds, so that every preset runs them; `hawser storm` runs any number.
constexpr std::uint64_t kSeeds = 150;

TEST_CASE("storm__of_the_first_seeds") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const sim::StormOutcome outcome = sim::run_storm(sim::draw_plan(seed));
    INFO("seed " << seed);
    CHECK(outcome.verdict == "");
  }
}

// With more partners than places newcomers are accepted, are refused, and get the places of others.
TEST_CASE("storm__of_partners_that_come_and_go") {
  sim::Census sum;
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    const sim::Plan plan = sim::draw_plan(sim::kFirstOfPartners + i);
    INFO("seed " << plan.seed);
    CHECK(sim::complaint_about(plan) == "");
    const sim::StormOutcome outcome = sim::run_storm(plan);
    CHECK(outcome.verdict == "");
    for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
      sum.counts[cell] += outcome.census.counts[cell];
    }
  }
  for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
    const sim::CensusRow& row = sim::census_rows()[cell];
    const bool is_of_places = row.group == sim::CensusGroup::place || row.name == "peer_full" ||
                              row.name == "peer_refused";
    if (!is_of_places || !row.expected) continue;
    INFO(sim::census_cell_name(cell));
    CHECK(sum.counts[cell] > 0);
  }
}

// Routes with a smaller MTU than the NICs, and processes whose epoch is no higher than the last
// one.
TEST_CASE("storm__of_narrow_ways_and_stale_epochs") {
  sim::Census sum;
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    const sim::Plan plan = sim::draw_plan(sim::kFirstOfEpochs + i);
    INFO("seed " << plan.seed);
    CHECK(sim::complaint_about(plan) == "");
    CHECK_FALSE(sim::has_few_places(plan));
    const sim::StormOutcome outcome = sim::run_storm(plan);
    CHECK(outcome.verdict == "");
    for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
      sum.counts[cell] += outcome.census.counts[cell];
    }
  }
  for (const char* cell :
       {"way:narrow_session", "way:narrowest_session", "way:fragmented", "reason:stale_epoch"}) {
    INFO(cell);
    CHECK(sum.counts[sim::find_census_cell(cell)] > 0);
  }
}

// Writes, reads, atomics, flushes and withdrawals under all faults.
TEST_CASE("storm__of_one_sided_operations") {
  sim::Census sum;
  for (std::uint64_t i = 0; i < kSeeds; ++i) {
    const sim::Plan plan = sim::draw_plan(sim::kFirstOfOneSided + i);
    INFO("seed " << plan.seed);
    CHECK(sim::complaint_about(plan) == "");
    const sim::StormOutcome outcome = sim::run_storm(plan);
    CHECK(outcome.verdict == "");
    for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
      sum.counts[cell] += outcome.census.counts[cell];
    }
  }
  for (std::size_t cell = 0; cell < sim::kCensusCells; ++cell) {
    const sim::CensusRow& row = sim::census_rows()[cell];
    if (row.group != sim::CensusGroup::one_sided || !row.expected) continue;
    INFO(sim::census_cell_name(cell));
    CHECK(sum.counts[cell] > 0);
  }
}

// Lower seeds keep the plans that they had before one-sided operations existed.
TEST_CASE("storm__one_sided_operations_are_those_of_later_seeds") {
  for (const std::uint64_t first : {std::uint64_t{1}, sim::kFirstOfPartners, sim::kFirstOfEpochs}) {
    for (std::uint64_t seed = first; seed < first + 20; ++seed) {
      INFO("seed " << seed);
      CHECK(sim::draw_plan(seed).one_sided.empty());
    }
  }
}

// Lower seeds keep the plans that they had before these faults existed.
TEST_CASE("storm__narrow_ways_and_stale_epochs_are_those_of_later_seeds") {
  for (const std::uint64_t first : {std::uint64_t{1}, sim::kFirstOfPartners}) {
    for (std::uint64_t seed = first; seed < first + 20; ++seed) {
      const sim::Plan plan = sim::draw_plan(seed);
      INFO("seed " << seed);
      CHECK(sim::first_epoch(plan) == 1);
      for (const sim::FaultPlan& fault : plan.faults) {
        CHECK(fault.kind != sim::FaultKind::narrow);
        CHECK(fault.kind != sim::FaultKind::stale_epoch);
      }
    }
  }
}

// Lower seeds keep the plans that they had before partners existed.
TEST_CASE("storm__partners_are_those_of_later_seeds") {
  for (const std::uint64_t seed : {sim::kFirstOfPartners - 1, std::uint64_t{12634}}) {
    const sim::Plan plan = sim::draw_plan(seed);
    INFO("seed " << seed);
    CHECK_FALSE(sim::has_few_places(plan));
    for (const sim::HostPlan& host : plan.hosts) CHECK(host.starts.ns == 0);
  }
  const sim::Plan plan = sim::draw_plan(sim::kFirstOfPartners);
  CHECK(plan.hosts.back().starts > plan.heals_at);
}

TEST_CASE("storm__a_seed_is_a_run") {
  std::uint64_t last = 0;
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t i = 0; i < 20; ++i) seeds.push_back(1 + i);
  for (std::uint64_t i = 0; i < 10; ++i) seeds.push_back(sim::kFirstOfPartners + i);
  for (const std::uint64_t seed : seeds) {
    INFO("seed " << seed);
    const sim::StormOutcome one = sim::run_storm(sim::draw_plan(seed));
    const sim::StormOutcome two = sim::run_storm(sim::draw_plan(seed));
    CHECK(one.digest == two.digest);
    CHECK(one.events == two.events);
    CHECK(one.lasted == two.lasted);
    CHECK(one.digest != last);
    last = one.digest;
  }
}

}  // namespace
}  // namespace hawser::test
