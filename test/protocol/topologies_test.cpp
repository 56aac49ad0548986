// SPDX-License-Identifier: Apache-2.0
// NICs that can't all reach each other: two fabrics, IPv4 and IPv6, a rail that only one host has,
// routes that a driver does not find. NICs that can be paired carry data; other pairs are never UP.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

// The UP paths of `node` to the other node, as pairs of NICs.
std::vector<std::pair<int, int>> paths_up(World& world, std::uint32_t node) {
  std::vector<std::pair<int, int>> up;
  for (const PathStats& path : world.peer_stats(node, 1 - node).paths) {
    if (path.state == PathState::up) up.emplace_back(path.local_nic, path.remote_nic);
  }
  std::ranges::sort(up);
  return up;
}

using Up = std::vector<std::pair<int, int>>;

void exchange_much(World& world) {
  Exchange exchange(world);
  exchange.both_ways(10, 1000000, 1000000, 100 * world.now().ns % 1000000);
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
}

TEST_CASE("topologies__what_can_be_paired_is", "[P1][P25]") {
  struct Row {
    std::vector<std::vector<std::uint32_t>> fabrics;
    Up up;  // of node 0
  };
  const std::vector<Row> rows{
      {{{0, 1}, {1, 0}}, {{0, 1}, {1, 0}}},
      {{{0}, {0, 1}}, {{0, 0}}},
      {{{0}, {1, 0}}, {{0, 1}}},
      {{{0, 1}, {1}}, {{1, 0}}},
      {{{0, 0, 1}, {1, 0}}, {{0, 1}, {1, 1}, {2, 0}}},
      {{{0, 1, 2, 3}, {3, 2, 1, 0}}, {{0, 3}, {1, 2}, {2, 1}, {3, 0}}},
  };
  for (const Row& row : rows) {
    WorldConfig config;
    config.fabrics = row.fabrics;
    World world(config);
    world.connect_all();
    exchange_much(world);
    CHECK(paths_up(world, 0) == row.up);
    for (const std::uint32_t node : {0u, 1u}) {
      CHECK(world.stats(node).paths_down == 0);
      CHECK(world.stats(node).packets_lost == 0);
    }
  }
}

TEST_CASE("topologies__no_pair_at_all_is_told_at_once", "[P25]") {
  WorldConfig config;
  config.fabrics = {{0, 1}, {2, 3}};
  World world(config);
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
  const std::size_t bytes = world.endpoint(1).write_address(blob);
  PeerId peer{};
  CHECK(world.endpoint(0).connect(world.now(), std::span(blob).first(bytes), peer) ==
        Status::no_route);
  CHECK(world.stats(0).peers_awake == 0);
}

// A NIC dies silently, or its driver reports it away. Another NIC takes over if it reaches the
// partner.
TEST_CASE("topologies__a_dead_nic_is_bridged_by_what_reaches", "[P7]") {
  for (const std::string fault : {"blackhole=both", "kill:event"}) {
    INFO(fault);
    WorldConfig config;
    config.fabrics = {{0, 1, 1}, {1, 0}};
    World world(config);
    world.connect_all();
    exchange_much(world);
    world.apply(0, 1, fault);  // one of the two NICs in fabric 1
    exchange_much(world);
    world.apply(0, 0, fault);
    exchange_much(world);
    CHECK(paths_up(world, 0) == Up{{2, 0}});
    for (const Event& event : world.events(0)) {
      if (event.kind != Event::Kind::path_up && event.kind != Event::Kind::path_down) continue;
      CHECK((event.nic == 0) == (event.remote_nic == 1));
    }
  }
}

// The driver looks the route up first. Meanwhile packets go other routes, and the path carries data
// soon after the route is known.
TEST_CASE("topologies__a_way_that_is_not_known_yet", "[P26]") {
  for (const proto::Duration late : {microseconds(300), milliseconds(40)}) {
    INFO("known after " << late.ns / 1000 << " us");
    World* running = nullptr;
    proto::Time known{};
    WorldConfig config;
    config.nics = 2;
    config.knows_way = [&](std::uint32_t node, std::uint32_t nic, const proto::NicAddress&) {
      return node != 0 || nic != 0 || (running != nullptr && running->now() >= known);
    };
    World world(config);
    running = &world;
    known = world.now() + late;
    world.connect_all();
    const proto::Time start = world.now();
    Exchange exchange(world);
    exchange.both_ways(10, 100000, 100000);
    REQUIRE(exchange.run(milliseconds(100)));
    exchange.check_all_ok();
    INFO("done after " << (world.now() - start).ns / 1000 << " us");
    CHECK((world.now() - start).ns < milliseconds(25).ns);  // the second HELLO, at most
    const proto::Duration left = known - world.now();
    if (left.ns > 0) world.run_for(left);
    world.run_for(milliseconds(10));
    exchange_much(world);
    CHECK(paths_up(world, 0) == Up{{0, 0}, {1, 1}});
  }
}

// No bound pair has a route, but each NIC has one to another NIC, and bridges find it. If there is
// no route at all, operations end as they do with an unreachable peer.
TEST_CASE("topologies__ways_that_are_never_found", "[P26]") {
  for (const bool any : {true, false}) {
    World* running = nullptr;
    bool settled = false;
    WorldConfig config;
    config.nics = 2;
    config.tunables.peer_timeout_ms = 500;
    config.knows_way = [&](std::uint32_t node, std::uint32_t nic, const proto::NicAddress& to) {
      if (running == nullptr || !settled) return true;
      return any && to == running->nic(1 - node, 1 - nic).address();
    };
    World world(config);
    running = &world;
    settled = true;
    world.connect_all();
    Exchange exchange(world);
    exchange.message(0, 1, 1, 300000);
    REQUIRE(exchange.run(milliseconds(1500)));
    CHECK(exchange.sent(0).completion->status == (any ? Status::ok : Status::peer_unreachable));
    if (any) CHECK(paths_up(world, 0) == Up{{0, 1}, {1, 0}});
  }
}

}  // namespace
}  // namespace hawser::test
