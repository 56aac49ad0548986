// SPDX-License-Identifier: Apache-2.0
// NICs that return with another address, at either node or at both, while messages are under way.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <utility>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::PacketType;

void move(World& world, std::uint32_t node, std::uint32_t nic) {
  world.apply(node, nic, "revive:moved");
}

std::uint64_t packets_received(World& world, std::uint32_t node, std::uint32_t nic) {
  std::vector<NicStats> stats(world.nics(node));
  world.endpoint(node).nic_stats(stats);
  return stats[nic].packets_received;
}

// Posts messages both ways, some of them large.
void post_traffic(Exchange& exchange, std::uint64_t messages, std::size_t bytes) {
  for (std::uint64_t i = 0; i < messages; ++i) {
    (void)exchange.receive(1, 0, i, bytes);
    (void)exchange.receive(0, 1, i, bytes);
    (void)exchange.send(0, 1, i, bytes, {.level = Level::delivered});
    (void)exchange.send(1, 0, i, bytes / 2);
  }
}

void check_no_failure(World& world) {
  for (std::uint32_t node = 0; node < world.nodes(); ++node) {
    CHECK(world.stats(node).peer_failures == 0);
    CHECK(world.stats(node).sessions_established == 1);
    CHECK(world.allocations() == 0);
  }
}

TEST_CASE("moved_nics__one_of_two_moves_in_the_middle_of_a_transfer") {
  World world([] {
    WorldConfig config;
    config.nics = 2;
    return config;
  }());
  world.connect_all();
  world.run_for(milliseconds(5));
  const proto::NicAddress before = world.nic(1, 0).address();
  Exchange exchange(world);
  post_traffic(exchange, 10, 1000000);
  world.run_for(microseconds(100));
  move(world, 1, 0);
  CHECK(world.nic(1, 0).address() != before);
  const proto::Time start = world.now();
  REQUIRE(exchange.run(milliseconds(200)));
  CHECK((world.now() - start).ns < milliseconds(50).ns);  // no other timer of a second ran
  exchange.check_all_ok();
  // The NIC carries traffic again, both ways.
  world.run_for(milliseconds(50));
  const std::uint64_t here = packets_received(world, 1, 0);
  const std::uint64_t there = packets_received(world, 0, 0);
  Exchange again(world);
  again.ignore_what_was();
  post_traffic(again, 10, 1000000);
  REQUIRE(again.run(milliseconds(200)));
  again.check_all_ok();
  CHECK(packets_received(world, 1, 0) > here + 100);
  CHECK(packets_received(world, 0, 0) > there + 100);
  check_no_failure(world);
}

TEST_CASE("moved_nics__the_only_one_of_a_side", "[S19]") {
  for (const std::uint32_t mover : {0, 1}) {
    World world({});
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    post_traffic(exchange, 10, 300000);
    world.run_for(microseconds(60));
    move(world, mover, 0);
    REQUIRE(exchange.run(milliseconds(500)));
    exchange.check_all_ok();
    exchange.check_quiet();
    check_no_failure(world);
  }
}

TEST_CASE("moved_nics__an_idle_peer_is_found_where_it_went") {
  World world({});
  world.connect_all();
  world.run_for(milliseconds(100));
  move(world, 0, 0);
  world.run_for(milliseconds(20));
  move(world, 1, 0);
  world.run_for(milliseconds(20));
  move(world, 0, 0);
  world.run_for(milliseconds(1000));
  Exchange exchange(world);
  post_traffic(exchange, 2, 100000);
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
  check_no_failure(world);
}

TEST_CASE("moved_nics__of_both_ends_at_once", "[S19]") {
  for_each_seed(10, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 3;
    config.seed = random.next();
    config.faults = random.chance(0.5) ? "delay=5us" : "delay=5us/20us,loss=0.1";
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(50));
    Exchange exchange(world);
    post_traffic(exchange, 10, 300000);
    world.run_for(microseconds(random.below(200)));
    for (const std::uint32_t nic : {0u, 1u}) {
      for (const std::uint32_t node : {0u, 1u}) {
        if (random.chance(0.3)) world.run_for(microseconds(random.below(100)));
        move(world, node, nic);
      }
    }
    REQUIRE(exchange.run(milliseconds(2000)));
    exchange.check_all_ok();
    world.run_for(milliseconds(4000));
    for (const std::uint32_t node : {0u, 1u}) {
      const PeerStats stats = world.peer_stats(node, 1 - node);
      CHECK(std::ranges::count(stats.paths, PathState::up, &PathStats::state) >= 3);
    }
    exchange.check_quiet();
    check_no_failure(world);
  });
}

TEST_CASE("moved_nics__announcements_are_repeated_until_they_are_heard", "[S17]") {
  std::uint32_t to_lose = 0;
  WorldConfig config;
  config.hook = [&](std::uint32_t, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || to_lose == 0) return {};
    const PacketType type = view_of(packet).type;
    if (type != PacketType::hello && type != PacketType::welcome) return {};
    --to_lose;
    return Fate{.drop = true};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  to_lose = 5;
  move(world, 0, 0);
  world.run_for(milliseconds(2000));
  CHECK(to_lose == 0);
  Exchange exchange(world);
  post_traffic(exchange, 2, 100000);
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
  check_no_failure(world);
  // The announcements stop then.
  const std::uint64_t handshakes = world.stats(0).handshakes_sent;
  world.run_for(milliseconds(60000));
  CHECK(world.stats(0).handshakes_sent == handshakes);
}

// Loses the HELLOs of a node as long as `any_left` says so.
WorldConfig losing_hellos(std::uint32_t of, std::function<bool()> any_left) {
  WorldConfig config;
  config.hook = [of, any_left = std::move(any_left)](
                    std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || node != of) return {};
    if (view_of(packet).type != PacketType::hello || !any_left()) return {};
    return Fate{.drop = true};
  };
  return config;
}

TEST_CASE("moved_nics__a_lost_announcement_is_repeated_after_some_response_times", "[S17]") {
  const std::uint32_t mover = GENERATE(0u, 1u);
  INFO((mover == 0 ? "the sender" : "the receiver") << " moves");
  std::uint32_t to_lose = 0;
  const WorldConfig config =
      losing_hellos(mover, [&to_lose] { return to_lose > 0 && to_lose-- > 0; });
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  Exchange exchange(world);
  (void)exchange.receive(1, 0, 1, 1000000);
  (void)exchange.send(0, 1, 1, 1000000, {.level = Level::delivered});
  world.run_for(microseconds(50));
  to_lose = 2;
  const proto::Time start = world.now();
  move(world, mover, 0);
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
  CHECK((world.now() - start).ns < microseconds(config.tunables.handshake_retry_us).ns);
  check_no_failure(world);
}

// All announcements were lost for so long that their intervals are long. Then the node needs
// something of its peer, whose answers go to the old address.
TEST_CASE("moved_nics__whoever_asks_in_vain_announces_its_address_again", "[S48]") {
  bool deaf = false;
  World world(losing_hellos(1, [&deaf] { return deaf; }));
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 1000000, {.level = Level::delivered});
  world.run_for(milliseconds(50));
  deaf = true;
  move(world, 1, 0);
  world.run_for(milliseconds(250));
  deaf = false;
  (void)exchange.receive(1, 0, 1, 1000000);
  REQUIRE(exchange.run(milliseconds(5)));
  exchange.check_all_ok();
  check_no_failure(world);
}

TEST_CASE("moved_nics__nothing_but_probes_goes_to_a_new_address_before_two_came_back", "[S18]") {
  bool moved = false;
  std::uint32_t full_probes = 0;
  std::uint32_t data = 0;
  std::uint32_t probes_before_data = 0;
  WorldConfig config;
  config.nics = 2;
  config.hook = [&](std::uint32_t node, std::uint32_t nic,
                    const FaultPacket& packet) -> std::optional<Fate> {
    // Node 1's NIC 0 moves; node 0's path to it starts at its own NIC 0.
    if (packet.direction != engine::Direction::tx || node != 0 || nic != 0 || !moved) return {};
    const PacketType type = view_of(packet).type;
    if (type == PacketType::probe && !packet.payload.empty()) ++full_probes;
    if (type == PacketType::data || type == PacketType::granted) {
      if (data++ == 0) probes_before_data = full_probes;
    }
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  post_traffic(exchange, 20, 1000000);
  world.run_for(microseconds(100));
  move(world, 1, 0);
  // Wait until node 0 has learned of the move.
  REQUIRE(world.run_until([&] { return world.stats(0).paths_down > 0; }, milliseconds(10)));
  moved = true;
  for (std::uint64_t round = 0; round < 20 && data == 0; ++round) {
    REQUIRE(exchange.run(milliseconds(500)));
    exchange.check_all_ok();
    post_traffic(exchange, 20, 100000);
  }
  REQUIRE(exchange.run(milliseconds(500)));
  CHECK(data > 0);
  CHECK(probes_before_data >= 2);
  check_no_failure(world);
}

// The other end closes the session while the NIC is away. The node announces its new address, and
// learns that the session is over.
TEST_CASE("moved_nics__who_comes_back_hears_that_its_session_is_over", "[S26]") {
  World world({});
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  world.apply(0, 0, "kill");
  world.disconnect(1, 0);
  world.run_for(milliseconds(50));
  const std::size_t sent = exchange.send(0, 1, 7, 100);
  world.apply(0, 0, "revive:moved");
  REQUIRE(exchange.run_until([&] { return exchange.sent(sent).completion.has_value(); },
                             milliseconds(200)));
  CHECK(exchange.sent(sent).completion->status == Status::peer_closed);
}

// The same, and the other end calls it again, at its old address.
TEST_CASE("moved_nics__who_is_called_where_it_was_is_found", "[S27]") {
  World world({});
  world.connect_all();
  world.run_for(milliseconds(5));
  world.apply(0, 0, "kill");
  world.disconnect(1, 0);
  world.reconnect(1, 0);
  world.run_for(milliseconds(50));
  REQUIRE(world.stats(1).sessions_established == 1);
  world.apply(0, 0, "revive:moved");
  REQUIRE(
      world.run_until([&] { return world.stats(1).sessions_established == 2; }, milliseconds(500)));
  world.run_for(milliseconds(1));
  Exchange exchange(world);
  exchange.both_ways(2, 1000, 1000);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
