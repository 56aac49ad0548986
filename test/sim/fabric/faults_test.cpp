// SPDX-License-Identifier: Apache-2.0
// Each fault acts as it says, when it says, and on nothing else.
#include "test/sim/fabric/scene.hpp"

namespace hawser::fabric {
namespace {

using Kind = Fault::Kind;

// A packet each microsecond over one switch. Each packet is in the second cable's queue or on that
// cable from 1.332 us to 2.664 us after it was sent.
constexpr std::uint32_t kPackets = 1000;
Flow paced(std::uint32_t from, std::uint32_t to) {
  return {.from = from,
          .to = to,
          .bytes = std::uint64_t{kPayload} * kPackets,
          .interval = microseconds(1)};
}

TEST_CASE("faults__a_link_that_flaps_loses_what_is_in_it_and_what_comes") {
  Scene scene(one_switch(4, 100 * kGigabit, microseconds(1)));
  const std::uint32_t link = scene.wiring().to_port(1);
  // The link is down from 100.5 to 200.5 us. It loses the packets of 98 and 99 us, which it holds.
  // It also loses the arrivals from 101.332 us (sent at 100 us) to 200.332 us (sent at 199 us).
  Faults faults(
      scene.events, scene.network,
      {{.at = Instant{100'500'000}, .kind = Kind::link_down, .target = link, .both_ways = false},
       {.at = Instant{200'500'000}, .kind = Kind::link_up, .target = link, .both_ways = false}});
  const std::uint32_t hit = scene.flows.add(paced(0, 1));
  const std::uint32_t spared = scene.flows.add(paced(2, 3));
  scene.run();
  CHECK(scene.counters(link).cut == 102);
  CHECK(scene.flows.state(hit).arrived == kPackets - 102);
  CHECK(scene.flows.state(hit).last_arrival.ps == 999'000'000 + 2'664'000);
  CHECK(scene.flows.state(spared).arrived == kPackets);
  CHECK_FALSE(scene.network.link(link).is_down());
}

TEST_CASE("faults__a_dead_cable_of_a_nic_is_dead_both_ways_and_the_other_nic_lives") {
  Shape shape = leaf_spine(2, 2, 2, 100 * kGigabit, microseconds(1));
  shape.hosts = 2;
  shape.nics = 2;
  shape.placement = Placement::rails;
  Scene scene(shape);
  const Wiring& wiring = scene.wiring();
  Faults faults(scene.events, scene.network,
                {{.at = Instant{500'500'000},
                  .kind = Kind::link_down,
                  .target = wiring.from_port(wiring.port(0, 0))}});
  const std::uint32_t out = scene.flows.add(paced(wiring.port(0, 0), wiring.port(1, 0)));
  const std::uint32_t in = scene.flows.add(paced(wiring.port(1, 0), wiring.port(0, 0)));
  const std::uint32_t other = scene.flows.add(paced(wiring.port(0, 1), wiring.port(1, 1)));
  scene.run();
  // Out: at 500.5 us the packet of 499 us has passed the cable. In: the last packet to arrive left
  // at 497 us.
  CHECK(scene.flows.state(out).arrived == 500);
  CHECK(scene.flows.state(in).arrived == 498);
  CHECK(scene.flows.state(other).arrived == kPackets);
}

TEST_CASE("faults__a_one_way_fault_leaves_the_way_back") {
  Scene scene(one_switch(2, 100 * kGigabit, microseconds(1)));
  Faults faults(
      scene.events, scene.network,
      {{.kind = Kind::link_down, .target = scene.wiring().to_port(1), .both_ways = false}});
  const std::uint32_t there = scene.flows.add(paced(0, 1));
  const std::uint32_t back = scene.flows.add(paced(1, 0));
  scene.run();
  CHECK(scene.flows.state(there).arrived == 0);
  CHECK(scene.flows.state(back).arrived == kPackets);
  CHECK(scene.flows.state(back).acked == 0);  // acknowledgements use the dead direction
}

// At 25 Gb/s a packet takes 1.328 us, so packets that come each microsecond queue up from 100 us
// on. At 500 us the rate comes back, and the queue drains at 0.332 us each.
TEST_CASE("faults__a_degraded_link_serves_at_its_rate_and_then_again_at_its_own") {
  Scene scene(one_switch(2, 100 * kGigabit, microseconds(1)));
  EventWheel& events = scene.events;
  const std::uint32_t link = scene.wiring().to_port(1);
  Sink sink(scene.network);
  Faults faults(events, scene.network,
                {{.at = Instant{100'000'000},
                  .kind = Kind::link_rate,
                  .target = link,
                  .both_ways = false,
                  .bits_per_s = 25 * kGigabit},
                 {.at = Instant{500'000'000},
                  .kind = Kind::link_rate,
                  .target = link,
                  .both_ways = false,
                  .bits_per_s = 100 * kGigabit}});
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    events.run_until(Instant{i * 1'000'000});
    sink.send(0, 1, kSizes.most, i);
  }
  events.run();
  // Hand calculation of when each packet leaves the switch: a queue whose rate changes at two
  // moments.
  std::int64_t free = 0;
  std::uint32_t wrong = 0;
  std::int64_t worst = 0;
  REQUIRE(sink.came.size() == kPackets);
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    const std::int64_t begin = std::max(free, i * 1'000'000 + 1'332'000l);
    const bool is_slow = begin >= 100'000'000 && begin < 500'000'000;
    free = begin + (is_slow ? 4 : 1) * 332'000;
    if (sink.came[i] != std::pair{free + 1'000'000, i}) ++wrong;
    worst = std::max(worst, sink.came[i].first - i * 1'000'000);
  }
  CHECK(wrong == 0);
  CHECK(worst > 90'000'000);  // the queue grew for 400 us, to a quarter of that
}

TEST_CASE("faults__a_lossy_link_loses_silently_and_as_often_as_it_says") {
  constexpr std::uint32_t kMany = 40'000;
  Scene scene(one_switch(2, 400 * kGigabit, microseconds(1)));
  const std::uint32_t link = scene.wiring().from_port(0);
  Faults faults(
      scene.events, scene.network,
      {{.kind = Kind::link_loss, .target = link, .both_ways = false, .probability = 0.05}});
  const std::uint32_t flow = scene.flows.add(
      {.from = 0, .to = 1, .bytes = std::uint64_t{kPayload} * kMany, .interval = nanoseconds(100)});
  scene.run();
  const std::uint32_t lost = kMany - scene.flows.state(flow).arrived;
  CHECK(lost == scene.counters(link).lost);
  CHECK(scene.counters(link).packets == kMany);  // lost packets take their time on the cable too
  CHECK(scene.counters(link).dropped == 0);
  CHECK(std::abs(static_cast<int>(lost) - 2000) < 175);  // four standard deviations
}

TEST_CASE("faults__a_dead_switch_takes_its_share_of_the_ways_and_may_come_back") {
  Scene scene(leaf_spine(2, 1, 8, 100 * kGigabit, microseconds(1)));
  const Wiring& wiring = scene.wiring();
  const std::uint32_t spine = wiring.in_tier(1, 3);
  Faults faults(
      scene.events, scene.network,
      {{.kind = Kind::switch_down, .target = spine},
       // One of its links is down too, for longer.
       {.at = Instant{1}, .kind = Kind::link_down, .target = wiring.down(spine, 1)},
       {.at = Instant{800'500'000}, .kind = Kind::switch_up, .target = spine},
       {.at = Instant{900'500'000}, .kind = Kind::link_up, .target = wiring.down(spine, 1)}});
  Flow flow = paced(0, 1);
  flow.entropies = 1000;
  const std::uint32_t number = scene.flows.add(flow);
  scene.run();
  const std::uint32_t cut = scene.counters(wiring.up(wiring.in_tier(0, 0), 3)).cut;
  const std::uint32_t cut_below = scene.counters(wiring.down(spine, 1)).cut;
  // About an eighth of 800 packets. The link that is down longer still works in its other
  // direction.
  CHECK(cut > 60);
  CHECK(cut < 145);
  CHECK(cut_below > 0);
  CHECK(cut_below < 30);
  CHECK(scene.flows.state(number).arrived == kPackets - cut - cut_below);
  CHECK(scene.network.totals().cut ==
        cut + cut_below + (scene.flows.state(number).arrived - scene.flows.state(number).acked));
}

TEST_CASE("faults__what_can_not_be_is_refused") {
  Scene scene(one_switch(2, 100 * kGigabit, microseconds(1)));
  const auto refused = [&](std::vector<Fault> faults, const char* what) {
    CHECK_THROWS_WITH(Faults(scene.events, scene.network, faults), Catch::Contains(what));
  };
  refused({{.target = 4}}, "a fault of link 4, but the number must be 0 to 3");
  refused({{.kind = Kind::switch_down, .target = 1}},
          "a fault of switch 1, but the number must be 0 to 0");
  refused({{.kind = Kind::link_rate, .bits_per_s = 0}}, "one that carries nothing is down");
  refused({{.kind = Kind::link_rate, .bits_per_s = kFastest + 1}}, "to 10000000000000 bits/s");
  refused({{.kind = Kind::link_loss, .probability = 1.5}}, "0 to 1");
  refused({{.at = Instant{5}, .kind = Kind::link_up, .target = 0}}, "goes up before it is down");
  refused({{.at = Instant{9}, .kind = Kind::link_down, .target = 1},
           {.at = Instant{5}, .kind = Kind::link_up, .target = 1}},
          "link 1 (host 1 nic 0 -> leaf 0) goes up before it is down");
  refused({{.kind = Kind::link_down, .target = 1, .both_ways = false},
           {.at = Instant{5}, .kind = Kind::link_up, .target = 1}},
          "put up only what went down, in the same way");
}

}  // namespace
}  // namespace hawser::fabric
