// SPDX-License-Identifier: Apache-2.0
// Paths: what they are bound to, and the rule of silence step by step. nics_test.cpp has scenes in
// which many NICs die and return.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;
using proto::wire::PacketType;

std::vector<PathStats> paths_of(World& world, std::uint32_t node, std::uint32_t other) {
  return world.peer_stats(node, other).paths;
}

TEST_CASE("paths__slot_i_is_bound_to_nic_i_of_either_side_in_turn", "[P1]") {
  for (const auto& [locals, remotes, slots] :
       {std::tuple{2u, 3u, 16u}, {3u, 2u, 16u}, {1u, 4u, 16u}, {4u, 4u, 2u}, {16u, 5u, 16u}}) {
    INFO(locals << " and " << remotes << " NICs, " << slots << " slots");
    WorldConfig config;
    config.nics_of = {locals, remotes};
    config.tunables.max_path_slots = slots;
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    CHECK(paths_of(world, 0, 1).size() == std::min(std::max(locals, remotes), 2u));
    Exchange exchange(world);
    exchange.message(0, 1, 1, 1000000);
    REQUIRE(exchange.run(milliseconds(100)));
    const std::vector<PathStats> paths = paths_of(world, 0, 1);
    CHECK(paths.size() == std::min(std::max(locals, remotes), slots));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      CHECK(paths[i].slot == i);
      CHECK(paths[i].local_nic == i % locals);
      CHECK(paths[i].remote_nic == i % remotes);
      CHECK(paths[i].state == PathState::up);
    }
  }
}

// Two NICs. The first data packet of node 0's NIC 1 after `begin` is lost, and probes are lost
// while `lose_probes` is true. Only silence shows it: the sender's timers and the receiver's
// requests are off.
struct LostOnNic1 {
  World* running = nullptr;
  bool lose_probes = false;
  int lost = 0;
  std::uint64_t passed = 0;      // data packets on NIC 1 after the lost one
  std::size_t empty_probes = 0;  // on NIC 0
  WorldConfig config;
  LostOnNic1() {
    config.nics = 2;
    config.tunables.recovery_pto = 0;
    config.tunables.recovery_request = 0;
    config.hook = [this](std::uint32_t node, std::uint32_t nic,
                         const FaultPacket& packet) -> std::optional<Fate> {
      if (running == nullptr || node != 0 || packet.direction != Direction::tx) return {};
      const PacketType type = view_of(packet).type;
      if (nic == 0 && type == PacketType::probe && packet.payload.empty()) ++empty_probes;
      if (nic != 1) return {};
      if (type == PacketType::probe && lose_probes) return Fate{.drop = true};
      if (type != PacketType::data) return {};
      if (lost > 0) {
        ++passed;
        return {};
      }
      ++lost;
      return Fate{.drop = true};
    };
  }
  void begin(World& world) {
    world.connect_all();
    world.run_for(milliseconds(20));
    running = &world;
  }
};

// Sends small messages one by one. They take turns on the paths until one of them is lost.
void send_until_lost(World& world, Exchange& exchange, const LostOnNic1& scene) {
  for (std::uint64_t i = 0; i < 10 && scene.lost == 0; ++i) {
    exchange.message(0, 1, i, 100);
    world.run_for(microseconds(100));
  }
  REQUIRE(scene.lost == 1);
}

// Later messages go on path 0, because path 1 has a packet in flight. Once that packet is older
// than a probe timeout and a whole turn of the peer has followed, the sender retransmits it
// elsewhere. A probe of the path is acknowledged, and the path is as good as before.
TEST_CASE("paths__one_lost_packet_of_an_idle_path_is_moved_and_the_path_stays", "[P2][P4][P5]") {
  LostOnNic1 scene;
  World world(scene.config);
  scene.begin(world);
  Exchange exchange(world);
  send_until_lost(world, exchange, scene);
  const Time lost_at = world.now();
  for (std::uint64_t tag = 100; !exchange.settled() && tag < 300; ++tag) {
    exchange.message(0, 1, tag, 100);
    world.run_for(microseconds(40));
  }
  REQUIRE(exchange.run(milliseconds(10)));
  CHECK((world.now() - lost_at).ns < milliseconds(3).ns);
  exchange.check_all_ok();
  CHECK(world.stats(0).evacuations == 1);
  CHECK(world.stats(0).lost_by_evacuation == 1);
  CHECK(world.stats(0).fragments_retransmitted == 1);
  CHECK(world.stats(0).paths_down == 0);
  world.run_for(milliseconds(5));
  for (const PathStats& path : paths_of(world, 0, 1)) CHECK(path.state == PathState::up);
  exchange.check_quiet();
}

// A single message follows. Its acknowledgement raises the suspicion. Nothing in flight would bring
// an acknowledgement of a later turn, so an empty probe on path 0 does.
TEST_CASE("paths__a_probe_on_a_path_that_answers_confirms_a_silence", "[P3]") {
  LostOnNic1 scene;
  World world(scene.config);
  scene.begin(world);
  Exchange exchange(world);
  send_until_lost(world, exchange, scene);
  world.run_for(milliseconds(5));
  exchange.collect();
  CHECK_FALSE(exchange.settled());
  scene.empty_probes = 0;
  exchange.message(0, 1, 50, 100);
  REQUIRE(exchange.run(milliseconds(1)));
  CHECK(scene.empty_probes == 1);
  CHECK(world.stats(0).evacuations == 1);
  exchange.check_all_ok();
  exchange.check_quiet();
}

// A NIC that gets slower seems silent at first. Late acknowledgements show how long to wait, so the
// path stays in use. The acknowledgement of an early probe may show it sooner.
TEST_CASE("paths__a_delay_that_grows_is_learnt_from_what_was_declared_lost", "[L13]") {
  for (const std::string slower : {"delay=500us", "delay=700us"}) {
    for (const bool early : {false, true}) {
      INFO(slower << (early ? ", early probes" : ""));
      WorldConfig config;
      config.tunables.recovery_early = early ? 1 : 0;
      config.nics = 2;
      config.faults = "delay=20us";
      World world(config);
      world.connect_all();
      Exchange exchange(world);
      std::uint64_t tag = 0;
      const auto stream = [&](int messages) {
        for (int i = 0; i < messages; ++i, ++tag) {
          exchange.message(0, 1, tag, 200000);
          REQUIRE(exchange.run(milliseconds(100)));
        }
      };
      stream(20);
      CHECK(world.stats(0).packets_lost == 0);
      world.apply(0, 0, slower);
      stream(200);
      CHECK(world.stats(0).evacuations <= 1);
      if (!early) CHECK(world.stats(0).evacuations == 1);
      CHECK(world.stats(0).paths_down == 0);
      exchange.check_all_ok();
    }
  }
}

// Several probes are in flight when the first acknowledgement comes. The others keep their time
// too.
TEST_CASE("paths__a_way_longer_than_the_interval_of_probes_comes_back", "[P1]") {
  WorldConfig config;
  config.nics = 2;
  config.faults = "delay=400us";
  config.tunables.path_probe_min_us = 100;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  // The path is probed when its own NIC is back, and again when the peer announces the other one.
  for (const char* change : {"kill:event", "revive:event"}) {
    for (const std::uint32_t node : {0, 1}) world.apply(node, 1, change);
    world.run_for(microseconds(50));
    CHECK(world.stats(0).paths_down == 1);
  }
  for (const std::uint32_t node : {0, 1}) {
    CHECK(world.run_until([&] { return world.stats(node).paths_returned == 1; }, milliseconds(50)));
  }
}

// Path 1 is suspect, and its probes are lost. Then NIC 0 goes away. No path is better than path 1,
// so it carries data at once.
TEST_CASE("paths__a_suspect_path_serves_where_none_is_up", "[P10]") {
  LostOnNic1 scene;
  scene.lose_probes = true;
  World world(scene.config);
  scene.begin(world);
  Exchange exchange(world);
  send_until_lost(world, exchange, scene);
  std::uint64_t tag = 100;
  const auto suspected = [&] {
    const auto paths = paths_of(world, 0, 1);
    return std::ranges::any_of(paths,
                               [](const PathStats& p) { return p.state == PathState::suspect; });
  };
  while (!suspected() && tag < 300) {
    (void)exchange.receive(1, 0, tag, 100);
    (void)exchange.send(0, 1, tag++, 100);
    (void)world.run_until(suspected, microseconds(40));
  }
  REQUIRE(suspected());
  REQUIRE(scene.passed == 0);
  world.apply(0, 0, "kill:event");
  exchange.message(0, 1, 500, 100);
  REQUIRE(world.run_until([&] { return scene.passed > 0; }, microseconds(50)));
  scene.lose_probes = false;
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
