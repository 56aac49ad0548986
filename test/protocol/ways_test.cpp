// SPDX-License-Identifier: Apache-2.0
// Ways, the routes between two NICs, whose MTU is smaller than that of the NICs at their ends.
#include <algorithm>
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

constexpr std::uint32_t kNics = 4096 + 1024;  // what the NICs carry
constexpr std::uint32_t kWay = 1372;          // an MTU of 1400, without IP and UDP headers
constexpr std::uint32_t kFits = 1280;         // (1372 - 80) / 16 * 16

// The MTU of each node's ways, and the longest packet on any of them.
struct Ways {
  std::array<std::uint32_t, 2> carries{kNics, kNics};
  std::size_t longest = 0;

  WorldConfig config(std::uint32_t nics = 1) {
    WorldConfig config;
    config.nics = nics;
    config.way_bytes = [this](std::uint32_t node, std::uint32_t nic, const proto::NicAddress&) {
      return nic == 0 ? carries[node] : kNics;
    };
    config.hook = [this](std::uint32_t, std::uint32_t, const engine::FaultPacket& packet) {
      longest = std::max(longest, packet.header.size() + packet.payload.size());
      return std::optional<engine::Fate>();
    };
    return config;
  }
};

void exchange_both_ways(World& world) {
  Exchange exchange(world);
  exchange.ignore_what_was();
  exchange.both_ways(4, 100'000, 100'000);
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
}

void check_sizes(World& world, std::uint32_t bytes) {
  CHECK(world.peer_stats(0, 1).fragment_bytes == bytes);
  CHECK(world.peer_stats(1, 0).fragment_bytes == bytes);
}

}  // namespace

TEST_CASE("ways__a_session_takes_what_the_least_of_them_carries", "[S32]") {
  for (const std::uint32_t nics : {1, 2}) {
    for (const std::uint32_t narrow : {0, 1}) {
      for (const bool both_call : {false, true}) {
        Ways ways;
        ways.carries[narrow] = kWay;
        World world(ways.config(nics));
        if (both_call) {
          world.connect_all();
        } else {
          (void)world.peer(0, 1);
        }
        world.run_for(milliseconds(5));
        exchange_both_ways(world);
        check_sizes(world, kFits);
        CHECK(ways.longest <= kWay);
        CHECK(world.allocations() == 0);
      }
    }
  }
}

TEST_CASE("ways__the_size_is_the_session_s_for_its_life", "[S32]") {
  Ways ways;
  World world(ways.config());
  world.connect_all();
  world.run_for(milliseconds(5));
  exchange_both_ways(world);
  check_sizes(world, 4096);
  ways.carries = {kWay, kWay};
  exchange_both_ways(world);  // too long packets go as IP fragments
  check_sizes(world, 4096);
  world.disconnect(0, 1);
  world.run_for(milliseconds(20));
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  ways.longest = 0;
  exchange_both_ways(world);
  check_sizes(world, kFits);
  CHECK(ways.longest <= kWay);
  ways.carries = {kNics, kNics};  // the ways carry full packets again
  world.disconnect(1, 0);
  world.run_for(milliseconds(20));
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  exchange_both_ways(world);
  check_sizes(world, 4096);
}

TEST_CASE("ways__who_starts_again_finds_them_as_they_are_now", "[S32]") {
  Ways ways;
  World world(ways.config());
  world.connect_all();
  world.run_for(milliseconds(5));
  check_sizes(world, 4096);
  ways.carries[0] = kWay;
  world.crash(1, true);
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  world.run_for(milliseconds(50));
  exchange_both_ways(world);
  check_sizes(world, kFits);
}

TEST_CASE("ways__a_peer_at_rest_keeps_its_size", "[S32]") {
  Ways ways;
  ways.carries = {kWay, kNics};
  WorldConfig config = ways.config();
  config.tunables.rest_after_ms = 10;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(200));
  REQUIRE(world.peer_stats(0, 1).at_rest);
  check_sizes(world, kFits);
  ways.carries = {kNics, kNics};
  world.apply(0, 0, "revive:moved");  // wakes the peer: an announcement repeats the size
  exchange_both_ways(world);
  check_sizes(world, kFits);
}

TEST_CASE("ways__none_is_too_narrow_for_a_session", "[S32]") {
  Ways ways;
  ways.carries = {60, kNics};
  World world(ways.config());
  world.connect_all();
  exchange_both_ways(world);
  check_sizes(world, 256);
}

}  // namespace hawser::test
