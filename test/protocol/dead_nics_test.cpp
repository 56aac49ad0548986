// SPDX-License-Identifier: Apache-2.0
// A NIC dies under load: which NICs its peers use instead, and how soon they notice.
#include <catch2/catch.hpp>
#include <set>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;

WorldConfig nics_of_1_gigabyte(std::uint32_t nodes, std::uint32_t nics) {
  WorldConfig config;
  config.nodes = nodes;
  config.nics = nics;
  config.faults = "delay=20us,rate=1000000000";
  return config;
}

// The bridges that carry data. Witness paths of a dead NIC do not.
std::vector<PathStats> bridges_of(World& world, std::uint32_t node, std::uint32_t other) {
  std::vector<PathStats> paths = world.peer_stats(node, other).paths;
  std::erase_if(paths, [](const PathStats& path) {
    return path.local_nic == path.remote_nic || path.state != PathState::up;
  });
  return paths;
}

// Each of three peers is left with a NIC without its partner at node 0. If all of them used the
// same NIC, it would get the load of two, and a peer that waits for a share would get only the
// rest.
TEST_CASE("dead_nics__bridges_of_many_peers_are_spread_over_the_nics_that_live", "[P7]") {
  for (std::uint32_t dead = 0; dead < 4; ++dead) {
    INFO("NIC " << dead);
    World world(nics_of_1_gigabyte(4, 4));
    world.connect_all();
    Exchange exchange(world);
    std::uint64_t tag = 0;
    const auto messages = [&] {
      for (std::uint32_t node = 1; node < 4; ++node) exchange.message(node, 0, tag++, 1000000);
    };
    messages();
    REQUIRE(exchange.run(milliseconds(100)));
    world.apply(0, dead, "kill:event");
    world.run_for(milliseconds(1));
    messages();
    REQUIRE(exchange.run(milliseconds(100)));
    std::set<std::uint8_t> turned_to;
    for (std::uint32_t node = 1; node < 4; ++node) {
      for (const PathStats& bridge : bridges_of(world, node, 0)) {
        CHECK(bridge.local_nic == dead);
        turned_to.insert(bridge.remote_nic);
      }
    }
    CHECK(turned_to.size() == 3);
    CHECK(turned_to.count(static_cast<std::uint8_t>(dead)) == 0);
    exchange.check_all_ok();
  }
}

// The bridges of one peer are apart too, even if the NIC that the first bridge uses goes away next.
TEST_CASE("dead_nics__bridges_of_one_peer_are_apart", "[P7]") {
  for (std::uint32_t first = 0; first < 4; ++first) {
    for (std::uint32_t second = 0; second < 4; ++second) {
      if (first == second) continue;
      INFO("NIC " << first << ", then " << second);
      World world(nics_of_1_gigabyte(2, 4));
      world.connect_all();
      Exchange exchange(world);
      exchange.message(1, 0, 1, 1000000);
      REQUIRE(exchange.run(milliseconds(100)));
      for (const std::uint32_t dead : {first, second}) {
        world.apply(0, dead, "kill:event");
        world.run_for(milliseconds(1));
      }
      exchange.message(1, 0, 2, 1000000);
      REQUIRE(exchange.run(milliseconds(100)));
      const std::vector<PathStats> bridges = bridges_of(world, 1, 0);
      REQUIRE(bridges.size() == 2);
      CHECK(bridges[0].remote_nic != bridges[1].remote_nic);
      for (const PathStats& bridge : bridges) {
        CHECK(bridge.remote_nic != first);
        CHECK(bridge.remote_nic != second);
      }
    }
  }
}

// A NIC whose partner here is away is idle.
TEST_CASE("dead_nics__a_bridge_takes_what_is_idle_first", "[P7]") {
  for (std::uint32_t ours = 0; ours < 4; ++ours) {
    for (std::uint32_t theirs = 0; theirs < 4; ++theirs) {
      if (ours == theirs) continue;
      INFO("our NIC " << ours << ", their " << theirs);
      World world(nics_of_1_gigabyte(2, 4));
      world.connect_all();
      Exchange exchange(world);
      exchange.message(1, 0, 1, 1000000);
      REQUIRE(exchange.run(milliseconds(100)));
      world.apply(1, ours, "kill:event");
      world.run_for(milliseconds(1));
      world.apply(0, theirs, "kill:event");
      world.run_for(milliseconds(1));
      exchange.message(1, 0, 2, 1000000);
      REQUIRE(exchange.run(milliseconds(100)));
      const std::vector<PathStats> bridges = bridges_of(world, 1, 0);
      REQUIRE(bridges.size() == 1);
      CHECK(bridges[0].local_nic == theirs);
      CHECK(bridges[0].remote_nic == ours);
    }
  }
}

// The receiver asks for the missing fragments, message after message. Each request takes packets
// out of flight on the dead path, and newer ones follow. The oldest packet in flight there is
// therefore never old.
TEST_CASE("dead_nics__requests_do_not_hide_a_silent_path", "[P2]") {
  World world(nics_of_1_gigabyte(2, 4));
  world.connect_all();
  Exchange exchange(world);
  std::uint64_t tag = 0;
  std::size_t under_way = 0;
  const auto stream = [&] {
    exchange.collect();
    for (under_way = 0; under_way < tag && !exchange.received(tag - 1 - under_way).completion;) {
      ++under_way;
    }
    for (; under_way < 16; ++under_way) exchange.message(0, 1, tag++, 50000);
    return false;
  };
  REQUIRE_FALSE(world.run_until(stream, milliseconds(5)));
  world.apply(1, 2, "kill");
  const Time killed = world.now();
  const auto found = [&]() -> const Event* {
    for (const Event& event : world.events(0)) {
      if (event.kind == Event::Kind::path_suspect) return &event;
    }
    return nullptr;
  };
  REQUIRE(world.run_until([&] { return stream(), found() != nullptr; }, milliseconds(20)));
  const Duration took = world.now() - killed;
  INFO("after " << took.ns / 1000 << " us, by " << static_cast<int>(found()->reason)
                << " lost by request " << world.stats(0).lost_by_request);
  CHECK(found()->nic == 2);
  CHECK(found()->reason == Reason::silence);
  CHECK(took < microseconds(500));  // 794 us if requests alone find it
  CHECK(world.stats(0).lost_by_request > 0);
}

// How soon the sender leaves a NIC of four that dies silently in the middle of a long message.
Duration silent_for(std::uint16_t entropies) {
  WorldConfig config = nics_of_1_gigabyte(2, 4);
  config.entropies = entropies;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 20000000);
  world.run_for(milliseconds(2));
  world.apply(1, 2, "kill");
  const Time killed = world.now();
  const auto suspected = [&] {
    for (const Event& event : world.events(0)) {
      if (event.kind != Event::Kind::path_suspect) continue;
      CHECK(event.nic == 2);
      CHECK(event.reason == Reason::silence);
      return true;
    }
    return false;
  };
  REQUIRE(world.run_until(suspected, milliseconds(20)));
  const Duration took = world.now() - killed;
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  return took;
}

TEST_CASE("dead_nics__several_ways_that_are_silent_at_once_are_believed_early", "[P22]") {
  const Duration several = silent_for(8);
  const Duration few = silent_for(2);
  INFO(several.ns / 1000 << " us over 8 lanes, " << few.ns / 1000 << " us over 2");
  CHECK(several < microseconds(300));
  CHECK(several * 3 / 2 < few);
}

}  // namespace
}  // namespace hawser::test
