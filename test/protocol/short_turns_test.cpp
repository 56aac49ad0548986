// SPDX-License-Identifier: Apache-2.0
// A turn stays short with hundreds of peers that all need something at one moment: the next turns
// do the rest, and nobody is forgotten.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

constexpr std::uint32_t kPeers = 240;
constexpr std::uint64_t kMostInATurn = 128 + 8;  // and some of other kinds

// Node 0 in the middle, and peers that know it alone.
class Hub {
 public:
  Hub() : world(config()) {
    for (std::uint32_t i = 1; i <= kPeers; ++i) (void)world.peer(0, i);
    REQUIRE(world.run_until([&] { return world.stats(0).sessions_established == kPeers; },
                            milliseconds(100)));
    world.run_for(milliseconds(5));
  }
  // The most by which `count` grew from one step of the world to the next, until it has grown by
  // the number of peers.
  template <class Count>
  std::uint64_t most_in_a_step(Count&& count, proto::Duration limit) {
    const std::uint64_t first = count();
    std::uint64_t before = first;
    std::uint64_t most = 0;
    REQUIRE(world.run_until(
        [&] {
          const std::uint64_t now = count();
          most = std::max(most, now - before);
          before = now;
          return now >= first + kPeers;
        },
        limit));
    return most;
  }
  std::uint64_t packets_sent() {
    std::vector<NicStats> stats(world.nics(0));
    world.endpoint(0).nic_stats(stats);
    std::uint64_t sent = 0;
    for (const NicStats& nic : stats) sent += nic.packets_sent;
    return sent;
  }

  World world;

 private:
  static WorldConfig config() {
    WorldConfig config = tiny_world();
    config.nodes = 1 + kPeers;
    config.nics = 2;
    config.tunables.max_peers = kPeers;
    config.tunables.max_operations = 2 * kPeers;
    config.tunables.fragment_bytes = 1024;
    config.tunables.rest_after_ms = 100000;
    config.tunables.poll_budget_packets = 1024;
    config.remotes = 2 * kPeers;
    config.ring_slots = config.control_slots = config.held_packets = kPeers + 16;
    return config;
  }
};

TEST_CASE("short_turns__a_nic_that_dies_is_told_to_some_peers_a_turn") {
  Hub hub;
  hub.world.apply(0, 1, "kill:event");
  hub.world.wake(0);
  const std::uint64_t most =
      hub.most_in_a_step([&] { return hub.world.stats(0).paths_down; }, milliseconds(1));
  CHECK(most > 1);
  CHECK(most <= kMostInATurn);
  // Each peer hears of it, and is told at most so many a turn.
  REQUIRE(hub.world.run_until(
      [&] {
        for (std::uint32_t i = 1; i <= kPeers; ++i) {
          if (hub.world.stats(i).paths_down == 0) return false;
        }
        return true;
      },
      milliseconds(2)));
  // It comes back, and goes again before all have heard of that.
  hub.world.apply(0, 1, "revive:event");
  hub.world.wake(0);
  hub.world.run_for(proto::nanoseconds(1));
  hub.world.apply(0, 1, "kill:event");
  hub.world.wake(0);
  hub.world.run_for(milliseconds(50));
  hub.world.apply(0, 1, "revive:event");
  hub.world.wake(0);
  REQUIRE(hub.world.run_until([&] { return hub.world.stats(0).paths_returned >= kPeers; },
                              milliseconds(500)));
}

TEST_CASE("short_turns__messages_to_all_survive_the_death_of_the_nic_that_carries_them") {
  Hub hub;
  Exchange exchange(hub.world);
  for (std::uint32_t i = 1; i <= kPeers; ++i) exchange.message(0, i, i - 1, 100);
  hub.world.run_for(proto::nanoseconds(1));
  hub.world.apply(0, 1, "kill:event");
  REQUIRE(exchange.run(milliseconds(5)));
  exchange.check_all_ok();
  exchange.check();
}

TEST_CASE("short_turns__acknowledgements_that_are_due_to_all_go_in_several_turns") {
  Hub hub;
  Exchange exchange(hub.world);
  hub.world.pause(0, true);
  for (std::uint32_t i = 1; i <= kPeers; ++i) exchange.message(i, 0, i - 1, 100);
  hub.world.run_for(milliseconds(1));
  hub.world.pause(0, false);
  hub.world.wake(0);
  const std::uint64_t most =
      hub.most_in_a_step([&] { return hub.packets_sent(); }, milliseconds(5));
  CHECK(most > 1);
  CHECK(most <= kMostInATurn);
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
}

TEST_CASE("short_turns__timeouts_of_all_come_in_several_turns") {
  Hub hub;
  Exchange exchange(hub.world);
  hub.world.apply(0, "kill");
  for (std::uint32_t i = 1; i <= kPeers; ++i) exchange.message(0, i, i - 1, 100);
  hub.world.run_for(microseconds(100));
  hub.world.pause(0, true);
  hub.world.run_for(milliseconds(20));
  hub.world.pause(0, false);
  hub.world.wake(0);
  const std::uint64_t most =
      hub.most_in_a_step([&] { return hub.world.stats(0).ptos; }, milliseconds(100));
  CHECK(most > 1);
  CHECK(most <= kMostInATurn);
  hub.world.apply(0, "revive");
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
