// SPDX-License-Identifier: Apache-2.0
// A NIC dies silently, between hosts that are away now and then and exchange little: how long a
// message that was sent over it waits.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;

// The first acknowledgements are as late as on a host whose processes all start at once, and few
// follow before a NIC dies. The response times since then are the measure, not that absence.
TEST_CASE("silent_death__is_found_out_as_soon_as_answers_have_come_lately", "[L10]") {
  for_each_seed(20, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 4;
    config.faults = "delay=20us";
    config.seed = random.next();
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    std::uint64_t tag = 0;
    const auto exchange_one = [&](Duration away) {
      world.pause(1, true);
      exchange.message(0, 1, ++tag, 8);
      world.run_for(away);
      world.pause(1, false);
      const proto::Time back = world.now();
      REQUIRE(exchange.run(milliseconds(5000)));
      return world.now() - back;
    };
    const auto briefly = [&] {
      return microseconds(static_cast<std::int64_t>(random.below(5000)));
    };
    (void)exchange_one(milliseconds(250));
    for (std::uint64_t left = 4 + random.below(4); left > 0; --left) {
      (void)exchange_one(briefly());
      world.run_for(milliseconds(20));
    }
    for (std::uint32_t nic = 0; nic < 4; ++nic) {
      for (const std::uint32_t node : {0u, 1u}) world.apply(node, nic, "kill");
      for (int i = 0; i < 4; ++i) CHECK(exchange_one(briefly()) < milliseconds(80));
      for (const std::uint32_t node : {0u, 1u}) world.apply(node, nic, "revive");
      world.run_for(milliseconds(600));
    }
    exchange.check_all_ok();
    exchange.check_quiet();
  });
}

}  // namespace
}  // namespace hawser::test
