// SPDX-License-Identifier: Apache-2.0
// Histograms and sums over storms, and the report about them.
#include "tool/storm/totals.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "proto/base/random.hpp"
#include "tool/storm/report.hpp"

namespace hawser::tool {
namespace {

TEST_CASE("storm_histogram__quantiles_are_within_a_sixteenth_and_merging_is_adding") {
  proto::Random random(5);
  const auto all = std::make_unique<Histogram>();
  const auto parts = std::make_unique<std::array<Histogram, 3>>();
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t value = random.next() >> random.below(64);
    values.push_back(value);
    all->add(value);
    (*parts)[static_cast<std::size_t>(i) % 3].add(value);
  }
  Histogram merged;
  for (const Histogram& part : *parts) merged.merge(part);
  merged.merge(Histogram{});
  std::ranges::sort(values);
  for (const double q : {0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    const std::uint64_t exact =
        values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
    CAPTURE(q, exact);
    CHECK(all->quantile(q) <= exact);
    CHECK(all->quantile(q) >= exact - exact / 16 - (exact % 16 != 0));
    CHECK(merged.quantile(q) == all->quantile(q));
  }
  CHECK(merged.count() == 3000);
  CHECK(merged.sum() == all->sum());
  CHECK(merged.least() == values.front());
  CHECK(merged.most() == values.back());
}

TEST_CASE("storm_histogram__small_values_are_exact_and_the_largest_fit") {
  for (std::uint64_t value = 0; value < 32; ++value) {
    Histogram histogram;
    histogram.add(0);
    histogram.add(value);
    histogram.add(1000);
    CHECK(histogram.quantile(0.5) == value);
  }
  Histogram histogram;
  CHECK(histogram.quantile(0.5) == 0);
  histogram.add(~std::uint64_t{0});
  CHECK(histogram.quantile(0.5) == ~std::uint64_t{0});
}

sim::Plan plan_of(std::size_t messages) {
  sim::Plan plan;
  plan.messages.resize(messages);
  for (sim::MessagePlan& message : plan.messages) message.bytes = 100;
  return plan;
}

sim::StormOutcome outcome_of(std::uint64_t packets, std::uint32_t of_each_fault) {
  sim::StormOutcome outcome;
  outcome.packets = packets;
  outcome.faults.fill(of_each_fault);
  return outcome;
}

TEST_CASE("storm_totals__marks_are_exact_at_their_limits") {
  const auto totals = std::make_unique<Totals>();
  const auto holds = [&] {
    std::vector<bool> all;
    for (const Mark& mark : marks(*totals)) all.push_back(mark.holds);
    return all;
  };
  totals->add(plan_of(1), outcome_of(1999, 0), 0);
  CHECK(holds() == std::vector<bool>{false, false, false});
  totals->add(plan_of(1), outcome_of(2000, 1), 0);
  CHECK(holds() == std::vector<bool>{true, true, true});
  for (int i = 0; i < 18; ++i) totals->add(plan_of(1), outcome_of(5000, 0), 0);
  CHECK(holds() == std::vector<bool>{true, false, true});  // one in twenty
  totals->add(plan_of(1), outcome_of(5000, 0), 0);
  CHECK(holds() == std::vector<bool>{true, false, false});
  CHECK(marks(*totals)[2].text.find("loss (4.8%)") != std::string::npos);
}

// Storms of partners and storms with stale epochs have marks of their own.
TEST_CASE("storm_totals__each_range_of_seeds_has_its_marks") {
  const auto totals = std::make_unique<Totals>();
  const auto texts_of_missed = [&] {
    std::string texts;
    for (const Mark& mark : marks(*totals)) texts += mark.holds ? "" : mark.text + "\n";
    return texts;
  };
  sim::Plan plan = plan_of(1);
  plan.seed = sim::kFirstOfPartners;
  sim::StormOutcome outcome = outcome_of(1500, 1);
  for (const sim::FaultKind kind :
       {sim::FaultKind::strangers, sim::FaultKind::narrow, sim::FaultKind::stale_epoch}) {
    outcome.faults[static_cast<std::size_t>(kind)] = 0;
  }
  const auto visit = [&](std::string_view cell, bool is_visited) {
    outcome.census.counts[sim::find_census_cell(cell)] = is_visited ? 1 : 0;
  };
  for (const char* cell : {"place:given_away", "place:call_refused", "place:none_here",
                           "place:let_in_later", "place:name_forgotten", "place:old_name_used"}) {
    visit(cell, true);
  }
  totals->add(plan, outcome, 0);
  CHECK(marks(*totals).size() == 4);
  CHECK(texts_of_missed() ==
        "partners: each event of its own in 2% of the seeds, but for "
        "place:kept_by_the_rest (0.0%)\n");
  visit("place:kept_by_the_rest", true);
  totals->add(plan, outcome, 0);
  CHECK(texts_of_missed() == "");

  plan.seed = sim::kFirstOfEpochs;
  totals->add(plan, outcome, 0);
  CHECK(marks(*totals).size() == 8);
  CHECK_THAT(texts_of_missed(),
             Catch::Contains("epochs: 2000 packets or more") &&
                 Catch::Contains("strangers (0.0%), narrow (0.0%), stale_epoch (0.0%)") &&
                 Catch::Contains("reason:stale_epoch (0.0%), way:narrow_session (0.0%)"));
  // Storms of other ranges don't help to reach the marks.
  plan.seed = 1;
  totals->add(plan, outcome_of(5000, 1), 0);
  CHECK_THAT(texts_of_missed(), Catch::Contains("stale_epoch (0.0%)"));
}

TEST_CASE("storm_totals__count_times_and_seeds_and_name_what_was_missed") {
  const auto totals = std::make_unique<Totals>();
  const auto other = std::make_unique<Totals>();
  sim::StormOutcome outcome = outcome_of(10, 2);
  const std::size_t cell = sim::find_census_cell("drop:bad_mac");
  CHECK(std::ranges::count(unvisited(*totals), "drop:bad_mac") == 1);
  outcome.census.counts[cell] = 7;
  outcome.failed_sessions = 3;
  outcome.digest = 0xabc;
  totals->add(plan_of(4), outcome, 5000);
  other->add(plan_of(2), outcome_of(20, 0), 7000);
  other->add(plan_of(2), outcome, 7000);
  totals->merge(*other);
  CHECK(totals->runs == 3);
  CHECK(totals->digest == 2 * 0xabc);
  CHECK(totals->census[cell].times == 14);
  CHECK(totals->census[cell].seeds == 2);
  CHECK(totals->failed_sessions.times == 6);
  CHECK(totals->failed_sessions.seeds == 2);
  CHECK(totals->faults[0].times == 4);
  CHECK(totals->dead_processes.times == 12);
  CHECK(totals->of(Quantity::message_bytes).count() == 8);
  CHECK(totals->of(Quantity::wall_us).most() == 7);
  CHECK(std::ranges::count(unvisited(*totals), "drop:bad_mac") == 0);
  CHECK(std::ranges::count(unvisited(*totals), "path_state:DOWN") == 1);

  SwarmResult result;
  result.totals = *totals;
  result.done = 3;
  result.wall_s = 2;
  const nlohmann::json json = to_json({}, result);
  CHECK(json["runs_per_s"] == 1.5);
  CHECK(json["packets_per_s"] == 20);
  CHECK(json["digest"] == "0000000000001578");
  CHECK(json["visited"]["drop"]["bad_mac"]["times"] == 14);
  CHECK(json["faults"]["restart"]["seeds"] == 2);
  CHECK(json["quantities"]["packets"]["p50"] == 10);
  CHECK(json["marks"].size() == 3);
  CHECK(json["failures"] == 0);
  const std::string text = to_text({}, result, {});
  for (const char* const part : {"1.5 runs/s", "no failure", "bad_mac 14 (67%)", "never visited",
                                 "path_state:DOWN", "holds   5 faults", "MISSED  2000 packets"}) {
    CAPTURE(part, text);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace hawser::tool
