// SPDX-License-Identifier: Apache-2.0
// How many paths a peer has: two for small messages and all of them for bulk. Others replace paths
// that die, and two remain when bulk is over.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <utility>

#include "proto/wire/packet.hpp"
#include "test/protocol/exchange.hpp"
#include "test/protocol/injector.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;

WorldConfig many_nics(std::uint32_t nics = 8) {
  WorldConfig config;
  config.nics = nics;
  config.tunables.fragment_bytes = 1024;
  return config;
}

std::vector<PathStats> paths_of(World& world, std::uint32_t node, std::uint32_t other) {
  return world.peer_stats(node, other).paths;
}

std::size_t paths_up(World& world, std::uint32_t node, std::uint32_t other) {
  const std::vector<PathStats> paths = paths_of(world, node, other);
  return static_cast<std::size_t>(std::ranges::count_if(
      paths, [](const PathStats& path) { return path.state == PathState::up; }));
}

// The bound slots, a bit each.
std::uint32_t slots_of(World& world, std::uint32_t node, std::uint32_t other) {
  std::uint32_t slots = 0;
  for (const PathStats& path : paths_of(world, node, other)) slots |= 1u << path.slot;
  return slots;
}

// Sends one message after the other between node 0 and node 1, each way.
class Talk {
 public:
  explicit Talk(World& world, std::size_t bytes = 200)
      : world_(world), exchange_(world), bytes_(bytes) {}

  void run_for(Duration time) {
    const Time end = world_.now() + time;
    while (world_.now() < end) once();
  }
  void once(std::size_t bytes = 0) {
    if (bytes == 0) bytes = bytes_;
    const Time began = world_.now();
    for (std::uint32_t node = 0; node < 2; ++node) exchange_.message(node, 1 - node, tag_, bytes);
    ++tag_;
    REQUIRE(exchange_.run(milliseconds(400)));
    longest_ = std::max(longest_, world_.now() - began);
    world_.run_for(microseconds(50));
  }
  void finish() { exchange_.check_all_ok(); }
  Duration take_longest() { return std::exchange(longest_, Duration{}); }

 private:
  World& world_;
  Exchange exchange_;
  std::size_t bytes_;
  std::uint64_t tag_ = 0;
  Duration longest_{};
};

TEST_CASE("binding__small_messages_have_two_paths_the_same_ones_at_both_ends", "[P11]") {
  for (const std::uint32_t nics : {1u, 2u, 3u, 8u, 16u}) {
    INFO(nics << " NICs");
    World world(many_nics(nics));
    world.connect_all();
    Talk talk(world);
    talk.run_for(milliseconds(20));
    talk.finish();
    for (std::uint32_t node = 0; node < 2; ++node) {
      CHECK(paths_up(world, node, 1 - node) == std::min(nics, 2u));
      CHECK(world.stats(node).fragments_retransmitted == 0);
    }
    const std::uint32_t slots = slots_of(world, 0, 1);
    CHECK(slots == slots_of(world, 1, 0));
    // The two home paths are as far apart as possible.
    if (nics == 8) CHECK(slots >> std::countr_zero(slots) == 0x11);
    // Both paths carry data.
    for (const PathStats& path : paths_of(world, 0, 1)) CHECK(path.packets_sent > 20);
  }
}

TEST_CASE("binding__the_homes_of_many_peers_are_on_all_nics", "[P11]") {
  WorldConfig config = many_nics(4);
  config.nodes = 17;
  config.tunables.max_peers = 32;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  for (std::uint32_t node = 0; node < config.nodes; ++node) {
    std::array<std::uint32_t, 4> here{};
    for (std::uint32_t other = 0; other < config.nodes; ++other) {
      if (other == node) continue;
      for (const PathStats& path : paths_of(world, node, other)) ++here[path.local_nic];
    }
    INFO("node " << node << ": " << here[0] << ' ' << here[1] << ' ' << here[2] << ' ' << here[3]);
    CHECK(*std::ranges::min_element(here) >= 6);  // 8 would be even
    CHECK(*std::ranges::max_element(here) <= 10);
  }
}

TEST_CASE("binding__a_message_of_more_than_two_paths_take_goes_over_all_at_once", "[P12]") {
  for (const std::size_t fragments : {16u, 17u}) {
    INFO(fragments << " fragments");
    World world(many_nics());
    world.connect_all();
    Exchange exchange(world);
    exchange.message(0, 1, 1, fragments * 1024);
    const Time began = world.now();
    REQUIRE(exchange.run(milliseconds(10)));
    exchange.check_all_ok();
    CHECK(paths_up(world, 0, 1) == (fragments == 16 ? 2 : 8));
    CHECK(paths_up(world, 1, 0) == 2);  // node 1 has sent nothing
    // The message goes over the new paths without probes first: one way there, one back.
    CHECK(world.stats(0).path_probes_sent == 0);
    CHECK((world.now() - began).ns < microseconds(40).ns);
    exchange.check_quiet();
  }
}

TEST_CASE("binding__many_small_messages_at_once_are_bulk_too", "[P12]") {
  World world(many_nics());
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t i = 0; i < 100; ++i) exchange.message(0, 1, i, 1000);
  REQUIRE(exchange.run(milliseconds(10)));
  exchange.check_all_ok();
  CHECK(paths_up(world, 0, 1) == 8);
  exchange.check_quiet();
}

// Six other paths are not bound. The second home path carries on, and a third path is bound.
TEST_CASE("binding__a_home_path_that_dies_is_replaced", "[P13]") {
  for (const bool told : {false, true}) {
    for (const std::uint32_t where : {0u, 1u}) {
      INFO((told ? "told by the driver, of node " : "silent, of node ") << where);
      World world(many_nics());
      world.connect_all();
      Talk talk(world);
      talk.run_for(milliseconds(20));
      (void)talk.take_longest();
      const std::uint32_t homes = slots_of(world, 0, 1);
      const auto victim = static_cast<std::uint32_t>(std::countr_zero(homes));
      world.apply(where, victim, told ? "kill:event" : "kill");
      talk.run_for(milliseconds(30));
      INFO("longest " << talk.take_longest().ns / 1000 << " us");
      CHECK(paths_up(world, 0, 1) >= 2);
      CHECK((slots_of(world, 0, 1) & ~homes & 0xff) != 0);
      CHECK(std::popcount(slots_of(world, 0, 1) & 0xff) <= 5);
      talk.finish();
    }
  }
}

// No bound path answers any more. The paths that are bound next do.
TEST_CASE("binding__both_home_paths_may_die_at_once", "[P13]") {
  for (const std::uint32_t where : {0u, 1u}) {
    INFO("of node " << where);
    World world(many_nics());
    world.connect_all();
    Talk talk(world);
    talk.run_for(milliseconds(20));
    const std::uint32_t homes = slots_of(world, 0, 1);
    for (std::uint32_t nic = 0; nic < 8; ++nic) {
      if ((homes >> nic & 1) != 0) world.apply(where, nic, "kill");
    }
    (void)talk.take_longest();
    talk.once();
    const Duration stall = talk.take_longest();
    INFO("stalled for " << stall.ns / 1000 << " us");
    CHECK(stall.ns < milliseconds(60).ns);
    talk.run_for(milliseconds(100));
    INFO("then at most " << talk.take_longest().ns / 1000 << " us");
    CHECK(paths_up(world, 0, 1) >= 2);
    talk.finish();
    for (std::uint32_t node = 0; node < 2; ++node) CHECK(world.stats(node).peer_failures == 0);
  }
}

TEST_CASE("binding__a_slot_whose_nic_fell_meanwhile_is_proven_first", "[P14]") {
  for (const std::uint32_t where : {0u, 1u}) {
    INFO("of node " << where);
    WorldConfig config = many_nics();
    std::vector<bool> large;  // whether a probe was full, on the watched NIC before data
    std::uint32_t watched = 99;
    bool carried = false;
    config.hook = [&](std::uint32_t node, std::uint32_t nic,
                      const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
      if (node == 0 && nic == watched && packet.direction == engine::Direction::tx &&
          packet.queue == proto::Queue::data && !carried) {
        const auto type = static_cast<proto::wire::PacketType>(packet.header[1]);
        carried = type != proto::wire::PacketType::probe;
        if (!carried) large.push_back(packet.payload.size() == 1024);
      }
      return std::nullopt;
    };
    World world(config);
    world.connect_all();
    Talk talk(world);
    talk.run_for(milliseconds(5));
    const std::uint32_t homes = slots_of(world, 0, 1);
    const auto nic = static_cast<std::uint32_t>(std::countr_one(homes));
    world.apply(where, nic, "kill:event");
    talk.run_for(milliseconds(5));
    world.apply(where, nic, "revive:event");
    talk.run_for(milliseconds(5));
    CHECK(slots_of(world, 0, 1) == homes);  // no bulk has needed it so far
    watched = nic;
    for (int i = 0; i < 20; ++i) talk.once(100000);
    CHECK(paths_up(world, 0, 1) == 8);
    CHECK(carried);
    CHECK(large.size() >= 2);
    CHECK(std::ranges::count(large, false) == 0);
    talk.finish();
  }
}

TEST_CASE("binding__a_pool_that_is_out_means_fewer_paths", "[P15]") {
  for (const std::uint64_t pool : {0u, 3u, 1000u}) {
    INFO(pool << " paths for bulk");
    WorldConfig config = many_nics(4);
    config.nodes = 4;
    config.tunables.max_bulk_paths = pool;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    exchange.all_to_all(300000);
    REQUIRE(exchange.run(milliseconds(100)));
    exchange.check_all_ok();
    for (std::uint32_t a = 0; a < 4; ++a) {
      std::size_t paths = 0;
      for (std::uint32_t b = 0; b < 4; ++b) {
        if (b != a) paths += paths_of(world, a, b).size();
      }
      CHECK(paths == 6 + std::min<std::size_t>(pool, 6));
    }
    // A path that replaces a dead one doesn't count as bulk.
    const auto nic = static_cast<std::uint32_t>(std::countr_zero(slots_of(world, 0, 1)));
    world.apply(0, nic, "kill:event");
    world.run_for(milliseconds(1));
    CHECK(paths_up(world, 0, 1) >= 2);
  }
}

// Small messages go on all the time, so neither end rests.
TEST_CASE("binding__what_bulk_needed_goes_when_it_is_over", "[P16]") {
  WorldConfig config = many_nics();
  config.tunables.rest_after_ms = 5;
  World world(config);
  world.connect_all();
  Talk talk(world);
  talk.run_for(milliseconds(10));
  const std::uint32_t homes = slots_of(world, 0, 1);
  for (int round = 0; round < 5; ++round) {
    talk.once(300000);
    CHECK(paths_up(world, 0, 1) == 8);
    CHECK(paths_up(world, 1, 0) == 8);
    talk.run_for(milliseconds(15));
    CHECK(slots_of(world, 0, 1) == homes);
    CHECK(slots_of(world, 1, 0) == homes);
  }
  talk.finish();
  for (std::uint32_t node = 0; node < 2; ++node) {
    const EndpointStats stats = world.stats(node);
    CHECK(stats.peers_rested == 0);
    CHECK(stats.fragments_retransmitted == 0);
    CHECK(stats.evacuations == 0);
    CHECK(stats.path_probes_sent == 0);
    CHECK(stats.drops == EndpointStats{}.drops);
    CHECK(world.allocations() == 0);
  }
}

// While the receiver remembers a path that bulk used, it recognizes an old packet on it as stale.
TEST_CASE("binding__the_receiver_forgets_a_path_on_which_nothing_comes", "[P16]") {
  for (const bool later : {false, true}) {
    INFO((later ? "later" : "at once"));
    WorldConfig config = many_nics();
    config.tunables.rest_after_ms = 5;
    std::array<std::optional<Datagram>, 16> newest;  // the newest packet of each slot
    config.hook = [&](std::uint32_t node, std::uint32_t, const engine::FaultPacket& packet) {
      if (node == 0 && packet.direction == engine::Direction::tx &&
          packet.queue == proto::Queue::data) {
        Datagram sent(packet.queue, packet.header, packet.payload);
        newest[sent.header().slot & 15] = sent;
      }
      return std::optional<engine::Fate>{};
    };
    World world(config);
    world.connect_all();
    Talk talk(world);
    talk.once(300000);
    const std::uint32_t bulk = slots_of(world, 0, 1);
    if (later) talk.run_for(milliseconds(20));
    const std::uint32_t unbound = later ? bulk & ~slots_of(world, 0, 1) : bulk;
    REQUIRE(std::popcount(unbound) == (later ? 6 : 8));
    Injector replay(world);
    const auto slot = static_cast<std::uint32_t>(std::countr_zero(unbound));
    replay.send(1, slot, *newest[slot]);
    world.run_for(milliseconds(1));
    CHECK(world.drops(1, DropReason::old_path_number) == (later ? 0 : 1));
    // However the receiver treats the old packets, bulk goes on.
    for (int i = 0; i < 3; ++i) talk.once(300000);
    talk.finish();
    CHECK(paths_up(world, 0, 1) == 8);
    for (std::uint32_t node = 0; node < 2; ++node) {
      CHECK(world.stats(node).fragments_retransmitted == 0);
      CHECK(world.stats(node).evacuations == 0);
    }
  }
}

TEST_CASE("binding__numbers_that_enter_an_epoch_begin_a_generation", "[P16][R3]") {
  WorldConfig config = many_nics();
  config.tunables.rest_after_ms = 5;
  config.tunables.initial_sequence = (std::uint64_t{1} << 30) - 100;
  World world(config);
  world.connect_all();
  Talk talk(world);
  const auto generations = [&] {
    std::uint32_t sum = 0;
    for (const PathStats& path : paths_of(world, 0, 1)) sum += path.generation;
    return sum;
  };
  talk.once(20000);  // all paths, a few numbers of each
  REQUIRE(generations() == 8);
  talk.run_for(milliseconds(20));
  talk.once(20000);
  CHECK(generations() == 8);
  for (int i = 0; i < 3; ++i) talk.once(500000);
  CHECK(generations() == 8);  // the generations of bound paths do not change
  talk.run_for(milliseconds(20));
  REQUIRE(paths_of(world, 0, 1).size() == 2);
  talk.once(20000);
  CHECK(generations() == 2 + 6 * 2);
  talk.finish();
  for (std::uint32_t node = 0; node < 2; ++node) {
    CHECK(world.stats(node).fragments_retransmitted == 0);
    CHECK(world.stats(node).drops == EndpointStats{}.drops);
  }
}

TEST_CASE("binding__who_wakes_has_two_paths_again", "[P16][R3]") {
  WorldConfig config = many_nics();
  config.tunables.rest_after_ms = 5;
  World world(config);
  world.connect_all();
  Talk talk(world);
  talk.once(300000);
  const auto rests = [&](std::uint32_t node) { return world.stats(node).peers_at_rest == 1; };
  for (int round = 0; round < 3; ++round) {
    REQUIRE(world.run_until([&] { return rests(0) && rests(1); }, milliseconds(100)));
    talk.once();
    for (std::uint32_t node = 0; node < 2; ++node) CHECK(paths_up(world, node, 1 - node) == 2);
    talk.once(300000);
    for (std::uint32_t node = 0; node < 2; ++node) CHECK(paths_up(world, node, 1 - node) == 8);
  }
  talk.finish();
  for (std::uint32_t node = 0; node < 2; ++node) {
    CHECK(world.stats(node).fragments_retransmitted == 0);
  }
}

}  // namespace
}  // namespace hawser::test
