// SPDX-License-Identifier: Apache-2.0
// What faults leave to hosts, by hand calculation, and who is blamed rightly.
#include "sim/experiment/aftermath.hpp"

#include <catch2/catch.hpp>

#include "sim/experiment/trial.hpp"

namespace hawser::experiment {
namespace {

using fabric::Fault;
using fabric::Instant;
using fabric::kGigabit;
using fabric::microseconds;
using Kind = fabric::Fault::Kind;

Instant at(std::int64_t us) { return Instant{} + microseconds(us); }

// Four hosts of two NICs on rails: leaf 0 connects the first NIC of each host.
fabric::Shape rails() {
  fabric::Shape shape = fabric::leaf_spine(2, 4, 4, 100 * kGigabit, microseconds(1));
  shape.hosts = 4;
  shape.nics = 2;
  shape.placement = fabric::Placement::rails;
  return shape;
}

std::uint64_t left(const Struck& struck, std::int64_t us, Way way = Way::from_hosts) {
  return struck.bits_per_s(way, at(us)) / kGigabit;
}

TEST_CASE("struck__a_dead_nic_leaves_the_others_of_its_host") {
  const fabric::Wiring wiring(rails());
  const std::uint32_t port = wiring.port(1, 1);
  const Struck struck({{.at = at(50), .kind = Kind::link_up, .target = wiring.from_port(port)},
                       {.at = at(20), .kind = Kind::link_down, .target = wiring.from_port(port)}},
                      wiring);
  CHECK(struck.ports() == std::vector{wiring.port(1, 0), port});
  CHECK(struck.dead() == std::vector{port});
  for (const Way way : {Way::from_hosts, Way::to_hosts}) {
    CHECK(left(struck, 19, way) == 200);
    CHECK(left(struck, 20, way) == 100);
    CHECK(left(struck, 50, way) == 200);
    // 10 us at 200 Gb/s, 30 us at 100, 10 us at 200.
    CHECK(struck.bytes_between(way, at(10), at(60)) == 250'000 + 375'000 + 250'000);
  }
  CHECK_FALSE(struck.was_dead(port, at(19)));
  CHECK(struck.was_dead(port, at(20)));
  CHECK(struck.was_dead(port, at(90)));  // it may be blamed for earlier losses
  CHECK_FALSE(struck.was_dead(wiring.port(1, 0), at(90)));
}

TEST_CASE("struck__a_slow_nic_is_not_dead_and_one_way_of_it_may_be_slow") {
  const fabric::Wiring wiring(rails());
  const Struck struck({{.at = at(10),
                        .kind = Kind::link_rate,
                        .target = wiring.from_port(0),
                        .both_ways = false,
                        .bits_per_s = 25 * kGigabit}},
                      wiring);
  CHECK(left(struck, 10, Way::from_hosts) == 125);
  CHECK(left(struck, 10, Way::to_hosts) == 200);
  CHECK(struck.dead().empty());
}

TEST_CASE("struck__a_nic_that_is_dead_one_way_is_dead") {
  const fabric::Wiring wiring(rails());
  for (const Kind kind : {Kind::link_down, Kind::link_loss}) {
    const Struck struck({{.at = at(10),
                          .kind = kind,
                          .target = wiring.to_port(3),
                          .both_ways = false,
                          .probability = 1}},
                        wiring);
    CHECK(struck.dead() == std::vector{3u});
    CHECK(left(struck, 10, Way::from_hosts) == 100);
    CHECK(left(struck, 10, Way::to_hosts) == 100);
  }
}

TEST_CASE("struck__a_leaf_takes_a_nic_of_each_host_and_what_is_further_on_takes_none") {
  const fabric::Wiring wiring(rails());
  const std::uint32_t leaf = wiring.in_tier(0, 0);
  const Struck struck({{.at = at(10), .kind = Kind::switch_down, .target = leaf},
                       // The link is down twice.
                       {.at = at(20), .kind = Kind::link_down, .target = wiring.from_port(0)},
                       {.at = at(30), .kind = Kind::switch_up, .target = leaf}},
                      wiring);
  CHECK(struck.ports().size() == 8);
  CHECK(struck.dead() == std::vector{0u, 2u, 4u, 6u});
  CHECK(left(struck, 10) == 400);
  CHECK(left(struck, 30) == 700);
  const Struck beyond({{.kind = Kind::link_down, .target = wiring.up(leaf, 0)},
                       {.kind = Kind::switch_down, .target = wiring.in_tier(1, 0)},
                       {.kind = Kind::link_loss, .target = 0, .probability = 0.5}},
                      wiring);
  CHECK(beyond.ports().empty());
  CHECK(beyond.dead().empty());
}

// A carrier that makes the accusations that the test gives it.
class Accuser final : public Carrier {
 public:
  std::vector<Accusation> said;
  bool connect(fabric::Span) override { return true; }
  bool run(fabric::Span) override { return true; }
  [[nodiscard]] Instant begun() const override { return Instant{}; }
  [[nodiscard]] const FlowTimes& times(std::uint32_t) const override { return times_; }
  [[nodiscard]] CarrierTotals totals() const override { return {}; }
  [[nodiscard]] const std::vector<Accusation>* accusations() const override { return &said; }

 private:
  FlowTimes times_;
};

TEST_CASE("aftermath__paths_are_blamed_rightly_if_a_nic_of_theirs_had_died") {
  fabric::EventWheel events;
  fabric::Network network(events, rails(), 1);
  const Throughput all(events, network);
  const Aftermath aftermath(
      events, network,
      {{.at = at(20), .kind = Kind::link_down, .target = network.wiring().from_port(2)},
       {.at = at(30), .kind = Kind::link_down, .target = network.wiring().from_port(4)},
       {.at = at(40), .kind = Kind::link_down, .target = network.wiring().from_port(6)}},
      false);
  Accuser accuser;
  accuser.said = {{at(10), 0, 2},   // too soon
                  {at(25), 0, 2},   // right
                  {at(26), 2, 0},   // right: its own
                  {at(27), 4, 0},   // too soon
                  {at(35), 0, 4},   // right
                  {at(45), 1, 3}};  // neither
  const AftermathNumbers numbers = aftermath.conclude(accuser, all, false, at(100));
  CHECK(numbers.blamed_rightly == 3u);
  CHECK(numbers.blamed_wrongly == 3u);
  CHECK(numbers.unblamed == 1u);
  CHECK(numbers.blamed_ps == microseconds(15).ps);
  CHECK_FALSE(numbers.left_used);
}

Plan a_plan() {
  Plan plan;
  plan.fabric.shape = rails();
  plan.traffic.generator = "all_to_all";
  plan.traffic.numbers["bytes"] = 1'000'000;
  plan.faults = {{.kind = FaultPlan::Kind::link_down, .at = microseconds(60), .nics = 1}};
  return plan;
}

// The NIC's driver reports the death, and both ends go on with the remaining NICs.
TEST_CASE("aftermath__a_nic_whose_driver_says_that_it_is_dead_is_left_at_once") {
  const AftermathNumbers numbers = run_trial(a_plan(), "hawser", 3).numbers.aftermath;
  CHECK(numbers.blamed_rightly == 6u);  // by host 0 for each peer, and by each peer
  CHECK(numbers.blamed_wrongly == 0u);
  CHECK(numbers.unblamed == 0u);
  REQUIRE(numbers.blamed_ps);
  CHECK(*numbers.blamed_ps < microseconds(5).ps);
  REQUIRE(numbers.left_used);
  CHECK(*numbers.left_used > 0.9);
  CHECK(*numbers.left_used < 1.02);  // more than 1 because of packets in flight
}

// No driver reports the death. The sender has to miss an acknowledgement, which takes more than a
// round trip.
TEST_CASE("aftermath__a_nic_that_dies_silently_is_blamed_later") {
  Plan plan = a_plan();
  plan.faults[0].silent = true;
  plan.traffic.numbers["bytes"] = 4'000'000;
  const AftermathNumbers numbers = run_trial(plan, "hawser", 3).numbers.aftermath;
  CHECK(numbers.blamed_rightly > 0u);
  CHECK(numbers.blamed_wrongly == 0u);
  REQUIRE(numbers.blamed_ps);
  CHECK(*numbers.blamed_ps > microseconds(10).ps);
  CHECK(*numbers.blamed_ps < microseconds(20).ps);
}

// A link at half its rate is alive. A sender that never leaves a path blames nobody.
TEST_CASE("aftermath__nobody_is_blamed_for_being_slow") {
  Plan plan = a_plan();
  plan.faults[0].kind = FaultPlan::Kind::link_rate;
  plan.faults[0].bits_per_s = 50 * kGigabit;
  const AftermathNumbers numbers = run_trial(plan, "hawser", 3).numbers.aftermath;
  CHECK(numbers.blamed_rightly == 0u);
  CHECK(numbers.blamed_wrongly == 0u);
  REQUIRE(numbers.left_used);
  CHECK(*numbers.left_used > 0.9);
  CHECK_FALSE(run_trial(plan, "oblivious", 3).numbers.aftermath.blamed_wrongly);
  plan.faults.clear();
  const TrialNumbers whole = run_trial(plan, "hawser", 3).numbers;
  CHECK(whole.value(Metric::blamed_wrongly) == 0.0);
  CHECK_FALSE(whole.value(Metric::left_used));
  CHECK_FALSE(whole.value(Metric::capacity_back_us));
}

}  // namespace
}  // namespace hawser::experiment
