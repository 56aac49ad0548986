// SPDX-License-Identifier: Apache-2.0
// Message and path numbers pass 2^32, where their 32 bits on the wire wrap.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

TEST_CASE("wrap__message_and_path_numbers_pass_2_to_32_under_faults") {
  for_each_seed(12, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 2;
    config.seed = random.next();
    config.faults = "delay=5us/10us,loss=0.05,duplicate=0.02,reorder=0.05";
    // The first messages and packets have numbers before the wrap, the last ones after it.
    config.tunables.initial_sequence = (std::uint64_t{1} << 32) - 1 - random.below(60);
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t round = 0; round < 4; ++round) {
      for (std::uint64_t i = 0; i < 40; ++i) {
        const std::size_t bytes = i % 8 == 0 ? 200000 : random.below(9000);
        const proto::SendOptions options{.level = i % 3 == 0 ? Level::delivered : Level::accepted};
        if (i % 2 == 0) (void)exchange.receive(1, 0, i, bytes);
        (void)exchange.send(0, 1, i, bytes, options);
        if (i % 2 == 1) (void)exchange.receive(1, 0, i, bytes);
        exchange.message(1, 0, i, bytes, options);
      }
      REQUIRE(exchange.run(milliseconds(2000)));
    }
    exchange.check_all_ok();
    exchange.check_quiet(milliseconds(200));
  });
}

TEST_CASE("wrap__a_nic_dies_and_returns_across_the_wrap") {
  for_each_seed(4, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 4;
    config.seed = random.next();
    config.faults = "delay=20us,rate=1000000000,loss=0.001";
    config.tunables.initial_sequence = (std::uint64_t{1} << 32) - 500;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 40; ++i) exchange.message(0, 1, i, 1000000);
    world.run_for(proto::microseconds(100 + random.below(2000)));
    world.apply(1, 2, "kill");
    world.run_for(milliseconds(5));
    world.apply(1, 2, "revive");
    REQUIRE(exchange.run(milliseconds(1000)));
    exchange.check_all_ok();
    REQUIRE(
        world.run_until([&] { return world.stats(0).paths_returned == world.stats(0).paths_down; },
                        milliseconds(1000)));
    exchange.check_quiet();
  });
}

TEST_CASE("wrap__a_send_stays_unmatched_while_thousands_pass_the_wrap", "[M6]") {
  WorldConfig config;
  config.tunables.initial_sequence = (std::uint64_t{1} << 32) - 1000;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1 << 20, 100, {.level = Level::delivered});
  for (std::uint64_t i = 0; i < 2000; ++i) {
    (void)exchange.receive(1, 0, i, 10);
    REQUIRE(world.run_until([&] { return exchange.try_send(0, 1, i, 10).has_value(); },
                            milliseconds(100)));
  }
  world.run_for(milliseconds(100));
  (void)exchange.receive(1, 0, 1 << 20, 100);
  REQUIRE(exchange.run(milliseconds(200)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

}  // namespace
}  // namespace hawser::test
