// SPDX-License-Identifier: Apache-2.0
// Figures from hand calculation, to the picosecond: latencies, serialisation, shares, windows.
#include "test/sim/fabric/scene.hpp"

namespace hawser::fabric {
namespace {

// Pairs of nodes in different pods, in the same pod, and at the same leaf.
TEST_CASE("fabric__a_packet_takes_the_time_of_its_tiers") {
  Shape shape = fat_tree(4, 100 * kGigabit, nanoseconds(1000));
  shape.tiers[1].bits_per_s = 200 * kGigabit;
  shape.tiers[2].bits_per_s = 400 * kGigabit;
  shape.tiers[1].cable_latency = nanoseconds(300);
  shape.tiers[2].cable_latency = nanoseconds(70);
  shape.tiers[0].switch_latency = nanoseconds(11);
  shape.tiers[1].switch_latency = nanoseconds(13);
  shape.tiers[2].switch_latency = nanoseconds(17);
  const std::int64_t leaf_only = 2 * 332'000 + 2 * 1'000'000 + 11'000;
  const std::int64_t in_pod = leaf_only + 2 * 166'000 + 2 * 300'000 + 13'000 + 11'000;
  const std::int64_t by_core = in_pod + 2 * 83'000 + 2 * 70'000 + 17'000 + 13'000;
  for (const auto& [to, expected] :
       {std::pair{1u, leaf_only}, {2u, in_pod}, {3u, in_pod}, {4u, by_core}, {15u, by_core}}) {
    EventWheel events;
    Network network(events, shape, 1);
    Sink sink(network);
    sink.send(0, to, 4150, 0);
    events.run();
    REQUIRE(sink.came.size() == 1);
    CHECK(sink.came[0].first == expected);
  }
}

// 2,000,000 bytes are 490 packets, the last of 1946 bytes. htsim reports 176.2 us for this flow. It
// has packets of 4150 bytes of which 64 are headers, acknowledgements of 64 bytes, and cables of 1
// us.
TEST_CASE("fabric__one_flow_alone") {
  Scene scene(fat_tree(4, 100 * kGigabit, microseconds(1)));
  const std::uint32_t flow = scene.flows.add({.from = 0, .to = 13, .bytes = 2'000'000});
  scene.run();
  const FlowState& state = scene.flows.state(flow);
  CHECK(state.packets == 490);
  CHECK(state.arrived == 490);
  CHECK(state.first_arrival.ps == 6 * (332'000 + 1'000'000));
  // The last packet is behind 489 full packets on the last cable.
  const std::int64_t last = (5 + 489) * 332'000 + 6'000'000 + (1946 + 64) * 80;
  CHECK(state.last_arrival.ps == last);
  CHECK(state.finished.ps == last + 6 * (1'000'000 + 64 * 80));
  CHECK(static_cast<double>(state.finished.ps) * 1e-6 == Approx(176.2).epsilon(0.0005));
  CHECK(scene.network.hops() == 2 * 6 * 490);
}

// The first flow of htsim's permutation of 1 MB among 8192 hosts ends after 24.5 us. It is between
// hosts of one leaf.
TEST_CASE("fabric__one_flow_within_a_leaf_of_8192_hosts") {
  Scene scene(leaf_spine(128, 64, 64, 400 * kGigabit, microseconds(1)));
  const std::uint32_t flow = scene.flows.add({.from = 70, .to = 100, .bytes = 1'000'000});
  scene.run();
  const std::int64_t expected =
      (244 + 1) * 83'000 + (1'000'000 - 244 * 4086 + 64) * 20 + 4'000'000 + 2 * 64 * 20;
  CHECK(scene.flows.state(flow).finished.ps == expected);
  CHECK(static_cast<double>(expected) * 1e-6 == Approx(24.5).epsilon(0.01));
}

TEST_CASE("fabric__a_window_that_is_short_of_the_round_trip_is_what_a_flow_gets") {
  constexpr std::uint32_t kWindow = 5;
  constexpr std::uint32_t kRounds = 40;
  Scene scene(one_switch(2, 100 * kGigabit, microseconds(1)));
  const std::uint32_t flow = scene.flows.add({.from = 0,
                                              .to = 1,
                                              .bytes = std::uint64_t{kPayload} * kWindow * kRounds,
                                              .window = kWindow});
  scene.run();
  const std::int64_t round_trip = 2 * 332'000 + 2 * 5'120 + 4'000'000;
  CHECK(scene.flows.state(flow).finished.ps == kRounds * round_trip + (kWindow - 1) * 332'000);
}

TEST_CASE("fabric__a_paced_flow_keeps_its_pace") {
  Scene scene(one_switch(2, 100 * kGigabit, microseconds(1)));
  const std::uint32_t flow = scene.flows.add({.from = 0,
                                              .to = 1,
                                              .bytes = std::uint64_t{kPayload} * 100,
                                              .start = Instant{7},
                                              .interval = nanoseconds(1000)});
  scene.run();
  CHECK(scene.flows.state(flow).first_arrival.ps == 7 + 2'664'000);
  CHECK(scene.flows.state(flow).last_arrival.ps == 7 + 2'664'000 + 99 * 1'000'000);
}

TEST_CASE("fabric__two_flows_share_a_link_evenly") {
  constexpr std::uint32_t kPackets = 1000;
  Scene scene(one_switch(3, 100 * kGigabit, microseconds(1)));
  for (const std::uint32_t from : {0u, 1u}) {
    (void)scene.flows.add(
        {.from = from, .to = 2, .bytes = std::uint64_t{kPayload} * kPackets, .window = 64});
  }
  scene.run();
  std::vector<std::int64_t> ends;
  for (const std::uint32_t flow : {0u, 1u}) {
    CHECK(scene.flows.state(flow).arrived == kPackets);
    ends.push_back(scene.flows.state(flow).last_arrival.ps);
  }
  std::ranges::sort(ends);
  // The link is never idle from the first packet on, and the two flows take turns.
  CHECK(ends[1] == 332'000 + 2'000'000 + 2 * kPackets * 332'000);
  CHECK(ends[0] >= ends[1] - 2 * 332'000);
}

TEST_CASE("fabric__an_incast_of_16_takes_the_time_of_its_bytes") {
  constexpr std::uint32_t kPackets = 200;
  Scene scene(one_switch(17, 100 * kGigabit, microseconds(1)));
  for (std::uint32_t from = 0; from < 16; ++from) {
    (void)scene.flows.add(
        {.from = from, .to = 16, .bytes = std::uint64_t{kPayload} * kPackets, .window = 12});
  }
  scene.run();
  std::int64_t last = 0;
  for (std::uint32_t flow = 0; flow < 16; ++flow) {
    last = std::max(last, scene.flows.state(flow).last_arrival.ps);
  }
  CHECK(scene.network.totals().dropped == 0);
  CHECK(last == 332'000 + 2'000'000 + 16 * kPackets * 332'000);
}

// 16 windows of 100 packets go into a queue of 50 at once. One packet leaves during each wave of
// 16, so one of each wave finds room. The first wave finds an empty queue.
TEST_CASE("fabric__an_incast_of_16_that_does_not_fit_loses_what_is_too_much") {
  constexpr std::uint32_t kWindow = 100;
  constexpr std::uint32_t kRoom = 50;
  Shape shape = one_switch(17, 100 * kGigabit, microseconds(1));
  shape.queue.capacity = kRoom * kSizes.most;
  Scene scene(shape);
  for (std::uint32_t from = 0; from < 16; ++from) {
    (void)scene.flows.add({.from = from, .to = 16, .bytes = std::uint64_t{kPayload} * kWindow});
  }
  scene.run();
  const std::uint32_t expected = kRoom + kWindow - 1;
  CHECK(scene.counters(scene.wiring().to_port(16)).packets == expected);
  CHECK(scene.counters(scene.wiring().to_port(16)).dropped == 16 * kWindow - expected);
  std::uint32_t arrived = 0;
  for (std::uint32_t flow = 0; flow < 16; ++flow) arrived += scene.flows.state(flow).arrived;
  CHECK(arrived == expected);
}

// A leaf with twice as much capacity downwards as upwards.
TEST_CASE("fabric__an_oversubscribed_leaf_halves_what_crosses_it") {
  constexpr std::uint32_t kPackets = 2000;
  const auto last_arrival = [](std::uint32_t spines) {
    Scene scene(leaf_spine(2, 8, spines, 100 * kGigabit, microseconds(1)));
    for (std::uint32_t i = 0; i < 8; ++i) {
      (void)scene.flows.add({.from = i,
                             .to = 8 + i,
                             .bytes = std::uint64_t{kPayload} * kPackets,
                             .window = 64,
                             .entropies = 256});
    }
    scene.run();
    std::int64_t last = 0;
    for (std::uint32_t i = 0; i < 8; ++i) {
      last = std::max(last, scene.flows.state(i).last_arrival.ps);
    }
    CHECK(scene.network.totals().dropped == 0);
    return static_cast<double>(last);
  };
  const double alone = kPackets * 332e3;
  CHECK(last_arrival(4) == Approx(2 * alone).epsilon(0.05));
  CHECK(last_arrival(8) < 1.3 * alone);
}

// The header of the n-th packet: mostly short ones, some just as long as the room, some longer.
std::vector<std::byte> header_of(std::uint32_t number) {
  const std::size_t lengths[] = {1, 80, 127, 128, 129, kLongestHeader};
  std::vector<std::byte> bytes(number % 7 == 0 ? lengths[number / 7 % 6] : number % 100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number / 3 + i);
  return bytes;
}

struct HeaderReader final : Receiver {
  Network& network;
  std::uint32_t right = 0;
  explicit HeaderReader(Network& of) : network(of) { of.plug(1, this); }
  void on_packet(Instant, PacketId id) override {
    right +=
        std::ranges::equal(network.packets().header(id), header_of(network.packets().at(id).number))
            ? 1
            : 0;
    network.packets().give(id);
  }
};

// The packets take more than one chunk of the store, and records are used again. Some packets are
// lost on the way, and their long headers must not leak.
TEST_CASE("fabric__packets_carry_the_bytes_of_their_headers") {
  constexpr std::uint32_t kPackets = 6000;
  EventWheel events;
  Network network(events, one_switch(2, 100 * kGigabit, microseconds(1)), 1, 128);
  HeaderReader reader(network);
  network.set_loss(network.wiring().from_port(0), 0.25);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t number = 0; number < kPackets; ++number) {
      const PacketId id = network.packets().take();
      Packet& packet = network.packets().at(id);
      packet.from = 0;
      packet.to = 1;
      packet.wire_bytes = 100;
      packet.number = number;
      network.packets().set_header(id, header_of(number));
      network.send(id);
    }
    events.run();
  }
  CHECK(reader.right == network.delivered());
  CHECK(network.delivered() > kPackets * 2);
  CHECK(network.totals().lost > kPackets / 2);
  CHECK(network.packets().out() == 0);
  CHECK(network.packets().made() < 2 * kPackets);
  CHECK(network.packets().blocks_made() == (kPackets + 41) / 42 * 2);  // as many as in one round
}

TEST_CASE("fabric__a_seed_is_a_run") {
  const auto digest = [](std::uint64_t seed) {
    Shape shape = leaf_spine(4, 4, 4, 100 * kGigabit, microseconds(1));
    shape.queue.mark_min = 0;
    shape.queue.mark_max = 100'000;
    Scene scene(shape, seed);
    Faults faults(scene.events, scene.network,
                  {{.kind = Fault::Kind::link_loss, .target = 3, .probability = 0.1}});
    for (std::uint32_t i = 0; i < 16; ++i) {
      (void)scene.flows.add(
          {.from = i, .to = (i + 5) % 16, .bytes = 1'000'000, .window = 64, .entropies = 64});
    }
    scene.run();
    return scene.network.digest();
  };
  CHECK(digest(1) == digest(1));
  CHECK(digest(1) != digest(2));
}

}  // namespace
}  // namespace hawser::fabric
