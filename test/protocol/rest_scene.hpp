// SPDX-License-Identifier: Apache-2.0
// Two nodes that put each other to rest after a few milliseconds, and helpers of rest_test.cpp and
// rest_nics_test.cpp.
#pragma once

#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"

namespace hawser::test {

inline constexpr std::uint64_t kRestMs = 5;

inline WorldConfig sleepy(std::uint32_t nics = 2) {
  WorldConfig config;
  config.nics = nics;
  config.tunables.rest_after_ms = kRestMs;
  return config;
}

inline bool rests(World& world, std::uint32_t node) {
  return world.stats(node).peers_awake == 0 && world.stats(node).peers_at_rest > 0;
}

// Runs until both nodes keep only the record of each other.
inline void come_to_rest(World& world) {
  REQUIRE(world.run_until([&] { return rests(world, 0) && rests(world, 1); },
                          proto::milliseconds(100)));
}

inline void talk(World& world, std::uint32_t from, std::uint32_t to, std::size_t bytes = 100000,
                 std::uint64_t messages = 3) {
  Exchange exchange(world);
  exchange.ignore_what_was();
  for (std::uint64_t i = 0; i < messages; ++i) {
    exchange.message(from, to, i, bytes, {.level = Level::delivered});
  }
  REQUIRE(exchange.run(proto::milliseconds(200)));
  exchange.check_all_ok();
  exchange.check();
}

inline void check_one_session(World& world) {
  for (std::uint32_t node = 0; node < 2; ++node) {
    INFO("node " << node);
    CHECK(world.stats(node).sessions_established == 1);
    CHECK(world.stats(node).peer_failures == 0);
    CHECK(world.stats(node).fragments_retransmitted == 0);
    CHECK(world.allocations() == 0);
  }
}

}  // namespace hawser::test
