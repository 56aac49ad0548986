// SPDX-License-Identifier: Apache-2.0
// A host that is slower than its traffic: its turns leave packets in a ring.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

// Lets the node take one turn, and then the others run for `every`.
void one_turn(World& world, std::uint32_t node, proto::Duration every) {
  const std::uint64_t before = world.stats(node).data_packets_received;
  world.pause(node, false);
  (void)world.run_until([&] { return world.stats(node).data_packets_received != before; }, every);
  world.pause(node, true);
  world.run_for(every);
}

// Other nodes fill the ring of NIC 0 of node 1, and each turn takes only a few packets of it.
// Packets from node 0 wait there for many turns, while each turn acknowledges those on NIC 1. NIC 0
// is late, but not silent.
TEST_CASE("backlog__in_one_ring_is_not_silence") {
  constexpr std::uint32_t kFlooders = 32;
  WorldConfig config;
  config.nodes = 2 + kFlooders;
  config.nics_of.assign(config.nodes, 1);
  config.nics_of[0] = config.nics_of[1] = 2;
  config.tunables.max_peers = 64;
  config.tunables.poll_budget_packets = 8;
  config.tunables.late_wakeup_us = 10'000'000;  // no turn of node 1 drains for being late
  config.ring_slots = 4096;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  constexpr std::size_t kFlood = 1 << 22;
  world.pause(1, true);
  std::uint64_t tag = 0;
  std::uint64_t done = 0;
  for (int turn = 0; turn < 300; ++turn) {
    if (turn == 100) {
      for (std::uint32_t i = 2; i < config.nodes; ++i) exchange.message(i, 1, 0, kFlood);
    }
    while (tag < done + 4) {
      exchange.message(0, 1, tag, 16384);
      ++tag;
    }
    one_turn(world, 1, microseconds(500));
    done = world.stats(0).messages_sent;
  }
  CHECK(done > 100);
  CHECK(world.stats(0).evacuations == 0);
  CHECK(world.stats(0).lost_by_evacuation == 0);
  world.pause(1, false);
  REQUIRE(exchange.run(milliseconds(5000)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
