// SPDX-License-Identifier: Apache-2.0
// Which routes there are, and how packets are spread over them.
#include <set>

#include "test/sim/fabric/scene.hpp"

namespace hawser::fabric {
namespace {

std::vector<std::uint32_t> packets_over(const Network& network, std::uint32_t first,
                                        std::uint32_t count) {
  std::vector<std::uint32_t> packets;
  for (std::uint32_t i = 0; i < count; ++i) {
    packets.push_back(network.link(first + i).counters().packets);
  }
  return packets;
}

double chi_square(const std::vector<std::uint32_t>& counts) {
  double sum = 0;
  for (const std::uint32_t count : counts) sum += count;
  const double mean = sum / static_cast<double>(counts.size());
  double chi = 0;
  for (const std::uint32_t count : counts) chi += (count - mean) * (count - mean) / mean;
  return chi;
}

Shape rails() {
  Shape shape = leaf_spine(8, 4, 4, 100 * kGigabit, microseconds(1));
  shape.hosts = 8;
  shape.nics = 4;
  shape.placement = Placement::rails;
  return shape;
}

Shape planes() {
  Shape shape = leaf_spine(4, 4, 2, 100 * kGigabit, microseconds(1));
  shape.nics = 3;
  shape.placement = Placement::planes;
  return shape;
}

Shape bundled() {
  Shape shape = fat_tree(4, 100 * kGigabit, microseconds(1));
  shape.tiers[0].up = 4;
  shape.tiers[1].bundle = 2;
  shape.tiers[1].down = 4;
  shape.tiers[1].up = 6;
  shape.tiers[2].bundle = 3;
  shape.tiers[2].down = 12;
  return shape;
}

TEST_CASE("wiring__every_cable_has_two_ends_and_every_pair_of_ports_a_way") {
  for (const Shape& shape : {one_switch(5, kGigabit, {}), leaf_spine(3, 4, 5, kGigabit, {}),
                             fat_tree(4, kGigabit, {}), rails(), planes(), bundled()}) {
    EventWheel events;
    Network network(events, shape, 1);
    const Wiring& wiring = network.wiring();
    std::set<std::string> names;
    for (std::uint32_t link = 0; link < wiring.links(); ++link) {
      CHECK(wiring.back(wiring.back(link)) == link);
      CHECK(wiring.back(link) != link);
      names.insert(wiring.name(link));
    }
    Sink sink(network);
    std::uint32_t sent = 0;
    for (std::uint32_t from = 0; from < wiring.ports(); ++from) {
      for (std::uint32_t to = 0; to < wiring.ports(); ++to) {
        if (from == to || wiring.place(from).tree != wiring.place(to).tree) continue;
        for (std::uint16_t entropy = 0; entropy < 20; ++entropy) {
          sink.send(from, to, 100, ++sent, entropy);
        }
      }
    }
    events.run();
    CHECK(sink.came.size() == sent);
    // Each cable carries something in both directions.
    for (std::uint32_t link = 0; link < wiring.links(); ++link) {
      INFO(wiring.name(link));
      CHECK(network.link(link).counters().packets > 0);
    }
  }
}

// The number of links between two ports.
std::uint64_t hops(const Shape& shape, std::uint32_t from, std::uint32_t to) {
  EventWheel events;
  Network network(events, shape, 1);
  Sink sink(network);
  sink.send(from, to, 100, 0);
  events.run();
  REQUIRE(sink.came.size() == 1);
  return network.hops();
}

TEST_CASE("wiring__each_nic_of_a_host_has_a_rails_leaf") {
  const Shape shape = rails();  // 8 hosts of 4 NICs, 4 hosts at a leaf
  const Wiring wiring(shape);
  for (std::uint32_t nic = 0; nic < 4; ++nic) {
    CHECK(wiring.place(wiring.port(0, nic)).leaf == nic);
    CHECK(wiring.place(wiring.port(3, nic)).leaf == nic);
    CHECK(wiring.place(wiring.port(4, nic)).leaf == 4 + nic);
    CHECK(hops(shape, wiring.port(0, nic), wiring.port(3, nic)) == 2);
    CHECK(hops(shape, wiring.port(0, nic), wiring.port(5, nic)) == 4);
  }
  CHECK(hops(shape, wiring.port(0, 1), wiring.port(0, 2)) == 4);
  CHECK(hops(shape, wiring.port(0, 1), wiring.port(7, 3)) == 4);
}

TEST_CASE("wiring__planes_share_nothing") {
  const Shape shape = planes();  // 16 hosts of 3 NICs; 4 leaves and 2 spines a plane
  const Wiring wiring(shape);
  CHECK(wiring.ports() == 48);
  CHECK(wiring.count_of_tier(0) == 12);
  CHECK(wiring.count_of_tier(1) == 6);
  CHECK(hops(shape, wiring.port(0, 1), wiring.port(3, 1)) == 2);
  CHECK(hops(shape, wiring.port(0, 1), wiring.port(4, 1)) == 4);
  // All of plane 1 dies, and the other planes don't notice.
  EventWheel events;
  Network network(events, shape, 1);
  std::vector<Fault> dead;
  for (std::uint32_t i = 4; i < 8; ++i) {
    dead.push_back({.kind = Fault::Kind::switch_down, .target = wiring.in_tier(0, i)});
  }
  Faults faults(events, network, dead);
  events.run();
  Sink sink(network);
  for (std::uint32_t host = 0; host < 15; ++host) {
    for (std::uint32_t nic = 0; nic < 3; ++nic) {
      sink.send(wiring.port(host, nic), wiring.port(15, nic), 100, nic);
    }
  }
  events.run();
  CHECK(sink.came.size() == 30);
  for (const auto& [time, nic] : sink.came) CHECK(nic != 1);
}

TEST_CASE("routes__flows_are_spread_evenly_over_equal_ways_and_keep_theirs") {
  const Shape shape = leaf_spine(2, 8, 64, 100 * kGigabit, microseconds(1));
  EventWheel events;
  Network network(events, shape, 7);
  Sink sink(network);
  for (std::uint32_t i = 0; i < 64; ++i) sink.send(0, 8, 100, i, 5);
  events.run();
  const std::uint32_t first = network.wiring().up(0, 0);
  CHECK(std::ranges::count(packets_over(network, first, 64), 64u) == 1);
  for (std::uint32_t i = 1; i < sink.came.size(); ++i) CHECK(sink.came[i].second == i);
  // 63 degrees of freedom: chance exceeds 103 once in a thousand.
  EventWheel other_events;
  Network other(other_events, shape, 8);
  Sink other_sink(other);
  for (std::uint32_t i = 0; i < 12'800; ++i) {
    other_sink.send(i % 8, 8 + i / 8 % 8, 100, i, static_cast<std::uint16_t>(i / 64));
  }
  other_events.run();
  CHECK(chi_square(packets_over(other, other.wiring().up(0, 0), 64)) < 103);
}

// The switch above must not choose by the same hash as the leaf, or half of its routes would lie
// idle.
TEST_CASE("routes__each_switch_has_a_hash_of_its_own") {
  EventWheel events;
  Network network(events, fat_tree(8, 100 * kGigabit, microseconds(1)), 3);
  const Wiring& wiring = network.wiring();
  Sink sink(network);
  for (std::uint32_t i = 0; i < 16'000; ++i) {
    sink.send(0, 127, 100, i, static_cast<std::uint16_t>(i));
  }
  events.run();
  for (std::uint32_t upper = 0; upper < 4; ++upper) {
    // 3 degrees of freedom: chance exceeds 16.3 once in a thousand.
    CHECK(chi_square(packets_over(network, wiring.up(wiring.in_tier(1, upper), 0), 4)) < 16.3);
  }
}

TEST_CASE("routes__cables_of_a_bundle_share_what_it_carries") {
  EventWheel events;
  Network network(events, bundled(), 3);
  const Wiring& wiring = network.wiring();
  Sink sink(network);
  for (std::uint32_t i = 0; i < 12'000; ++i) {
    sink.send(0, 15, 100, i, static_cast<std::uint16_t>(i));
  }
  events.run();
  CHECK(chi_square(packets_over(network, wiring.up(wiring.in_tier(0, 0), 0), 4)) < 16.3);
  // Downwards each core has three cables to the last pod, and each upper switch two to the last
  // leaf.
  for (std::uint32_t core = 0; core < wiring.count_of_tier(2); ++core) {
    CHECK(chi_square(packets_over(network, wiring.down(wiring.in_tier(2, core), 9), 3)) < 13.8);
  }
  for (const std::uint32_t upper : {6u, 7u}) {
    CHECK(chi_square(packets_over(network, wiring.down(wiring.in_tier(1, upper), 2), 2)) < 10.8);
  }
}

struct Spread {
  std::uint32_t overtaken = 0;
  double most = 0;  // packets of the busiest upward cable, relative to the mean
  std::int64_t last = 0;
};

// Leaves have 16 hosts each. Every host sends 490 packets to the host `shift` further on, with one
// entropy. With two leaves, an even spread upwards is also even downwards.
Spread spread(bool adaptive, std::uint32_t leaves, std::uint32_t shift) {
  Shape shape = leaf_spine(leaves, 16, 16, 100 * kGigabit, microseconds(1));
  shape.adaptive = adaptive;
  shape.adaptive_step = 0;
  Scene scene(shape, 2);
  const std::uint32_t hosts = shape.hosts;
  for (std::uint32_t i = 0; i < hosts; ++i) {
    (void)scene.flows.add({.from = i, .to = (i + shift) % hosts, .bytes = 2'000'000, .window = 64});
  }
  scene.run();
  Spread result;
  for (std::uint32_t i = 0; i < hosts; ++i) {
    CHECK(scene.flows.state(i).arrived == 490);
    result.overtaken += scene.flows.state(i).overtaken;
    result.last = std::max(result.last, scene.flows.state(i).finished.ps);
  }
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (const std::uint32_t packets :
         packets_over(scene.network, scene.wiring().up(leaf, 0), 16)) {
      result.most = std::max(result.most, packets / (2 * 490.0));  // acknowledgements count too
    }
  }
  return result;
}

TEST_CASE("routes__adaptive_ones_even_out_and_reorder") {
  constexpr std::int64_t kAlone = 490 * 332'000 + 8'000'000;  // four cables, and back
  const Spread hashed = spread(false, 2, 16);
  CHECK(hashed.overtaken == 0);
  CHECK(hashed.most >= 2);  // 16 flows on 16 routes: some meet
  CHECK(hashed.last > kAlone / 10 * 18);
  const Spread even = spread(true, 2, 16);
  CHECK(even.most < 1.1);
  CHECK(even.last < kAlone / 100 * 105);
  // With more leaves flows meet at the spines, and no leaf sees the queues that the others make
  // there.
  const Spread crossed = spread(true, 4, 19);
  CHECK(crossed.overtaken > 100);
  CHECK(crossed.most < 1.3);
  CHECK(crossed.last < spread(false, 4, 19).last);
}

// A dead cable has the shortest queue of all.
TEST_CASE("routes__adaptive_ones_leave_out_cables_of_their_switch_that_are_down") {
  Shape shape = leaf_spine(2, 8, 4, 100 * kGigabit, microseconds(1));
  shape.adaptive = true;
  Scene scene(shape, 2);
  const Wiring& wiring = scene.wiring();
  Faults faults(
      scene.events, scene.network,
      {{.kind = Fault::Kind::link_down, .target = wiring.up(0, 1)},
       {.at = Instant{500'000'000}, .kind = Fault::Kind::link_up, .target = wiring.up(0, 1)}});
  for (std::uint32_t i = 0; i < 8; ++i) {
    (void)scene.flows.add({.from = i,
                           .to = 8 + i,
                           .bytes = std::uint64_t{kPayload} * 2000,
                           .interval = microseconds(1)});
  }
  scene.run();
  // The cable is down both ways. Acknowledgements that reach its spine have no other route down.
  CHECK(scene.counters(wiring.up(0, 1)).cut == 0);
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(scene.flows.state(i).arrived == 2000);
  // The cable carries a quarter of the packets during the three quarters of the time when it is up.
  CHECK(scene.counters(wiring.up(0, 1)).packets > 8 * 2000 * 3 / 4 / 4 * 8 / 10);

  // If all cables are down, there is no other route.
  Scene dead(shape, 2);
  std::vector<Fault> all;
  for (std::uint32_t n = 0; n < 4; ++n) {
    all.push_back({.kind = Fault::Kind::link_down, .target = wiring.up(0, n), .both_ways = false});
  }
  Faults all_down(dead.events, dead.network, all);
  (void)dead.flows.add({.from = 0, .to = 8, .bytes = 2'000'000});
  dead.run();
  CHECK(dead.flows.state(0).arrived == 0);
  CHECK(dead.network.totals().cut == 490);
}

// Two parallel routes.
TEST_CASE("routes__adaptive_ones_share_evenly_between_equal_queues") {
  Shape shape = leaf_spine(2, 1, 8, 100 * kGigabit, microseconds(1));
  shape.adaptive = true;
  EventWheel events;
  Network network(events, shape, 2);
  for (std::uint32_t n = 2; n < 8; ++n) network.put_down(network.wiring().up(0, n));
  Sink sink(network);
  for (std::uint32_t i = 0; i < 4000; ++i) sink.send(0, 1, 100, i);  // each in an empty queue
  events.run();
  CHECK(sink.came.size() == 4000);
  const std::vector<std::uint32_t> packets = packets_over(network, network.wiring().up(0, 0), 2);
  CHECK(packets[0] + packets[1] == 4000);
  CHECK(std::abs(static_cast<int>(packets[0]) - 2000) < 127);  // four standard deviations
}

// One route has three packets in its queue when the others come. Each of these comes after the
// previous one has left.
TEST_CASE("routes__adaptive_ones_tell_queues_apart_in_steps") {
  const auto over_busy_way = [](std::uint32_t step) {
    Shape shape = leaf_spine(2, 1, 2, 100 * kGigabit, microseconds(1));
    shape.adaptive = true;
    shape.adaptive_step = step;
    EventWheel events;
    Network network(events, shape, 2);
    const std::uint32_t busy = network.wiring().up(0, 0);
    network.set_rate(busy, kGigabit);
    network.put_down(network.wiring().up(0, 1));
    Sink sink(network);
    for (std::uint32_t i = 0; i < 3; ++i) sink.send(0, 1, 1000, i);
    events.run_until(Instant{2'000'000});  // 8 us each
    network.put_up(network.wiring().up(0, 1));
    for (std::uint32_t i = 0; i < 200; ++i) sink.send(0, 1, 100, i);
    events.run();
    return network.link(busy).counters().packets - 3;
  };
  CHECK(over_busy_way(0) == 0);
  CHECK(over_busy_way(1000) == 0);
  // Its remaining queue, 22 us and less, is 275,000 bytes at the rate of a port.
  const std::uint32_t some = over_busy_way(1'000'000);
  CHECK(some > 60);
  CHECK(some < 140);
}

TEST_CASE("shape__what_does_not_fit_together_is_refused_with_what_would") {
  const auto refused = [](auto change, const char* what) {
    Shape shape = fat_tree(4, 100 * kGigabit, microseconds(1));
    change(shape);
    CHECK_THROWS_WITH(measure(shape), Catch::Contains(what));
  };
  refused([](Shape& s) { s.hosts = 0; }, "at least one host");
  refused([](Shape& s) { s.hosts = 1 << 21; }, "at most");
  refused([](Shape& s) { s.hosts = 17; }, "17 ports don't fill leaves of 2");
  refused([](Shape& s) { s.tiers.clear(); }, "1 to 3 tiers, not 0");
  refused([](Shape& s) { s.tiers.resize(1); }, "tier 0: the highest tier has no cables upwards");
  refused([](Shape& s) { s.pod_ports = 3; }, "pods of 3 ports");
  refused([](Shape& s) { s.tiers[0].up = 0; }, "tier 0: a switch has 1 to 4096 cables upwards");
  refused([](Shape& s) { s.tiers[1].down = 5; }, "tier 1: a switch has 5 cables downwards, but");
  refused([](Shape& s) { s.tiers[2].down = 5; }, "there are 4 pods and bundles of 1: it needs 4");
  refused([](Shape& s) { s.tiers[0].bundle = 2; }, "tier 0: a port has one cable");
  refused([](Shape& s) { s.tiers[1].bundle = 3; }, "bundles of 3 don't divide the 2 cables");
  refused([](Shape& s) { s.tiers[0].bits_per_s = 10; }, "tier 0: a rate is");
  refused([](Shape& s) { s.tiers[1].cable_latency = picoseconds(-1); }, "a latency is");
  refused([](Shape& s) { s.queue.mark_min = 7, s.queue.mark_max = 3; }, "7 is more than 3");
  refused([](Shape& s) { s.queue.capacity = 0; }, "a queue holds at least 1 byte");
  refused([](Shape& s) { s = leaf_spine(4096, 1, 4096, kGigabit, {}); },
          "at most 8388608 links, not 33562624");
  refused(
      [](Shape& s) {
        s.hosts = s.pod_ports = 8;
        s.tiers[0] = {.down = 1, .up = 4096};
        s.tiers[1] = {.down = 8, .up = 4096};
        s.tiers[2] = {.down = 1};
      },
      "at most 8388608 links, not 33619984");
  CHECK_THROWS_WITH(measure([] {
                      Shape shape = rails();
                      shape.hosts = 9;
                      return shape;
                    }()),
                    Catch::Contains("9 hosts don't fill rails' leaves of 4"));
}

}  // namespace
}  // namespace hawser::fabric
