// SPDX-License-Identifier: Apache-2.0
// The protocol carries out matrices: triggers, limits, and hand calculation of an incast.
#include "sim/experiment/matrix_run.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "sim/core/pool.hpp"

namespace hawser::experiment {
namespace {

using fabric::Connection;
using fabric::ConnectionMatrix;
using fabric::kGigabit;
using fabric::microseconds;

constexpr fabric::Span kMost = microseconds(1'000'000);

struct World {
  fabric::EventWheel events;
  fabric::Network network;
  sim::Pool pool{1024};
  ViewSlots slots{NicConfig{}.max_datagram_bytes};
  explicit World(std::uint32_t ports, std::uint64_t bits_per_s = 100 * kGigabit,
                 fabric::Span cable = microseconds(1))
      : network(events, fabric::one_switch(ports, bits_per_s, cable), 1, 128) {}
  HostsShare share() { return {events, network, pool, slots}; }
};

// A token goes around a ring of four twice, each hop after the previous one. Half of the hops start
// when the sender knows that its message arrived, the others when the receiver has it.
TEST_CASE("matrix_run__each_connection_starts_when_its_trigger_fires") {
  ConnectionMatrix ring;
  ring.nodes = 4;
  for (std::uint32_t i = 0; i < 8; ++i) {
    Connection one{.from = i % 4, .to = (i + 1) % 4, .bytes = 50'000, .trigger = i};
    if (i == 0) one.start = fabric::Instant{30'000'000};
    (i % 2 == 0 ? one.when_sent : one.when_received) = i + 1;
    ring.connections.push_back(one);
    ring.triggers.push_back({.id = i + 1});
  }
  World world(4);
  MatrixRun run(world.share(), ring, {});
  REQUIRE(run.connect(kMost));
  REQUIRE(run.run(kMost));
  CHECK(run.times(0).started == run.begun() + microseconds(30));
  const fabric::Span alone = fabric::Pace::of(100 * kGigabit).time_of(50'000) + microseconds(2);
  for (std::uint32_t i = 0; i < 8; ++i) {
    CHECK(run.times(i).received > run.times(i).started + alone);
    CHECK(run.times(i).ended > run.times(i).received);
    if (i == 7) continue;
    CHECK(run.times(i + 1).started == (i % 2 == 0 ? run.times(i).ended : run.times(i).received));
  }
}

// There are more messages to one peer than it may have open. The rest waits for its turn, in order,
// and triggered messages wait behind it.
TEST_CASE("matrix_run__what_an_endpoint_can_not_take_yet_is_sent_later") {
  ConnectionMatrix many;
  many.nodes = 2;
  for (int i = 0; i < 40; ++i) many.connections.push_back({.from = 0, .to = 1, .bytes = 20'000});
  many.connections[0].when_sent = 1;
  many.connections.push_back({.from = 0, .to = 1, .bytes = 20'000, .trigger = 1});
  many.triggers.push_back({.id = 1});
  HostConfig config;
  config.endpoint.tunables.max_messages_per_peer = 4;
  World world(2);
  MatrixRun run(world.share(), many, config);
  REQUIRE(run.connect(kMost));
  REQUIRE(run.run(kMost));
  CHECK(run.times(40).started == run.times(0).ended);
  CHECK(run.times(40).started < run.times(39).received);
  for (std::uint32_t i = 0; i < 41; ++i) {
    if (i < 40) CHECK(run.times(i).started == run.begun());
    if (i > 0) CHECK(run.times(i).received >= run.times(i - 1).received);
  }
}

TEST_CASE("matrix_run__an_incast_takes_the_time_of_its_bytes_and_little_more") {
  ConnectionMatrix incast;
  incast.nodes = 17;
  for (std::uint32_t i = 1; i < 17; ++i) {
    incast.connections.push_back(
        {.from = i, .to = 0, .bytes = 500'000, .hint = {.group = 1, .members = 16}});
  }
  World world(17);
  MatrixRun run(world.share(), incast, {});
  REQUIRE(run.connect(kMost));
  REQUIRE(run.run(kMost));
  fabric::Instant last;
  for (std::uint32_t i = 0; i < 16; ++i) last = std::max(last, run.times(i).received);
  const double wire = 16 * (500'000.0 + 123 * (40 + 90)) * 80e-6;
  const double us = static_cast<double>((last - run.begun()).ps) * 1e-6;
  CHECK(us > wire);
  CHECK(us < 1.1 * wire);
}

// A host keeps unsent bytes to itself rather than in its NIC's queue, so later messages don't wait
// behind them. Otherwise 13 us' worth of packets in the NIC would be in the short message's way.
TEST_CASE("matrix_run__a_short_message_waits_for_next_to_nothing_in_the_own_nic", "[P23]") {
  ConnectionMatrix two;
  two.nodes = 3;
  two.connections.push_back({.from = 0, .to = 1, .bytes = 150'000});
  two.connections.push_back({.from = 0, .to = 2, .bytes = 1'000});
  two.connections[1].start = fabric::Instant{1'000'000};
  World world(3, 100 * kGigabit, microseconds(10));
  MatrixRun run(world.share(), two, {});
  REQUIRE(run.connect(kMost));
  REQUIRE(run.run(kMost));
  const double us = static_cast<double>((run.times(1).received - run.times(1).started).ps) * 1e-6;
  CHECK(us < 20 + 4);
  // The NIC is still never idle.
  const double all = static_cast<double>((run.times(0).received - run.begun()).ps) * 1e-6;
  CHECK(all < 20 + (151'000 + 38 * (80 + 90)) * 80e-6 + 2);
}

// The oldest messages end one after the other, however many there are. The budget bounds the bytes
// in flight.
TEST_CASE("matrix_run__a_large_incast_of_a_group_loses_nothing") {
  constexpr std::uint32_t kSenders = 1000;
  fabric::ConnectionMatrix incast;
  incast.nodes = kSenders + 1;
  for (std::uint32_t i = 1; i <= kSenders; ++i) {
    incast.connections.push_back(
        {.from = i, .to = 0, .bytes = 100'000, .hint = {.group = 1, .members = kSenders}});
  }
  World world(kSenders + 1);
  MatrixRun run(world.share(), incast, {});
  REQUIRE(run.connect(kMost));
  const std::uint64_t before = world.network.totals().dropped;
  REQUIRE(run.run(kMost));
  CHECK(world.network.totals().dropped == before);
}

// The first budget of grants covers what a fast link carries in a long round trip. Growing to it
// from less, in phases of several rounds, would take nine times as long as the bytes do.
TEST_CASE("matrix_run__a_fast_receiver_grants_enough_from_the_beginning", "[G3]") {
  constexpr std::uint64_t kRate = 400 * kGigabit;
  ConnectionMatrix incast;
  incast.nodes = 5;
  for (std::uint32_t i = 1; i < 5; ++i) {
    incast.connections.push_back({.from = i, .to = 0, .bytes = 8'000'000});
  }
  World world(5, kRate, microseconds(10));
  MatrixRun run(world.share(), incast, {});
  REQUIRE(run.connect(kMost));
  REQUIRE(run.run(kMost));
  fabric::Instant last{};
  for (std::uint32_t i = 0; i < 4; ++i) last = std::max(last, run.times(i).ended);
  const fabric::Span alone = fabric::Pace::of(kRate).time_of(32'000'000);
  const fabric::Span took = last - run.begun();
  CAPTURE(took.ps, alone.ps);
  CHECK(took.ps < alone.ps * 3);
}

TEST_CASE("matrix_run__limits_follow_from_the_matrix_and_nothing_else_changes") {
  Tunables expected;
  Tunables few = with_limits({}, 1, 2);
  CHECK(few.max_peers == 8);
  CHECK(few.max_operations == 64);
  CHECK(with_limits({}, 5000, 20'000).max_operations >= 20'000);
  CHECK(with_limits({}, 5000, 20'000).max_peers >= 5000);
  CHECK(with_limits({}, 5000, 20'000).max_in_flight_packets == expected.max_in_flight_packets);
  for (const auto limit :
       {&Tunables::max_peers, &Tunables::max_operations, &Tunables::max_messages_per_peer,
        &Tunables::max_receive_messages, &Tunables::max_in_flight_packets,
        &Tunables::max_bulk_paths, &Tunables::unexpected_bytes}) {
    CHECK(few.*limit < expected.*limit);
    few.*limit = expected.*limit;
  }
  CHECK(std::memcmp(&few, &expected, sizeof few) == 0);
}

TEST_CASE("matrix_run__what_does_not_fit_is_refused") {
  World world(2);
  ConnectionMatrix matrix;
  matrix.nodes = 3;
  matrix.connections = {{.from = 0, .to = 2, .bytes = 5}};
  CHECK_THROWS_WITH(MatrixRun(world.share(), matrix, {}),
                    "the matrix has 3 nodes of 1 NICs, but the fabric only 2 ports");
  matrix.nodes = 2;
  matrix.connections = {{.from = 0, .to = 1, .bytes = MatrixRun::kMostBytes + 1, .line = 7}};
  CHECK_THROWS_WITH(MatrixRun(world.share(), matrix, {}),
                    Catch::Contains("line 7: a connection of 1073741825 bytes"));
}

}  // namespace
}  // namespace hawser::experiment
