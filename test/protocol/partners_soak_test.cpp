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
  WorldConfig config = server_and(kClients, kClients + 10);
  config.remotes = 2 * kClients;
  World world(config);
  std::uint64_t tag = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t client = 1; client <= kClients; ++client) {
      INFO("round " << round << ", client " << client);
      REQUIRE(serve(world, client, ++tag).has_value());
    }
    CHECK(world.stats(kServer).calls_refused == 0);
    for (std::uint32_t client = 1; client <= kClients; ++client) leave(world, client);
  }
  CHECK(world.stats(kServer).peers_forgotten >= kClients);
}

}  // namespace
}  // namespace hawser::test
