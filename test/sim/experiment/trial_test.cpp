// SPDX-License-Identifier: Apache-2.0
// A run's numbers, compared with hand calculation where there is one, and its throughput.
#include "sim/experiment/trial.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "sim/experiment/throughput.hpp"

namespace hawser::experiment {
namespace {

using fabric::Instant;
using fabric::kGigabit;
using fabric::microseconds;

Plan a_plan() {
  Plan plan;
  plan.fabric.shape = fabric::leaf_spine(2, 4, 4, 100 * kGigabit, microseconds(1));
  plan.traffic.generator = "permutation";
  plan.traffic.numbers["bytes"] = 200'000;
  plan.senders = {"hawser"};
  return plan;
}

// Sends packets into a port at given times.
class Source final : public fabric::Actor {
 public:
  Source(fabric::EventWheel& events, fabric::Network& network)
      : events_(events), network_(network) {}
  // Sends `count` packets of 1250 bytes, one each 100 ns: the full rate of the cable.
  void at(Instant begin, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      events_.at(begin + fabric::nanoseconds(100) * i, *this, 0);
    }
  }
  void on_event(Instant, std::uint32_t) override {
    const fabric::PacketId id = network_.packets().take();
    fabric::Packet& packet = network_.packets().at(id);
    packet.from = 0;
    packet.to = 1;
    packet.wire_bytes = 1250;
    network_.send(id);
  }

 private:
  fabric::EventWheel& events_;
  fabric::Network& network_;
};

struct Scene {
  fabric::EventWheel events;
  fabric::Network network{events, fabric::one_switch(2, 100 * kGigabit, {}), 1};
  Source source{events, network};
  Throughput throughput{events, network};
  void until(Instant end) {
    while (events.next() <= end) events.step();
  }
};

TEST_CASE("throughput__slices_are_what_came_in_them") {
  Scene scene;
  scene.source.at(Instant{}, 100);  // the last one arrives at 10.2 us
  scene.source.at(Instant{} + microseconds(30), 100);
  scene.until(Instant{} + microseconds(50));
  const auto slices = scene.throughput.slices(Instant{}, Instant{} + microseconds(50), 5);
  CHECK(std::accumulate(slices.begin(), slices.end(), std::uint64_t{0}) == 200 * 1250);
  CHECK(slices[0] == Approx(98 * 1250).margin(2 * 1250));
  CHECK(slices[1] == Approx(2 * 1250).margin(2 * 1250));
  CHECK(slices[2] == 0);
  CHECK(slices[4] == Approx(2 * 1250).margin(2 * 1250));
}

// There are more samples than the recorder keeps, so their distance has doubled many times.
TEST_CASE("throughput__long_runs_forget_every_other_look") {
  Scene scene;
  for (int i = 0; i < 100; ++i) scene.source.at(Instant{} + microseconds(100 * i), 100);
  const Instant end = Instant{} + microseconds(10'000);
  scene.until(end);
  const auto slices = scene.throughput.slices(Instant{}, end, 50);
  CHECK(std::accumulate(slices.begin(), slices.end(), std::uint64_t{0}) == 10'000 * 1250);
  for (const std::uint64_t slice : slices) {
    CHECK(slice == Approx(200 * 1250).margin(10 * 1250));
  }
}

TEST_CASE("throughput__capacity_is_back_when_as_much_comes_again") {
  Scene scene;
  scene.source.at(Instant{}, 500);                     // until 50 us
  scene.source.at(Instant{} + microseconds(80), 700);  // from 80 us to 150 us
  scene.until(Instant{} + microseconds(200));
  const Instant fault = Instant{} + microseconds(50);
  const fabric::Span back =
      capacity_back(scene.throughput, Instant{}, fault, Instant{} + microseconds(150));
  // With windows of 10 us, nine tenths of one are full from 79 us on.
  CHECK(back >= microseconds(28));
  CHECK(back <= microseconds(31));
  CHECK(capacity_back(scene.throughput, Instant{}, Instant{} + microseconds(100),
                      Instant{} + microseconds(150)) == fabric::Span{});
}

TEST_CASE("throughput__capacity_that_does_not_come_back_is_never_back") {
  Scene scene;
  scene.source.at(Instant{}, 500);
  // From then on packets come at half the rate.
  for (std::uint32_t i = 0; i < 500; ++i) {
    scene.source.at(Instant{} + microseconds(50) + fabric::nanoseconds(200) * i, 1);
  }
  scene.until(Instant{} + microseconds(150));
  CHECK(capacity_back(scene.throughput, Instant{}, Instant{} + microseconds(50),
                      Instant{} + microseconds(150))
            .ps == fabric::kNever.ps);
}

TEST_CASE("throughput__looks_that_are_far_apart_tell_nothing_of_moments") {
  Scene scene;
  scene.source.at(Instant{}, 500);
  const Instant end = Instant{} + microseconds(8192 * 6);
  scene.until(end);
  CHECK(scene.throughput.resolution() > microseconds(5));
  CHECK(capacity_back(scene.throughput, Instant{}, Instant{} + microseconds(20), end).ps ==
        fabric::kNever.ps);
}

// Half of the cables' capacity is left, so that rate is enough, although it was higher before. A
// burst of held-up packets is not enough.
TEST_CASE("throughput__where_it_is_known_what_is_left_that_is_enough") {
  Scene scene;
  scene.source.at(Instant{}, 500);
  // Half the rate from 70 us on, and a burst of 10 us before.
  scene.source.at(Instant{} + microseconds(55), 80);
  for (std::uint32_t i = 0; i < 700; ++i) {
    scene.source.at(Instant{} + microseconds(80) + fabric::nanoseconds(200) * i, 1);
  }
  const Instant end = Instant{} + microseconds(220);
  scene.until(end);
  const auto back = [&](std::uint64_t gigabits) {
    return capacity_back(scene.throughput, Instant{}, Instant{} + microseconds(50), end,
                         gigabits * kGigabit);
  };
  CHECK(back(50) >= microseconds(25));
  CHECK(back(50) <= microseconds(31));
  // 19 twentieths of 52.5 Gb/s are 49.9; 19 twentieths of 53 Gb/s are more.
  CHECK(back(52) <= microseconds(31));
  CHECK(back(53).ps == fabric::kNever.ps);
}

// Flows end, and the last bytes come slowly. That is no lack of capacity.
TEST_CASE("throughput__what_comes_when_nearly_all_has_come_is_not_looked_at") {
  Scene scene;
  scene.source.at(Instant{}, 1000);  // until 100 us
  scene.source.at(Instant{} + microseconds(118), 10);
  const Instant end = Instant{} + microseconds(120);
  scene.until(end);
  CHECK(capacity_back(scene.throughput, Instant{}, Instant{} + microseconds(50), end) ==
        fabric::Span{});
}

TEST_CASE("trial__percentiles_are_of_the_nearest_rank") {
  std::vector<std::int64_t> values(200);
  std::iota(values.begin(), values.end(), 1);
  CHECK(percentile(values, 50, 100) == 100);
  CHECK(percentile(values, 99, 100) == 198);
  CHECK(percentile({7}, 99, 100) == 7);
  CHECK(percentile({7, 8}, 0, 100) == 7);
}

TEST_CASE("trial__numbers_are_those_of_its_flows") {
  const Plan plan = a_plan();
  const Trial trial = run_trial(plan, "hawser", 5);
  REQUIRE(trial.sessions_up);
  REQUIRE(trial.flows.size() == 8);
  std::int64_t last = 0;
  std::int64_t worst = -1;
  for (const FlowResult& flow : trial.flows) {
    CHECK(flow.started_ps == 0);
    CHECK(flow.received_ps < flow.ended_ps);
    // No flow is faster than the ideal.
    CHECK(flow.excess_ps() > 0);
    last = std::max(last, flow.ended_ps);
    worst = std::max(worst, flow.excess_ps());
  }
  const TrialNumbers& n = trial.numbers;
  CHECK(n.ended == 8);
  CHECK(n.bytes == 8 * 200'000);
  CHECK(n.last_ps == last);
  CHECK(n.p99_excess_ps == worst);
  CHECK(n.value(Metric::last_flow_us) == Approx(static_cast<double>(last) * 1e-6));
  CHECK(n.value(Metric::goodput) == Approx(8 * 200'000 * 8e3 / static_cast<double>(last)));
  CHECK(n.value(Metric::last_flow_over_ideal) > 1.0);
  CHECK_FALSE(n.value(Metric::capacity_back_us));
  CHECK(trial.lasted_ps == last);
  CHECK(n.data_packets >= 8 * 49);
  // The bytes of all flows arrived, with headers.
  std::uint64_t came = 0;
  for (const std::uint64_t slice : trial.slices) came += slice;
  CHECK(came > 8 * 200'000);
  CHECK(came < 8 * 200'000 * 11 / 10);
}

TEST_CASE("trial__what_is_beside_the_traffic_slows_it_and_is_not_measured") {
  Plan plan = a_plan();
  const Trial alone = run_trial(plan, "hawser", 5);
  plan.traffic.beside = {
      {"bytes", 100'000}, {"load_percent", 80}, {"gbps", 100}, {"duration_us", 100}};
  const Trial trial = run_trial(plan, "hawser", 5);
  REQUIRE(trial.flows.size() == 8);
  CHECK(trial.numbers.flows == 8);
  CHECK(trial.numbers.bytes == alone.numbers.bytes);
  CHECK(trial.numbers.ideal_ps == alone.numbers.ideal_ps);
  CHECK(*trial.numbers.last_ps > *alone.numbers.last_ps);
  CHECK(trial.numbers.data_packets > 2 * alone.numbers.data_packets);
}

TEST_CASE("trial__the_same_is_the_same_and_another_seed_another") {
  const Plan plan = a_plan();
  const Trial once = run_trial(plan, "hawser", 5);
  CHECK(run_trial(plan, "hawser", 5).numbers.digest == once.numbers.digest);
  CHECK(run_trial(plan, "hawser", 6).numbers.digest != once.numbers.digest);
  CHECK(run_trial(plan, "hawser:no_spraying", 5).numbers.digest != once.numbers.digest);
}

// Eight NICs of 10 Gb/s each send to seven peers at once. Packets wait in the host's own NIC, and
// that time must not count as silence of their path. With seeds 23 and 24 a living path was taken
// for dead while time counted from when the NIC got the packet.
TEST_CASE("trial__what_waits_in_the_own_nic_blames_no_path", "[P20]") {
  Plan plan = a_plan();
  plan.fabric.shape = fabric::leaf_spine(8, 8, 8, 10 * kGigabit, microseconds(2));
  plan.fabric.shape.nics = 8;
  plan.fabric.shape.placement = fabric::Placement::rails;
  plan.fabric.shape.hosts = 8;
  plan.fabric.shape.queue.mark_min = 16'000;
  plan.fabric.shape.queue.mark_max = 64'000;
  for (fabric::Tier& tier : plan.fabric.shape.tiers) tier.switch_latency = microseconds(1);
  plan.traffic.generator = "all_to_all";
  plan.traffic.numbers["bytes"] = 1'000'000;
  for (const std::uint64_t seed : {23u, 24u}) {
    const Trial trial = run_trial(plan, "hawser", seed);
    CAPTURE(seed);
    CHECK(trial.numbers.value(Metric::blamed_wrongly) == 0.0);
    CHECK(trial.numbers.retransmitted == 0);
  }
}

// Nothing delays a ring's packets, so the packets after a lost one reveal it. Its loss costs a
// little more than a round trip. It cost 20 us and more when the sender waited for one and a
// quarter round trips.
TEST_CASE("trial__where_order_is_kept_a_loss_costs_little_more_than_a_round_trip", "[L19]") {
  Plan plan = a_plan();
  plan.fabric.shape = fabric::leaf_spine(4, 8, 8, 100 * kGigabit, microseconds(1));
  plan.traffic.generator = "ring";
  plan.traffic.numbers["bytes"] = 3'200'000;
  plan.faults = {{.kind = FaultPlan::Kind::link_loss, .drawn = 32, .probability = 0.005}};
  const TrialNumbers numbers = run_trial(plan, "hawser", 2).numbers;
  REQUIRE(numbers.value(Metric::p99_flow_excess_us));
  CHECK(*numbers.value(Metric::p99_flow_excess_us) < 15);
  CHECK(numbers.lost > 50);
  CHECK(numbers.duplicates < 2);
}

// The packets carry the plan's group as far as its hints allow. A receiver that knows the group
// grants its last messages before others.
TEST_CASE("trial__a_group_reaches_the_operations_that_carry_hints", "[long]") {
  Plan plan = a_plan();
  plan.fabric.shape = fabric::one_switch(64, 100 * kGigabit, microseconds(1));
  plan.traffic = {"a.cm", {64, {}, {}}, "", {}};
  for (std::uint32_t i = 1; i < 64; ++i) {
    plan.traffic.matrix.connections.push_back({.from = i, .to = 0, .bytes = 1'000'000});
  }
  const auto digest = [&](bool group, Hints hints) {
    plan.traffic.group = group;
    plan.hints = hints;
    return run_trial(plan, "hawser", 5).numbers.digest;
  };
  const std::uint64_t without = digest(false, Hints::all);
  CHECK(digest(true, Hints::none) == without);
  CHECK(digest(true, Hints::receives) != without);
  CHECK(digest(true, Hints::all) != without);
  CHECK(digest(true, Hints::all) != digest(true, Hints::receives));
}

TEST_CASE("trial__what_was_sent_in_vain_is_a_share_of_what_was_sent") {
  TrialNumbers numbers;
  numbers.flows = numbers.ended = 2;
  numbers.data_packets = 1000;
  numbers.retransmitted = 8;
  numbers.duplicates = 3;
  CHECK(numbers.value(Metric::resent_in_vain) == Approx(0.003));
  numbers.ended = 1;
  CHECK_FALSE(numbers.value(Metric::resent_in_vain));
}

TEST_CASE("trial__faults_begin_and_end_at_their_times") {
  Plan plan = a_plan();
  plan.faults = {{.kind = FaultPlan::Kind::link_rate,
                  .at = microseconds(5),
                  .lasts = microseconds(4),
                  .drawn = 1,
                  .bits_per_s = kGigabit},
                 {.at = microseconds(7), .lasts = microseconds(20), .drawn = 1}};
  const Trial trial = run_trial(plan, "hawser", 5);
  REQUIRE(trial.faults.size() == 4);
  constexpr std::int64_t kUs = 1'000'000;
  const std::vector<std::pair<std::int64_t, bool>> expected{
      {5 * kUs, false}, {7 * kUs, false}, {9 * kUs, true}, {27 * kUs, true}};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(trial.faults[i].at_ps == expected[i].first);
    CHECK(trial.faults[i].ends == expected[i].second);
  }
  CHECK(trial.numbers.cut > 0);
  CHECK(trial.numbers.ended == 8);
}

// The only cable of a sender is down for good.
TEST_CASE("trial__what_does_not_end_has_no_number") {
  Plan plan = a_plan();
  plan.limit = microseconds(3000);
  plan.faults = {{.link = "host 2 nic 0 -> leaf 0"}};
  const Trial trial = run_trial(plan, "hawser", 5);
  CHECK(trial.sessions_up);
  CHECK(trial.numbers.ended < 8);
  CHECK(trial.numbers.ended > 4);
  for (const Metric metric : {Metric::last_flow_us, Metric::last_flow_over_ideal,
                              Metric::p99_flow_excess_us, Metric::goodput, Metric::retransmitted}) {
    CHECK_FALSE(trial.numbers.value(metric));
  }
  CHECK(trial.numbers.cut > 0);
  REQUIRE(trial.faults.size() == 1);
  CHECK(trial.faults[0].at_ps == 0);
  CHECK_FALSE(trial.faults[0].ends);
}

}  // namespace
}  // namespace hawser::experiment
