// SPDX-License-Identifier: Apache-2.0
// How sessions end at both ends: when one end has given up, the other doesn't go on with the
// session.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/injector.hpp"
#include "test/protocol/packets.hpp"
#include "test/protocol/scripted_peer.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;
using proto::wire::PacketType;

// Both ends fail and connect again without a restart. Then all packets that were in flight arrive.
TEST_CASE("ending__partition_then_reconnect_then_the_old_packets", "[scenario 10][I2]") {
  for_each_seed(10, [](proto::Random& random) {
    struct Late {
      std::uint32_t to;
      Datagram datagram;
    };
    std::vector<Late> late;
    bool parted = false;
    WorldConfig config;
    config.seed = random.next();
    config.tunables.peer_timeout_ms = 300;
    config.hook = [&](std::uint32_t node, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::tx) return {};
      if (parted || random.chance(0.2)) {
        late.push_back({1 - node, Datagram(packet.queue, packet.header, packet.payload)});
      }
      if (parted) return Fate{.drop = true};
      return {};
    };
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange before(world);
    for (std::uint64_t i = 0; i < 10; ++i) {
      (void)before.receive(1, 0, i, 50000);
      (void)before.receive(0, 1, i, 50000);
      (void)before.send(0, 1, i, 50000, {.level = Level::delivered});
      (void)before.send(1, 0, i, 50000, {.level = Level::delivered});
    }
    world.run_for(microseconds(random.below(25)));
    parted = true;
    REQUIRE(before.run(milliseconds(400)));
    for (const std::uint32_t node : {0, 1}) CHECK(world.stats(node).peer_failures == 1);
    parted = false;
    world.reconnect(0, 1);
    world.reconnect(1, 0);
    world.run_for(milliseconds(random.below(3)));
    Injector injector(world);
    Exchange after(world);
    after.ignore_what_was();
    for (std::uint64_t i = 0; i < 10; ++i) {
      (void)after.receive(1, 0, i, 50000);
      (void)after.receive(0, 1, i, 50000);
      (void)after.send(0, 1, i, 50000, {.level = Level::delivered});
      (void)after.send(1, 0, i, 50000, {.level = Level::delivered});
    }
    const std::size_t count = late.size();
    CHECK(count > 10);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = random.chance(0.5) ? i : random.below(count);
      Datagram datagram = late[at].datagram;
      injector.send(late[at].to, 0, datagram);
      if (random.chance(0.2)) world.run_for(microseconds(random.below(50)));
    }
    REQUIRE(after.run(milliseconds(200)));
    after.check_all_ok();
    after.check_quiet();
    for (const std::uint32_t node : {0, 1}) {
      CHECK(world.stats(node).peer_failures == 1);
      CHECK(world.stats(node).sessions_established == 2);
    }
  });
}

// CLOSE is lost. The other end learns of it when it next sends, long before peer_timeout.
TEST_CASE("ending__a_half_session_is_reset_when_it_speaks", "[S21]") {
  bool deaf = false;
  WorldConfig config;
  config.hook = [&](std::uint32_t, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || !deaf) return {};
    return Fate{.drop = view_of(packet).type == PacketType::close};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  deaf = true;
  world.disconnect(0, 1);
  world.run_for(milliseconds(20));
  CHECK(world.stats(1).peer_failures == 0);
  Exchange exchange(world);
  (void)exchange.send(1, 0, 1, 500000);
  const Time start = world.now();
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK((world.now() - start).ns < milliseconds(1).ns);
  CHECK(exchange.sent(0).completion->status == Status::peer_closed);
  CHECK(world.stats(0).resets_sent == 1);
  // The next session works like any other, and nothing resets it.
  world.reconnect(1, 0);
  (void)exchange.receive(0, kAnyNode, 2, 1000);
  (void)exchange.send(1, 0, 2, 1000);
  REQUIRE(exchange.run(milliseconds(50)));
  CHECK(exchange.sent(1).completion->status == Status::ok);
  world.run_for(milliseconds(100));
  CHECK(world.stats(0).resets_sent == 1);
}

TEST_CASE("ending__resets_are_few_however_many_packets_come", "[S21]") {
  WorldConfig config;
  config.nodes = 1;
  World world(config);
  ScriptedPeer peer(world, 0, 99);
  peer.say(PacketType::hello);
  world.run_for(milliseconds(1));
  (void)peer.seen();
  peer.speak();
  world.run_for(milliseconds(1));
  REQUIRE(world.endpoint(0).disconnect(world.now(), PeerId{0}) == Status::ok);
  world.wake(0);
  world.run_for(milliseconds(1));
  CHECK(peer.heard() == "CLOSE");
  std::size_t resets = 0;
  for (int i = 0; i < 1000; ++i) {
    peer.speak();
    world.run_for(microseconds(100));
    for (const ScriptedPeer::Seen& packet : peer.seen()) {
      REQUIRE(packet.type == PacketType::reset);
      CHECK(packet.header.token == peer.token);
      CHECK(packet.header.receiver == peer.index);
      ++resets;
    }
  }
  CHECK(resets >= 9);
  CHECK(resets <= 11);  // one each 10 ms
}

TEST_CASE("ending__a_reset_of_an_older_session_does_nothing_to_a_newer_one", "[S22]") {
  std::vector<Datagram> resets;
  bool block_close = false;
  WorldConfig config;
  config.hook = [&](std::uint32_t, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx) return {};
    const PacketType type = view_of(packet).type;
    if (type == PacketType::close && block_close) return Fate{.drop = true};
    if (type != PacketType::reset) return {};
    resets.emplace_back(packet.queue, packet.header, packet.payload);
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  block_close = true;
  REQUIRE(world.endpoint(0).disconnect(world.now(), world.peer(0, 1)) == Status::ok);
  Exchange exchange(world);
  (void)exchange.send(1, 0, 1, 100);
  REQUIRE(exchange.run(milliseconds(100)));
  REQUIRE(resets.size() == 1);
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  world.run_for(milliseconds(5));
  Injector injector(world);
  exchange.message(1, 0, 2, 200000);
  for (int i = 0; i < 20; ++i) {
    injector.send(1, 0, resets[0]);
    world.run_for(microseconds(5));
  }
  REQUIRE(exchange.run(milliseconds(50)));
  CHECK(exchange.sent(1).completion->status == Status::ok);
  CHECK(world.stats(1).peer_failures == 1);
}

// The final status is lost, and the first CLOSED too.
TEST_CASE("ending__final_status_and_first_closed_lost", "[scenario 19][S14][S15]") {
  bool mute = false;
  std::uint32_t closes = 0;
  std::uint32_t closeds = 0;
  WorldConfig config;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || !mute) return {};
    const PacketType type = view_of(packet).type;
    if (type == PacketType::close) ++closes;
    if (type == PacketType::closed) return Fate{.drop = ++closeds == 1};
    return Fate{.drop = node == 1 && type == PacketType::control};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  mute = true;
  exchange.message(0, 1, 1, 100, {.level = Level::delivered});
  REQUIRE(exchange.run_until([&] { return exchange.received(0).completion.has_value(); },
                             milliseconds(10)));
  world.run_for(milliseconds(2));
  CHECK_FALSE(exchange.sent(0).completion.has_value());
  const Time start = world.now();
  world.close(1);
  REQUIRE(world.run_until([&] { return world.endpoint(1).closed(); }, milliseconds(900)));
  // It first lingers for its own acknowledgements, which are lost: half of close_timeout.
  CHECK((world.now() - start).ns < milliseconds(600).ns);
  REQUIRE(exchange.run(milliseconds(10)));
  exchange.check_all_ok();
  CHECK(closes >= 2);
  CHECK(closeds >= 2);
}

// There are more final statuses than one packet holds, and the packets get lost.
TEST_CASE("ending__close_carries_all_final_statuses", "[S14][S15]") {
  for_each_seed(6, [](proto::Random& random) {
    bool mute = false;
    std::uint32_t most_parts = 0;
    WorldConfig config;
    config.seed = random.next();
    const double loss = random.chance(0.5) ? 0.4 : 0;
    config.hook = [&](std::uint32_t node, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::tx || !mute) return {};
      const proto::wire::PacketView view = view_of(packet);
      if (node == 1 && view.type == PacketType::control) return Fate{.drop = true};
      if (view.type == PacketType::close) {
        most_parts = std::max<std::uint32_t>(most_parts, view.closing->part + 1u);
        return Fate{.drop = random.chance(loss)};
      }
      return {};
    };
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    mute = true;
    Exchange exchange(world);
    constexpr std::uint64_t kMessages = 800;
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      if (i % 2 == 0) (void)exchange.receive(1, 0, i, 16);  // statuses differ: no runs
      (void)exchange.send(0, 1, i, 16);
    }
    std::size_t received = 0;
    REQUIRE(exchange.run_until(
        [&] {
          received = 0;
          for (std::size_t i = 0; i < exchange.receives(); ++i) {
            received += exchange.received(i).completion.has_value() ? 1u : 0u;
          }
          return received == kMessages / 2 && world.stats(1).unexpected_messages == kMessages / 2;
        },
        milliseconds(2000)));
    world.run_for(milliseconds(1));
    world.close(1);
    REQUIRE(world.run_until([&] { return world.endpoint(1).closed(); }, milliseconds(2100)));
    REQUIRE(exchange.run(milliseconds(10)));
    for (std::size_t i = 0; i < kMessages; ++i) {
      REQUIRE(exchange.sent(i).completion->status == Status::ok);
    }
    CHECK(most_parts >= 7);
  });
}

// Absences up to the length that a peer has declared are tolerated; longer ones are not.
TEST_CASE("ending__a_declared_absence_is_waited_for") {
  for (const std::uint64_t absence_ms : {0u, 800u}) {
    WorldConfig config;
    config.tunables.peer_timeout_ms = 200;
    config.tunables.longest_absence_ms = absence_ms;
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    (void)exchange.receive(0, 1, 1, 100);
    world.pause(1, true);
    world.run_for(milliseconds(180));
    CHECK(world.stats(0).peer_failures == 0);
    world.run_for(milliseconds(700));
    CHECK(world.stats(0).peer_failures == (absence_ms == 0 ? 1 : 0));
    world.run_for(milliseconds(200));
    CHECK(world.stats(0).peer_failures == 1);
  }
}

// The only path waits for its own timeout, which is longer than a quarter of patience.
TEST_CASE("ending__keepalives_ask_again_where_all_has_been_asked", "[P17]") {
  WorldConfig config;
  config.faults = "delay=50000us";
  config.tunables.initial_rtt_us = 100000;
  config.tunables.peer_timeout_ms = 800;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(300));
  Exchange exchange(world);
  world.apply(1, 0, "blackhole=rx");
  exchange.message(0, 1, 1, 100);
  world.run_for(milliseconds(150));
  world.apply(1, 0, "blackhole=none");
  REQUIRE(exchange.run(milliseconds(600)));
  exchange.check_all_ok();
  CHECK(world.stats(0).ptos == 0);
}

TEST_CASE("ending__keepalives_go_only_to_peers_with_something_pending") {
  WorldConfig config;
  config.nodes = 3;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(100));
  const auto packets = [&](std::uint32_t node) {
    std::array<NicStats, 1> stats;
    world.endpoint(node).nic_stats(stats);
    return stats[0].packets_sent;
  };
  std::array<std::uint64_t, 3> before{packets(0), packets(1), packets(2)};
  world.run_for(milliseconds(3600000));
  for (std::uint32_t node = 0; node < 3; ++node) CHECK(packets(node) == before[node]);
  // For an hour node 0 has a receive that waits for node 1: some probes, their acknowledgements,
  // nothing else.
  Exchange exchange(world);
  (void)exchange.receive(0, 1, 1, 100);
  world.run_for(milliseconds(3600000));
  const std::uint64_t probes = packets(0) - before[0];
  CHECK(probes >= 3600 / 10);  // more than one per peer_timeout
  CHECK(probes <= 3600 * 2);
  CHECK(packets(1) > before[1]);
  CHECK(packets(2) == before[2]);
  (void)exchange.send(1, 0, 1, 100);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
