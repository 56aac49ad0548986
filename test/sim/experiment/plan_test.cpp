// SPDX-License-Identifier: Apache-2.0
// Complaints about a plan, the points of its ranges, its faults and its traffic.
#include "sim/experiment/plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <ranges>
#include <set>

#include "sim/experiment/traffic.hpp"

namespace hawser::experiment {
namespace {

using fabric::kGigabit;
using fabric::microseconds;

Plan a_plan() {
  Plan plan;
  plan.question = "How long does it take?";
  plan.expected = {100, 0, "a guess"};
  plan.runtime_s = 1;
  plan.memory_mb = 50;
  plan.tune = {1, 10};
  plan.judge = {11, 20};
  plan.fabric.shape = fabric::leaf_spine(2, 4, 4, 100 * kGigabit, microseconds(1));
  plan.traffic.generator = "permutation";
  plan.traffic.numbers["bytes"] = 10'000;
  plan.senders = {"hawser"};
  return plan;
}

std::string complaint(const std::function<void(Plan&)>& spoil) {
  Plan plan = a_plan();
  spoil(plan);
  return complaint_about(plan);
}

TEST_CASE("plan__nothing_is_wrong_with_a_good_one") { CHECK(complaint_about(a_plan()) == ""); }

TEST_CASE("plan__seeds_to_judge_by_are_none_that_were_tuned_with") {
  CHECK(complaint([](Plan& plan) {
          plan.judge = {10, 20};
        }) == "seeds: tune and judge have 10 in common: a seed that tunes can't also judge");
  CHECK(complaint([](Plan& plan) {
          plan.judge = {5, 5};
        }) == "seeds: tune and judge have 5 in common: a seed that tunes can't also judge");
  CHECK(complaint([](Plan& plan) {
          plan.judge = {11, 2'000'000};
        }) == "seeds: at most 1000000 of a kind");
}

TEST_CASE("plan__fabrics_are_what_an_experiment_can_have") {
  CHECK(complaint([](Plan& plan) {
          plan.fabric.shape = fabric::one_switch(9000, 100 * kGigabit, {});
        }) == "fabric: 9000 hosts, but an experiment has at most 8192");
  CHECK(complaint([](Plan& plan) { plan.fabric.shape.queue.capacity = 4000; }) ==
        "fabric.queue_bytes: 4000 is less than a packet, which has up to 4442");
  CHECK(complaint([](Plan& plan) { plan.fabric.shape.queue.trim_to = 4442; }) ==
        "fabric.trim_to_bytes: 4442 is no less than a packet");
  CHECK(complaint([](Plan& plan) { plan.fabric.shape.hosts = 7; }) ==
        "fabric: 7 ports don't fill leaves of 4");
  CHECK(complaint([](Plan& plan) { plan.fabric.nic.overhead_bytes = 2000; }) ==
        "fabric.overhead_bytes: a packet has at most 1024 besides its datagram");
}

TEST_CASE("plan__traffic_fits_the_fabric") {
  CHECK(complaint([](Plan& plan) {
          plan.traffic = {"a.cm", {9, {{.from = 0, .to = 8, .bytes = 5}}, {}}, "", {}};
        }) == "traffic: the matrix has 9 nodes, but the fabric only 8 hosts");
  CHECK(complaint([](Plan& plan) {
          plan.traffic.generator.clear();
          plan.traffic.file = "big.cm";
          plan.traffic.matrix.nodes = 2;
          plan.traffic.matrix.connections = {
              {.from = 0, .to = 1, .bytes = std::uint64_t{1} << 31, .line = 7}};
        }) ==
        "traffic: big.cm:7: a connection of 2147483648 bytes, but an experiment's have at most "
        "1073741824");
  CHECK(complaint([](Plan& plan) {
          plan.traffic = {"a.cm", {2, {}, {}}, "", {}};
        }) == "traffic: there is no connection");
  CHECK(complaint([](Plan& plan) { plan.traffic.generator = "storm"; }) ==
        "traffic: there is no generator 'storm'; there are ring, butterfly, doubling, all_to_all, "
        "incast, permutation, moe and background");
  CHECK(complaint([](Plan& plan) { plan.traffic.numbers["window"] = 1; }) ==
        "traffic: 'permutation' has no 'window'");
  CHECK(complaint([](Plan& plan) { plan.traffic.numbers.clear(); }) ==
        "traffic: 'permutation' needs 'bytes'");
  CHECK(complaint([](Plan& plan) { plan.traffic.numbers["bytes"] = 0; }) ==
        "traffic: 'bytes' is 0, but must be 1 to 1073741824");
}

TEST_CASE("plan__what_is_beside_the_traffic_is_named_where_it_is_wrong") {
  const auto with = [](const char* name, std::uint64_t value) {
    return complaint([&](Plan& plan) {
      plan.traffic.beside = {{"bytes", 9}, {"load_percent", 9}, {"gbps", 9}, {"duration_us", 9}};
      plan.traffic.beside[name] = value;
    });
  };
  CHECK(with("bytes", 9) == "");
  CHECK(with("bytes", 0) == "traffic.beside: 'bytes' is 0, but must be 1 to 16777216");
  CHECK(with("window", 1) == "traffic.beside: 'background' has no 'window'");
  CHECK(complaint([](Plan& plan) {
          plan.traffic.beside = {{"bytes", 9}};
        }) == "traffic.beside: 'background' needs 'load_percent'");
}

// A plan is checked with one seed, and must be right for all.
TEST_CASE("plan__no_seed_draws_a_connection_that_is_too_long") {
  const auto background = [](std::uint64_t bytes) {
    return complaint([&](Plan& plan) {
      plan.traffic.generator = "background";
      plan.traffic.numbers = {
          {"bytes", bytes}, {"load_percent", 40}, {"gbps", 100}, {"duration_us", 50'000}};
    });
  };
  CHECK(background(1 << 24) == "");
  CHECK(background((1 << 24) + 1) == "traffic: 'bytes' is 16777217, but must be 1 to 16777216");
  const auto moe = [](std::uint64_t bytes, std::uint64_t experts) {
    return complaint([&](Plan& plan) {
      plan.traffic.generator = "moe";
      plan.traffic.numbers = {{"bytes", bytes}, {"tokens", 1024}, {"experts", experts}};
    });
  };
  CHECK(moe(1 << 20, 8) == "");
  CHECK(moe((1 << 20) + 1, 8) ==
        "traffic: all 1024 tokens of a node, of 1048577 bytes each, may go to one other node, but "
        "an experiment's connections have at most 1073741824 bytes");
  CHECK(moe(1 << 19, 9) == "");  // two of them at one node
  CHECK(moe(1 << 20, 9) != "");
}

TEST_CASE("plan__a_background_alone_has_no_steps_to_judge_by") {
  const auto with = [](Metric metric, const std::string& generator) {
    return complaint([&](Plan& plan) {
      plan.metric = metric;
      plan.traffic.generator = generator;
      plan.traffic.numbers["bytes"] = 10'000;
      if (generator != "background") return;
      plan.traffic.numbers = {
          {"bytes", 10'000}, {"load_percent", 40}, {"gbps", 100}, {"duration_us", 500}};
    });
  };
  CHECK(with(Metric::p99_step_excess_us, "background") ==
        "metric: p99_step_excess_us needs steps, and the messages of a background have none");
  CHECK(with(Metric::p99_flow_excess_us, "background") == "");
  CHECK(with(Metric::p99_step_excess_us, "ring") == "");
}

fabric::ConnectionMatrix an_incast(std::uint32_t senders) {
  fabric::ConnectionMatrix matrix{senders + 2, {}, {}};
  for (std::uint32_t i = 1; i <= senders; ++i) {
    matrix.connections.push_back({.from = i, .to = 0, .bytes = 200'000});
  }
  matrix.connections.push_back({.from = 0, .to = senders + 1, .bytes = 5});
  return matrix;
}

TEST_CASE("plan__a_group_is_what_comes_to_one_receiver_at_one_time") {
  const auto with = [](const std::function<void(fabric::ConnectionMatrix&)>& spoil) {
    return complaint([&](Plan& plan) {
      plan.traffic = {"a.cm", an_incast(3), "", {}, true};
      spoil(plan.traffic.matrix);
    });
  };
  CHECK(with([](auto&) {}) == "");
  CHECK(with([](auto& matrix) {
          matrix.connections.erase(matrix.connections.begin() + 1, matrix.connections.end());
        }) == "traffic: 'group': no node receives more than one message");
  const std::string apart = "traffic: 'group': the messages to node 0 don't start at one time";
  CHECK(with([](auto& matrix) { matrix.connections[2].start = fabric::Instant{1}; }) == apart);
  CHECK(with([](auto& matrix) {
          matrix.triggers = {{.id = 1}};
          matrix.connections[3].when_received = 1;
          matrix.connections[0].trigger = 1;
        }) == apart);
}

TEST_CASE("traffic__a_group_of_a_matrix_is_in_the_hints_of_its_messages") {
  TrafficPlan traffic{"a.cm", an_incast(3), "", {}, true};
  const auto hints = [&] {
    std::vector<std::pair<std::uint32_t, std::uint16_t>> all;
    for (const auto& one : make_matrix(traffic, 8, 1).connections) {
      all.emplace_back(one.hint.group, one.hint.members);
    }
    return all;
  };
  using Hints = std::vector<std::pair<std::uint32_t, std::uint16_t>>;
  CHECK(hints() == Hints{{1, 3}, {1, 3}, {1, 3}, {0, 0}});
  traffic.group = false;
  CHECK(hints() == Hints(4));
  traffic = {"a.cm", an_incast(70'000), "", {}, true};
  CHECK(hints().front() == std::pair<std::uint32_t, std::uint16_t>{1, 65535});
}

TEST_CASE("plan__senders_and_words_are_there") {
  CHECK(complaint([](Plan& plan) {
          plan.senders = {"hawser", "tcp"};
        }).starts_with("senders: there is no 'tcp'; there are hawser, "));
  CHECK(complaint([](Plan& plan) {
          plan.senders = {"hawser", "hawser"};
        }) == "senders: 'hawser' is named twice");
  CHECK(complaint([](Plan& plan) { plan.senders.clear(); }) == "senders: there is none");
  CHECK(complaint([](Plan& plan) { plan.question.clear(); }).starts_with("question: "));
  CHECK(complaint([](Plan& plan) { plan.expected.source.clear(); }).starts_with("expect.source: "));
  CHECK(complaint([](Plan& plan) { plan.runtime_s = 0; }).starts_with("runtime_s: "));
  CHECK(complaint([](Plan& plan) { plan.memory_mb = 0; }).starts_with("memory_mb: "));
  CHECK(complaint([](Plan& plan) { plan.metric = Metric::capacity_back_us; }) ==
        "metric: capacity_back_us counts from the first fault, and there is none");
  CHECK(complaint([](Plan& plan) { plan.metric = Metric::left_used; }) ==
        "metric: left_used counts from the first fault, and there is none");
}

TEST_CASE("plan__faults_strike_what_there_is") {
  const auto with = [](FaultPlan fault) {
    return complaint([&](Plan& plan) { plan.faults = {std::move(fault)}; });
  };
  CHECK(with({.link = "leaf 1 -> spine 3"}) == "");
  CHECK(with({.link = "leaf 1 -> spine 4"}) ==
        "faults: the fabric has no link 'leaf 1 -> spine 4'; its links are called "
        "'host 0 nic 0 -> leaf 0' to 'spine 3 -> leaf 1'");
  CHECK(with({.kind = FaultPlan::Kind::switch_down, .at_switch = "spine 3"}) == "");
  CHECK(with({.kind = FaultPlan::Kind::switch_down, .at_switch = "core 0"}) ==
        "faults: the fabric has no switch 'core 0'");
  CHECK(with({.drawn = 8}) == "");
  CHECK(with({.drawn = 9}) == "faults: 9 cables can't be drawn from 8");
  CHECK(with({}) ==
        "faults[0]: it hits nothing: name a link, a number of cables, or NICs of a host");
  CHECK(with({.kind = FaultPlan::Kind::switch_down, .drawn = 1}) ==
        "faults[0].switch: a name is expected");
}

TEST_CASE("plan__a_fault_ends_within_the_longest_run") {
  const fabric::Span longest = microseconds(1'000'000'000);
  const auto with = [](FaultPlan fault) {
    fault.drawn = 1;
    return complaint([&](Plan& plan) { plan.faults = {FaultPlan{.drawn = 1}, fault}; });
  };
  const std::string once = "faults[1].lasts_us: with at_us, it ends after 1000000000 us";
  CHECK(with({.at = longest}) == "");
  CHECK(with({.at = fabric::Span{1}, .lasts = longest}) == once);
  CHECK(with({.at = fabric::Span{1}, .lasts = longest - fabric::Span{1}}) == "");
  const auto flaps = [&](fabric::Span at, std::uint32_t times, fabric::Span every) {
    return with({.at = at, .lasts = fabric::Span{1}, .times = times, .every = every});
  };
  const std::string again = "faults[1].every_us: with at_us and lasts_us, the last of ";
  CHECK(flaps({}, 10'000, longest) == again + "10000 ends after 1000000000 us");
  CHECK(flaps({}, 2, longest) == again + "2 ends after 1000000000 us");
  CHECK(flaps({}, 2, longest - fabric::Span{1}) == "");
  CHECK(flaps(fabric::Span{1}, 2, longest - fabric::Span{1}) ==
        again + "2 ends after 1000000000 us");
  CHECK(flaps({}, 1'001, microseconds(1'000'000)) == again + "1001 ends after 1000000000 us");
  CHECK(flaps({}, 1'000, microseconds(1'000'000)) == "");
}

TEST_CASE("plan__points_are_all_combinations_the_last_range_fastest") {
  CHECK(points_of({}) == std::vector<std::vector<std::size_t>>{{}});
  const std::vector<Range> ranges{{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  CHECK(points_of(ranges) ==
        std::vector<std::vector<std::size_t>>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
}

TEST_CASE("plan__a_fault_that_lasts_ends_as_it_began") {
  Plan plan = a_plan();
  const fabric::Wiring wiring(plan.fabric.shape);
  plan.faults = {{.kind = FaultPlan::Kind::link_rate,
                  .at = microseconds(5),
                  .lasts = microseconds(7),
                  .link = "leaf 0 -> spine 2",
                  .bits_per_s = 10 * kGigabit}};
  const auto faults = faults_of(plan, wiring, 1, fabric::Instant{1000});
  REQUIRE(faults.size() == 2);
  CHECK(wiring.name(faults[0].target) == "leaf 0 -> spine 2");
  CHECK(faults[0].at == fabric::Instant{1000} + microseconds(5));
  CHECK(faults[0].bits_per_s == 10 * kGigabit);
  CHECK(faults[1].at == fabric::Instant{1000} + microseconds(12));
  CHECK(faults[1].bits_per_s == 100 * kGigabit);
}

TEST_CASE("plan__a_fault_of_a_host_strikes_its_first_nics_the_way_that_it_says") {
  Plan plan = a_plan();
  plan.fabric.shape.nics = 4;
  plan.fabric.shape.hosts = 2;
  const fabric::Wiring wiring(plan.fabric.shape);
  const auto struck = [&](FaultPlan::Ways ways) {
    plan.faults = {{.host = 1, .nics = 2, .ways = ways, .silent = true}};
    std::vector<std::string> names;
    for (const auto& fault : faults_of(plan, wiring, 1, {})) {
      CHECK(fault.both_ways == (ways == FaultPlan::Ways::both));
      CHECK(fault.silent);
      names.push_back(wiring.name(fault.target));
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const Names from{"host 1 nic 0 -> leaf 1", "host 1 nic 1 -> leaf 1"};
  CHECK(struck(FaultPlan::Ways::both) == from);
  CHECK(struck(FaultPlan::Ways::from) == from);
  CHECK(struck(FaultPlan::Ways::to) == Names{"leaf 1 -> host 1 nic 0", "leaf 1 -> host 1 nic 1"});
  const auto refused = [&](FaultPlan fault) {
    plan.faults = {std::move(fault)};
    return complaint_about(plan);
  };
  CHECK(refused({.host = 2, .nics = 1}) == "faults: the fabric has no host 2: they are 0 to 1");
  CHECK(refused({.host = 1, .nics = 5}) == "faults: 5 NICs can't be hit, as a host has only 4");
}

TEST_CASE("plan__a_fault_that_comes_again_ends_in_between") {
  Plan plan = a_plan();
  const fabric::Wiring wiring(plan.fabric.shape);
  plan.faults = {{.at = microseconds(5),
                  .lasts = microseconds(2),
                  .link = "leaf 0 -> spine 2",
                  .times = 3,
                  .every = microseconds(10)}};
  const auto faults = faults_of(plan, wiring, 1, {});
  REQUIRE(faults.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    using Kind = fabric::Fault::Kind;
    const auto begun = microseconds(static_cast<std::int64_t>(5 + 10 * (i / 2) + 2 * (i % 2)));
    CHECK(faults[i].kind == (i % 2 == 0 ? Kind::link_down : Kind::link_up));
    CHECK(faults[i].at == fabric::Instant{} + begun);
  }
}

TEST_CASE("plan__drawn_faults_follow_from_the_seed") {
  Plan plan = a_plan();
  const fabric::Wiring wiring(plan.fabric.shape);
  plan.faults = {{.drawn = 3}};
  std::set<std::vector<std::uint32_t>> drawn;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<std::uint32_t> targets;
    for (const auto& fault : faults_of(plan, wiring, seed, {})) targets.push_back(fault.target);
    CHECK(std::set(targets.begin(), targets.end()).size() == 3);
    drawn.insert(targets);
    std::vector<std::uint32_t> again;
    for (const auto& fault : faults_of(plan, wiring, seed, {})) again.push_back(fault.target);
    CHECK(again == targets);
  }
  CHECK(drawn.size() > 10);
}

TEST_CASE("plan__a_bound_is_from_above_unless_more_is_better") {
  const Expectation expected{100, 0, ""};
  CHECK(holds(Metric::last_flow_us, expected, 100));
  CHECK_FALSE(holds(Metric::last_flow_us, expected, 100.1));
  CHECK(holds(Metric::goodput, expected, 100));
  CHECK_FALSE(holds(Metric::goodput, expected, 99.9));
  CHECK(holds(Metric::left_used, expected, 100));
  CHECK_FALSE(holds(Metric::left_used, expected, 99.9));
}

TEST_CASE("traffic__a_permutation_gives_each_host_one_sender_and_one_receiver") {
  TrafficPlan traffic{"", {}, "permutation", {{"bytes", 7}}};
  const auto matrix = make_matrix(traffic, 50, 3);
  std::set<std::uint32_t> from;
  std::set<std::uint32_t> to;
  for (const auto& one : matrix.connections) {
    CHECK(one.from != one.to);
    CHECK(one.bytes == 7);
    from.insert(one.from);
    to.insert(one.to);
  }
  CHECK(from.size() == 50);
  CHECK(to.size() == 50);
  const auto other = make_matrix(traffic, 50, 4);
  CHECK(std::ranges::any_of(std::views::iota(0, 50), [&](std::size_t i) {
    return other.connections[i].to != matrix.connections[i].to;
  }));
}

TEST_CASE("traffic__an_incast_has_one_receiver") {
  TrafficPlan traffic{"", {}, "incast", {{"bytes", 7}, {"senders", 5}}};
  const auto matrix = make_matrix(traffic, 50, 3);
  std::set<std::uint32_t> from;
  for (const auto& one : matrix.connections) {
    CHECK(one.to == matrix.connections[0].to);
    CHECK(one.from != one.to);
    from.insert(one.from);
  }
  CHECK(from.size() == 5);
  traffic.numbers.erase("senders");
  CHECK(make_matrix(traffic, 50, 3).connections.size() == 49);
  traffic.numbers["senders"] = 50;
  CHECK_THROWS_WITH(make_matrix(traffic, 50, 3), Catch::Contains("need more than 50 nodes"));
  traffic.numbers["senders"] = 2'000'000;
  CHECK_THROWS_WITH(make_matrix(traffic, 50, 3), "'senders' is 2000000, but must be 0 to 1000000");
}

TEST_CASE("traffic__collectives_are_made_by_their_numbers") {
  TrafficPlan traffic{"", {}, "ring", {{"bytes", 8000}, {"rounds", 2}}};
  CHECK(make_matrix(traffic, 8, 1).connections.size() == 2 * 8 * 14);
  traffic = {"", {}, "all_to_all", {{"bytes", 8000}, {"window", 2}}};
  CHECK(make_matrix(traffic, 8, 1).connections.size() == 8 * 7);
  traffic.numbers["skew_percent"] = 1;
  CHECK_THROWS_WITH(make_matrix(traffic, 8, 1), "'all_to_all' has no 'skew_percent'");
  traffic = {"", {}, "moe", {{"bytes", 100}}};
  CHECK_THROWS_WITH(make_matrix(traffic, 8, 1), "'moe' needs 'tokens'");
  traffic.numbers["tokens"] = 20;
  CHECK_FALSE(make_matrix(traffic, 8, 1).connections.empty());
}

TEST_CASE("traffic__a_background_has_the_load_that_its_numbers_say") {
  TrafficPlan traffic{
      "", {}, "background", {{"bytes", 10'000}, {"load_percent", 40}, {"gbps", 100}}};
  CHECK_THROWS_WITH(make_matrix(traffic, 8, 1), "'background' needs 'duration_us'");
  traffic.numbers["duration_us"] = 10'000;
  std::uint64_t bytes = 0;
  for (const auto& one : make_matrix(traffic, 8, 1).connections) {
    bytes += one.bytes;
    CHECK(one.start < fabric::Instant{} + microseconds(10'000));
  }
  CHECK(static_cast<double>(bytes) == Approx(8 * 0.4 * 125e6).epsilon(0.1));
  traffic.numbers["load_percent"] = 101;
  CHECK_THROWS_WITH(make_matrix(traffic, 8, 1), "'load_percent' is 101, but must be 1 to 100");
}

TEST_CASE("traffic__what_is_beside_it_comes_behind_its_own_connections") {
  TrafficPlan traffic{"", {}, "ring", {{"bytes", 8000}}};
  traffic.priority = 3;
  const auto own = make_matrix(traffic, 8, 1);
  auto matrix = own;
  add_beside(traffic, 8, 1, matrix);
  CHECK(matrix.connections.size() == own.connections.size());
  traffic.beside = {{"bytes", 10'000}, {"load_percent", 40}, {"gbps", 100}, {"duration_us", 500}};
  add_beside(traffic, 8, 1, matrix);
  REQUIRE(matrix.connections.size() > own.connections.size());
  for (std::size_t i = 0; i < matrix.connections.size(); ++i) {
    const auto& one = matrix.connections[i];
    CHECK(one.hint.priority == (i < own.connections.size() ? 3 : 0));
    if (i >= own.connections.size()) CHECK(one.step + one.trigger + one.hint.group == 0);
  }
  CHECK(matrix.triggers.size() == own.triggers.size());
  traffic.beside.erase("gbps");
  CHECK_THROWS_WITH(add_beside(traffic, 8, 1, matrix), "'background' needs 'gbps'");
}

}  // namespace
}  // namespace hawser::experiment
