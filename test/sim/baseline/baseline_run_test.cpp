// SPDX-License-Identifier: Apache-2.0
// Baselines carry out matrices: triggers, turns, windows, and htsim's published figures.
#include "sim/baseline/lanes.hpp"
#include "sim/baseline/oblivious.hpp"
#include "test/sim/baseline/world.hpp"
#include "test/sim/fabric/samples.hpp"

namespace hawser::baseline {
namespace {

TEST_CASE("baselines__are_known_by_their_names") {
  for (const Baseline& one : baselines()) CHECK(&baseline(one.name) == &one);
  CHECK(baselines().size() == 8);
  CHECK_THROWS_WITH(
      baseline("tcp"),
      "there is no baseline 'tcp'; there are: rc, rc_failover, irn, uccl, fixed_timer, "
      "oblivious, irn_with_our_spray, uccl_with_our_spray");
}

// Packets have Hawser's default sizes: 4266 bytes on the wire, 341.28 ns; acknowledgements of 122
// bytes, 9.76 ns.
TEST_CASE("baselines__alone_and_without_loss_all_take_the_time_of_their_bytes") {
  for (const Baseline& one : baselines()) {
    ConnectionMatrix matrix;
    matrix.nodes = 2;
    matrix.connections.push_back({.from = 0, .to = 1, .bytes = 100 * 4096});
    World world(two_hosts(), matrix, one, {});
    REQUIRE(world.run.run(kMost));
    INFO(one.name);
    const std::int64_t there_and_back = 2 * 341'280 + 2 * 9'760 + 4'000'000;
    CHECK(world.ended() == 99 * 341'280 + there_and_back);
    CHECK(world.run.totals().data_packets == 100);
    CHECK(world.run.totals().retransmitted == 0);
    CHECK(world.run.totals().duplicates == 0);
  }
}

TEST_CASE("baselines__what_can_not_be_carried_out_is_refused") {
  fabric::EventWheel events;
  fabric::Network bare(events, two_hosts(), 1);
  CHECK_THROWS_WITH(BaselineRun(events, bare, one_flow(1), baseline("rc")),
                    Catch::Contains("32 bytes of headers"));
  fabric::Network network(events, two_hosts(), 1, 32);
  ConnectionMatrix matrix = one_flow(1);
  matrix.nodes = 3;
  CHECK_THROWS_WITH(BaselineRun(events, network, matrix, baseline("rc")),
                    "the matrix has 3 nodes of 1 NICs, but the fabric 2 hosts of 1");
  CHECK_THROWS_WITH(BaselineRun(events, network, one_flow(1), baseline("rc"), {}, 2),
                    "the matrix has 2 nodes of 2 NICs, but the fabric 2 hosts of 1");
  matrix = one_flow(1);
  matrix.connections[0].bytes = std::uint64_t{1} << 43;
  matrix.connections[0].line = 7;
  CHECK_THROWS_WITH(BaselineRun(events, network, matrix, baseline("rc")),
                    Catch::Contains("line 7: from node 0 to node 1 go more packets"));
}

// A token goes around a ring of four twice. Half of the hops start when the sender knows, half when
// the receiver has the message. In the second round a hop uses the connection of the first.
TEST_CASE("baselines__each_connection_starts_when_its_trigger_fires") {
  for (const Baseline& one : baselines()) {
    ConnectionMatrix ring;
    ring.nodes = 4;
    for (std::uint32_t i = 0; i < 8; ++i) {
      fabric::Connection hop{.from = i % 4, .to = (i + 1) % 4, .bytes = 50'000, .trigger = i};
      if (i == 0) hop.start = Instant{30'000'000};
      (i % 2 == 0 ? hop.when_sent : hop.when_received) = i < 7 ? i + 1 : 0;
      ring.connections.push_back(hop);
      if (i > 0) ring.triggers.push_back({.id = i});
    }
    World world(fabric::one_switch(4, 100 * kGigabit, microseconds(1)), ring, one);
    REQUIRE(world.run.connect(kMost));
    REQUIRE(world.run.run(kMost));
    INFO(one.name);
    CHECK(world.run.times(0).started == world.run.begun() + microseconds(30));
    // 12 full packets and one of 968 bytes.
    const std::int64_t received = 13 * kPacket + 2'000'000 + (968 + 64) * 80;
    for (std::uint32_t i = 0; i < 8; ++i) {
      // A node that starts on a received message first sends that message's acknowledgement.
      const std::int64_t ack_first = i > 0 && i % 2 == 0 ? 5'120 : 0;
      CHECK((world.run.times(i).received - world.run.times(i).started).ps == received + ack_first);
      CHECK((world.run.times(i).ended - world.run.times(i).received).ps == 2 * 5'120 + 2'000'000);
      if (i == 7) continue;
      CHECK(world.run.times(i + 1).started ==
            (i % 2 == 0 ? world.run.times(i).ended : world.run.times(i).received));
    }
    CHECK(&world.run.connection(0) == &world.run.connection(4));
  }
}

// The NIC takes its connections in turn, so none waits behind another's window.
TEST_CASE("baselines__connections_of_a_host_share_its_cable") {
  ConnectionMatrix matrix;
  matrix.nodes = 5;
  for (std::uint32_t to = 1; to < 5; ++to) {
    matrix.connections.push_back({.from = 0, .to = to, .bytes = 100 * kSizes.payload});
  }
  World world(fabric::one_switch(5, 100 * kGigabit, microseconds(1)), matrix, baseline("rc"));
  REQUIRE(world.run.run(kMost));
  // The first flow began alone: its second packet comes before the others' first ones.
  CHECK(world.received(0) == (4 * 98 + 1) * kPacket + kThere);
  for (std::uint32_t flow = 1; flow < 4; ++flow) {
    CHECK(world.received(flow) == (4 * 99 + flow) * kPacket + kThere);
  }
}

// Two NICs carry twice as much as one. A fast one beside a slow one carries twice the slow one's
// rate in all.
TEST_CASE("baselines__a_spray_uses_all_nics_of_the_host") {
  fabric::Shape shape = fabric::one_switch(4, 100 * kGigabit, microseconds(1));
  shape.hosts = 2;
  shape.nics = 2;
  Baseline spray = baseline("oblivious");
  spray.window_round_trips = 10;
  {
    World world(shape, one_flow(200), spray);
    REQUIRE(world.run.run(kMost));
    CHECK(world.received() == 99 * kPacket + kThere);
    CHECK(world.taps[2]->seen.size() == 100);
    CHECK(world.taps[3]->seen.size() == 100);
    CHECK(world.taps[3]->seen[98].entropy == 98);  // each NIC has its own lanes, from 0 on
  }
  {
    World world(shape, one_flow(200), spray);
    world.network.set_rate(1, 10 * kGigabit);
    REQUIRE(world.run.run(kMost));
    CHECK(world.received() == Approx(100 * 10.0 * kPacket).epsilon(0.05));
  }
}

TEST_CASE("baselines__drawn_ways_are_all_as_likely") {
  Drawn spray(2, 8, 3);
  std::vector<std::uint32_t> times(16);
  for (int i = 0; i < 16'000; ++i) {
    const Way way = spray.next();
    ++times[way.entropy * 2 + way.nic];
  }
  for (const std::uint32_t count : times) CHECK(count == Approx(1000).epsilon(0.12));
}

TEST_CASE("baselines__lanes_pass_over_a_marked_one_once") {
  Lanes spray(2, 4);
  const auto round = [&] {  // the next four lanes of the second NIC
    std::vector<std::uint16_t> lanes;
    for (int i = 0; i < 4; ++i) {
      CHECK(spray.next().nic == 0);
      lanes.push_back(spray.next().entropy);
    }
    return lanes;
  };
  using Order = std::vector<std::uint16_t>;
  CHECK(round() == Order{0, 1, 2, 3});
  spray.on_ack({1, 2}, microseconds(1), true);
  spray.on_ack({1, 2}, microseconds(1), true);
  spray.on_ack({1, 3}, microseconds(1), false);
  CHECK(round() == Order{0, 1, 3, 0});
  CHECK(round() == Order{1, 2, 3, 0});
  for (std::uint16_t lane = 0; lane < 4; ++lane) spray.on_ack({1, lane}, microseconds(1), true);
  CHECK(round() == Order{1, 2, 3, 0});
  // Four marks on three lanes are not marks on all lanes.
  Lanes other(1, 4);
  for (const std::uint32_t lane : {0u, 2u, 3u, 3u}) {
    other.on_ack({0, static_cast<std::uint16_t>(lane)}, microseconds(1), true);
  }
  CHECK(other.next().entropy == 1);
  CHECK(other.next().entropy == 0);  // skips lanes 2 and 3
}

TEST_CASE("baselines__a_seed_is_a_run") {
  const auto digest = [](std::uint64_t seed) {
    ConnectionMatrix matrix;
    matrix.nodes = 16;
    for (std::uint32_t i = 0; i < 16; ++i) {
      matrix.connections.push_back({.from = i, .to = (i + 5) % 16, .bytes = 500'000});
    }
    Setup with = setup();
    with.seed = seed;
    World world(fabric::leaf_spine(4, 4, 4, 100 * kGigabit, microseconds(1)), matrix,
                baseline("uccl"), with);
    REQUIRE(world.run.run(kMost));
    return world.network.digest();
  };
  CHECK(digest(1) == digest(1));
  CHECK(digest(1) != digest(2));
}

// Loss both ways, queues that overflow, trimming, caches that thrash: everything arrives, once.
TEST_CASE("baselines__deliver_everything_whatever_is_lost") {
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    const Baseline& what = baselines()[seed % baselines().size()];
    fabric::Shape shape = fabric::leaf_spine(2, 4, 2, 100 * kGigabit, microseconds(1));
    shape.hosts = 4;
    shape.nics = 2;
    shape.queue.capacity = seed % 3 == 0 ? 20'000 : 1 << 20;
    shape.queue.trim_to = seed % 2 == 0 ? 64 : 0;
    ConnectionMatrix matrix;
    matrix.nodes = 4;
    for (std::uint32_t i = 0; i < 24; ++i) {
      matrix.connections.push_back({.from = i % 4,
                                    .to = (i + 1 + i / 4 % 3) % 4,
                                    .bytes = i == 0 ? 1 : 40'000 + 10'000 * i,
                                    .start = Instant{1'000'000 * i}});
    }
    Setup with = setup();
    with.seed = seed;
    if (seed % 5 == 0) with.cache = {.contexts = 2, .miss = nanoseconds(700), .fetches = 2};
    World world(shape, matrix, what, with, seed);
    for (std::uint32_t link = 0; link < world.network.wiring().links(); ++link) {
      world.network.set_loss(link, 0.01);
    }
    INFO(what.name << ", seed " << seed);
    REQUIRE(world.run.run(microseconds(600'000'000)));
    const experiment::CarrierTotals totals = world.run.totals();
    CHECK(totals.retransmitted > 0);
    CHECK(totals.duplicates <= totals.retransmitted);
    std::uint64_t full = 0;
    for (std::uint32_t flow = 0; flow < 24; ++flow) {
      const experiment::FlowTimes& times = world.run.times(flow);
      CHECK(times.started == matrix.connections[flow].start);
      CHECK(times.received > times.started);
      CHECK(times.ended > times.received);
      full += (matrix.connections[flow].bytes + kSizes.payload - 1) / kSizes.payload;
    }
    CHECK(totals.data_packets - totals.retransmitted == full);
  }
}

// After a rest the timer runs from the next packet's departure, not from earlier packets.
TEST_CASE("baselines__a_timer_begins_with_the_packet_that_it_is_for") {
  Baseline rc = baseline("rc");
  rc.rc.timeout = ack_timeout(4);
  for (const auto& [what, timeout] : {std::pair{rc, std::int64_t{65'536'000}},
                                      {baseline("irn"), std::int64_t{100'000'000}},
                                      {baseline("uccl"), std::int64_t{500'000'000}},
                                      {baseline("fixed_timer"), std::int64_t{5'000'000'000}}}) {
    ConnectionMatrix matrix = one_flow(10);
    matrix.connections.push_back(
        {.from = 0, .to = 1, .bytes = kSizes.payload, .start = Instant{30'000'000'000}});
    World world(two_hosts(), matrix, what);
    world.taps[1]->loses = {10};
    REQUIRE(world.run.run(kMost));
    INFO(what.name);
    CHECK(world.ended(0) == 9 * kPacket + kThereAndBack);
    CHECK(world.came(10, 1) == 30'000'000'000 + timeout + kThere);
    CHECK(world.run.totals().retransmitted == 1);
  }
}

// A trimmed packet has lost its payload, so it is retransmitted like a dropped one.
TEST_CASE("baselines__what_comes_trimmed_has_not_come") {
  ConnectionMatrix incast;
  incast.nodes = 5;
  for (std::uint32_t i = 0; i < 4; ++i) {
    incast.connections.push_back({.from = i, .to = 4, .bytes = 15 * kSizes.payload});
  }
  fabric::Shape shape = fabric::one_switch(5, 100 * kGigabit, microseconds(1));
  shape.queue.capacity = 20 * kSizes.most();
  shape.queue.trim_to = 64;
  World world(shape, incast, baseline("fixed_timer"));
  REQUIRE(world.run.run(kMost));
  CHECK(world.network.totals().dropped == 0);
  CHECK(world.network.totals().trimmed > 20);
  CHECK(world.run.totals().retransmitted == world.network.totals().trimmed);
  CHECK(world.run.totals().duplicates == 0);
}

// ---- Hawser's window

// The window begins with 32 packets and grows by each acknowledged one while nothing is in its way.
// A round trip is 122 packets long. 96 packets take two round trips, and the 64 of the second
// follow each other.
TEST_CASE("hawser_window__is_that_of_the_protocol") {
  for (const std::uint32_t packets : {32u, 96u}) {
    World world(fabric::one_switch(2, 100 * kGigabit, microseconds(10)), one_flow(packets),
                baseline("uccl_with_our_spray"));
    REQUIRE(world.run.run(kMost));
    const std::int64_t round_trip = kThereAndBack + 36'000'000;
    CHECK(world.ended() ==
          (packets == 32 ? 31 * kPacket + round_trip : round_trip + 63 * kPacket + round_trip));
  }
}

// Seven flows go to one host, whose queue has room for everything. Hawser's windows settle at a
// queue of delay_target_us, 50 us beyond the floor. With the round trip 165 packets are in flight.
// Fixed windows of 12 round trips have 1260 in flight.
TEST_CASE("hawser_window__gives_way_to_delay") {
  ConnectionMatrix incast;
  incast.nodes = 8;
  for (std::uint32_t i = 0; i < 7; ++i) {
    incast.connections.push_back({.from = i, .to = 7, .bytes = 8'000'000});
  }
  fabric::Shape shape = fabric::one_switch(8, 100 * kGigabit, microseconds(1));
  shape.queue.capacity = fabric::kUnlimited;
  Baseline fixed = baseline("fixed_timer");
  fixed.window_round_trips = 12;
  Baseline hawser = fixed;
  hawser.window = Baseline::Window::hawser;
  const auto under_way = [&](const Baseline& what) {
    World world(shape, incast, what);
    double sum = 0;
    std::uint32_t count = 0;
    world.taps[7]->before = [&] {
      // Count only the middle part of the 13,706 packets.
      const std::size_t n = world.taps[7]->seen.size();
      if (n < 5000 || n > 10'000) return;
      ++count;
      for (std::uint32_t i = 0; i < 7; ++i) sum += world.run.connection(i).board.flying();
    };
    REQUIRE(world.run.run(kMost));
    CHECK(world.run.totals().retransmitted == 0);
    return sum / count;
  };
  CHECK(under_way(fixed) == Approx(7 * 12 * 15).epsilon(0.01));
  CHECK(under_way(hawser) == Approx(165).epsilon(0.1));
}

// A recovery that doesn't know of all its losses still goes on.
TEST_CASE("hawser_window__holds_nothing_back_that_is_lost") {
  ConnectionMatrix incast;
  incast.nodes = 8;
  for (std::uint32_t i = 0; i < 7; ++i) {
    incast.connections.push_back({.from = i, .to = 7, .bytes = 3'000'000});
  }
  for (const char* name : {"irn_with_our_spray", "uccl_with_our_spray"}) {
    fabric::Shape shape = fabric::one_switch(8, 100 * kGigabit, microseconds(1));
    shape.queue.capacity = 300'000;
    World world(shape, incast, baseline(name));
    REQUIRE(world.run.run(kMost));
    INFO(name);
    CHECK(world.network.totals().dropped > 0);
  }
}

// ---- htsim's published figures, without loss

struct Ends {
  double first_us = 1e300;
  double last_us = 0;
};

Ends permutation(const Baseline& what, std::uint64_t seed) {
  fabric::Shape shape = fabric::topology("fat_tree_1024.topo");
  shape.queue.capacity = fabric::kUnlimited;
  const ConnectionMatrix all = fabric::matrix("htsim_cm", "perm_1024n_1024c_0u_2000000b.cm");
  World world(shape, all, what, setup(), seed);
  REQUIRE(world.run.run(kMost));
  CHECK(world.run.totals().retransmitted == 0);
  Ends ends;
  for (std::uint32_t flow = 0; flow < all.connections.size(); ++flow) {
    const double end = static_cast<double>(world.ended(flow)) * 1e-6;
    ends.first_us = std::min(ends.first_us, end);
    ends.last_us = std::max(ends.last_us, end);
  }
  return ends;
}

// htsim's last flow ends after 212.8 us, its first after 167.6 us. Its senders are oblivious too.
// Chance decides which flows meet on a cable, and more so with 128 entropies than with 512.
TEST_CASE("published__oblivious_senders_permutation_of_1024", "[long]") {
  if (!fabric::have_samples()) return;
  Baseline oblivious = baseline("oblivious");
  const Ends few = permutation(oblivious, 1);
  CHECK(few.first_us == Approx(167.6).epsilon(0.015));
  CHECK(few.last_us == Approx(212.8).epsilon(0.06));
  oblivious.paths = 512;
  const Ends many = permutation(oblivious, 1);
  CHECK(many.last_us == Approx(212.8).epsilon(0.04));
}

// htsim needs 889.9 us: five or six flows on a cable at worst. That depends on chance, so take the
// mean of two seeds.
TEST_CASE("published__one_path_permutation_of_1024", "[long]") {
  if (!fabric::have_samples()) return;
  Baseline rc = baseline("rc");
  double sum = 0;
  constexpr int kSeeds = 2;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) sum += permutation(rc, seed).last_us;
  CHECK(sum / kSeeds == Approx(889.9).epsilon(0.05));
}

}  // namespace
}  // namespace hawser::baseline
