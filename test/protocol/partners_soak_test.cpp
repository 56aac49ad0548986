// SPDX-License-Identifier: Apache-2.0
// A long-lived endpoint with a hundred thousand partners in turn, and with a thousand at a time.
#include <catch2/catch.hpp>

#include "test/protocol/partners.hpp"

namespace hawser::test {
namespace {

TEST_CASE("partners__a_hundred_thousand_are_served_one_after_the_other", "[long][S29]") {
  serve_in_turn(100'000);
}

TEST_CASE("partners__a_thousand_at_a_time_come_and_go", "[long][S29]") {
  constexpr std::uint32_t kClients = 1000;
  constexpr int kRounds = 4;
  WorldConfig config = server_and(kClients, kClients + 10);
  config.remotes = 2 * kClients;
  World world(config);
  std::uint64_t tag = 0;
  PartnersCost second;
  std::size_t settled_bytes = 0;
  for (int round = 0; round < kRounds; ++round) {
    const PartnersCost mark = cost_so_far(world);
    for (std::uint32_t client = 1; client <= kClients; ++client) {
      INFO("round " << round << ", client " << client);
      REQUIRE(serve(world, client, ++tag).has_value());
    }
    CHECK(world.stats(kServer).calls_refused == 0);
    for (std::uint32_t client = 1; client <= kClients; ++client) leave(world, client);
    world.forget_past(kServer);
    // In the first round no client gets the place of another one.
    if (round == 1) {
      second = cost_so_far(world) - mark;
      settled_bytes = heap_bytes();
    }
    if (round == kRounds - 1) check_same_cost(second, cost_so_far(world) - mark);
  }
  check_same_memory(settled_bytes, (kRounds - 2) * kClients);
  CHECK(world.stats(kServer).peers_forgotten >= (kRounds - 2) * kClients);
}

}  // namespace
}  // namespace hawser::test
