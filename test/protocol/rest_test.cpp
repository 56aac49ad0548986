// SPDX-License-Identifier: Apache-2.0
// Quiet peers are put to rest, at one end or at both, and wake for any traffic. The delivered
// messages don't show it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "test/protocol/injector.hpp"
#include "test/protocol/packets.hpp"
#include "test/protocol/rest_scene.hpp"
#include "test/protocol/scripted_peer.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::PacketType;

TEST_CASE("rest__a_quiet_peer_is_a_record_and_its_stats_say_so", "[R1]") {
  World world(sleepy());
  talk(world, 0, 1);
  const proto::Time quiet = world.now();
  CHECK(world.stats(0).peers_awake == 1);
  CHECK(world.peer_stats(0, 1).paths.size() == 2);
  come_to_rest(world);
  CHECK((world.now() - quiet).ns >= milliseconds(kRestMs - 1).ns);
  for (std::uint32_t node = 0; node < 2; ++node) {
    const PeerStats stats = world.peer_stats(node, 1 - node);
    CHECK(stats.at_rest);
    CHECK(stats.established);
    CHECK(stats.endpoint_id == 2 - node);
    CHECK(stats.paths.empty());
    CHECK(stats.last_heard_ns_ago >= std::uint64_t{kRestMs} * 1000000);
  }
  // No timers are due any more.
  const std::uint64_t turns = world.turns();
  world.run_for(milliseconds(100000));
  CHECK(world.turns() - turns <= 4);
  CHECK(world.peer_stats(0, 1).at_rest);
  check_one_session(world);
}

// A resting peer has called nobody, so this WELCOME answers nothing. If it woke the peer, the peer
// would announce its addresses, and the next WELCOME would answer that.
TEST_CASE("rest__a_welcome_of_an_older_process_wakes_nobody") {
  World world(sleepy(1));
  talk(world, 0, 1);
  come_to_rest(world);
  ScriptedPeer older(world, 0, 2);
  older.epoch = 0;
  const std::uint64_t dropped = world.drops(0, DropReason::stale_session);
  const std::uint64_t turns = world.turns();
  older.say(PacketType::welcome);
  REQUIRE(world.run_until([&] { return world.turns() > turns; }, milliseconds(1)));
  CHECK(world.drops(0, DropReason::stale_session) == dropped + 1);
  CHECK(rests(world, 0));
}

TEST_CASE("rest__data_goes_on_in_either_direction_and_in_both_at_once", "[R1][R2]") {
  World world(sleepy());
  talk(world, 0, 1);
  for (int round = 0; round < 5; ++round) {
    come_to_rest(world);
    talk(world, 0, 1);
    come_to_rest(world);
    talk(world, 1, 0);
    come_to_rest(world);
    Exchange exchange(world);
    exchange.ignore_what_was();
    for (std::uint32_t node = 0; node < 2; ++node) {
      (void)exchange.receive(node, kAnyNode, 1, 200000);
      (void)exchange.send(node, 1 - node, 1, 200000);
    }
    REQUIRE(exchange.run(milliseconds(50)));
    exchange.check_all_ok();
  }
  CHECK(world.stats(0).peers_woken >= 15);
  check_one_session(world);
}

// Only one end rests. The other waits for a message, so it has something pending.
TEST_CASE("rest__of_one_end_alone", "[R1][R2]") {
  World world(sleepy());
  talk(world, 0, 1);
  talk(world, 1, 0);
  for (std::uint64_t round = 0; round < 10; ++round) {
    Exchange exchange(world);
    exchange.ignore_what_was();
    (void)exchange.receive(1, 0, 7, 50000);
    REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(100)));
    world.run_for(milliseconds(20));
    CHECK(world.stats(1).peers_awake == 1);
    (void)exchange.send(0, 1, 7, 50000);
    REQUIRE(exchange.run(milliseconds(50)));
    (void)exchange.receive(0, kAnyNode, 8, 50000);
    (void)exchange.send(1, 0, 8, 50000);
    REQUIRE(exchange.run(milliseconds(50)));
    exchange.check_all_ok();
  }
  check_one_session(world);
}

// The end that stays awake remembers the paths of the other, with their generations.
TEST_CASE("rest__a_path_of_an_end_that_wakes_keeps_its_generation", "[R3]") {
  WorldConfig config = sleepy();
  config.tune = [](std::uint32_t node, proto::AllTunables& tunables) {
    if (node == 1) tunables.rest_after_ms = 100 * kRestMs;
  };
  World world(config);
  talk(world, 0, 1);
  for (int round = 0; round < 4; ++round) {
    REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(100)));
    CHECK_FALSE(rests(world, 1));
    talk(world, 0, 1);
  }
  CHECK(world.drops(1, DropReason::stale_path) == 0);
  check_one_session(world);
}

TEST_CASE("rest__what_wakes_a_peer", "[R2]") {
  World world(sleepy());
  talk(world, 0, 1);
  come_to_rest(world);
  const std::uint64_t before = world.stats(0).peers_woken;
  SECTION("a receive that is posted for it, until it is cancelled") {
    std::string buffer(100, 'x');
    const OperationId receive = world.receive(0, world.peer(0, 1), 1, buffer);
    CHECK(world.stats(0).peers_awake == 1);
    world.run_for(milliseconds(1000));
    CHECK(world.stats(0).peers_awake == 1);
    REQUIRE(world.cancel(0, receive) == Status::ok);
    world.run_for(milliseconds(1));
    come_to_rest(world);
  }
  SECTION("connect") {
    world.reconnect(0, 1);
    CHECK(world.stats(0).peers_awake == 1);
    come_to_rest(world);
  }
  SECTION("disconnect, and the other end hears of it") {
    world.disconnect(0, 1);
    world.run_for(milliseconds(3));
    CHECK(world.stats(1).peer_failures == 1);
    CHECK(world.peer_stats(1, 0).failure == Status::peer_closed);
    // A failed peer rests too, and its failure is still known.
    come_to_rest(world);
    CHECK(world.peer_stats(1, 0).failure == Status::peer_closed);
    CHECK_FALSE(world.peer_stats(1, 0).established);
    proto::SendRequest request;
    request.peer = world.peer(1, 0);
    CHECK(world.post(1, request) == Status::peer_closed);
    world.reconnect(1, 0);
    world.reconnect(0, 1);
    talk(world, 1, 0);
  }
  SECTION("closing of the endpoint") {
    world.close(0);
    REQUIRE(world.run_until([&] { return world.endpoint(0).closed(); }, milliseconds(100)));
    CHECK(world.peer_stats(1, 0).failure == Status::peer_closed);
  }
  CHECK(world.stats(0).peers_woken > before);
  CHECK(world.allocations() == 0);
}

TEST_CASE("rest__strangers_and_questions_wake_nobody", "[R2]") {
  WorldConfig config = sleepy();
  std::optional<Datagram> last;
  config.hook = [&](std::uint32_t node, std::uint32_t, const FaultPacket& packet) {
    if (node == 1 && packet.direction == engine::Direction::tx) {
      last.emplace(packet.queue, packet.header, packet.payload);
    }
    return std::optional<Fate>{};
  };
  World world(config);
  talk(world, 0, 1);
  come_to_rest(world);
  Injector stranger(world);
  last->header().token ^= 1;
  last->seal();
  stranger.send(0, 0, *last);
  world.run_for(milliseconds(1));
  CHECK(world.drops(0, DropReason::wrong_token) == 1);
  Envelope envelope;
  CHECK(world.endpoint(0).probe(world.peer(0, 1), 0, 1, kWholeTag, envelope) == Status::again);
  std::vector<NicStats> nics(2);
  world.endpoint(0).nic_stats(nics);
  CHECK(nics[0].state == PathState::up);
  CHECK(rests(world, 0));
  CHECK(world.stats(0).peers_woken == 0);
}

// Every packet that was ever on the wire arrives again.
TEST_CASE("rest__old_packets_do_nothing", "[R3]") {
  WorldConfig config = sleepy(1);
  struct Old {
    std::uint32_t to;
    Datagram datagram;
  };
  std::vector<Old> old;
  bool recording = true;
  config.hook = [&](std::uint32_t node, std::uint32_t, const FaultPacket& packet) {
    if (recording && packet.direction == engine::Direction::tx) {
      old.push_back({1 - node, Datagram(packet.queue, packet.header, packet.payload)});
    }
    return std::optional<Fate>{};
  };
  World world(config);
  talk(world, 0, 1, 20000);
  talk(world, 1, 0, 20000);
  come_to_rest(world);
  recording = false;
  REQUIRE(old.size() > 20);
  Injector replay(world);
  for (int round = 0; round < 3; ++round) {
    for (Old& packet : old) {
      replay.send(packet.to, 0, packet.datagram);
      if (round == 1) world.run_for(milliseconds(1));
      if (round == 2) come_to_rest(world);
    }
    talk(world, 0, 1, 20000);
    talk(world, 1, 0, 20000);
    come_to_rest(world);
  }
  for (std::uint32_t node = 0; node < 2; ++node) {
    CHECK(world.stats(node).sessions_established == 1);
    CHECK(world.stats(node).peer_failures == 0);
    CHECK(world.stats(node).unexpected_messages == 0);
  }
}

// The last status and its acknowledgement are lost, and the receiver has gone to rest meanwhile.
TEST_CASE("rest__final_statuses_are_remembered", "[R4]") {
  bool deaf = false;
  WorldConfig config = sleepy();
  config.tunables.rest_after_ms = 0;
  config.tunables.initial_rtt_us = 50000;  // the sender asks late
  config.hook = [&](std::uint32_t node, std::uint32_t, const FaultPacket& packet) {
    std::optional<Fate> fate;
    if (deaf && node == 1 && packet.direction == engine::Direction::tx) {
      fate.emplace();
      fate->drop = true;
    }
    return fate;
  };
  World world(config);
  world.connect_all();
  come_to_rest(world);
  for (std::uint64_t count : {1, 5, 20}) {
    Exchange exchange(world);
    exchange.ignore_what_was();
    for (std::uint64_t i = 0; i < count; ++i) {
      (void)exchange.receive(1, kAnyNode, i, i % 2 == 0 ? 100 : 50);
      (void)exchange.send(0, 1, i, 100, {.level = Level::delivered});
    }
    deaf = true;
    REQUIRE(exchange.run_until(
        [&] {
          bool all = true;
          for (std::size_t i = 0; i < count; ++i)
            all &= exchange.received(i).completion.has_value();
          return all && rests(world, 1);
        },
        milliseconds(100)));
    CHECK(world.stats(0).operations_pending == count);
    deaf = false;
    REQUIRE(exchange.run(milliseconds(2000)));
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(exchange.sent(i).completion->status == (i % 2 == 0 ? Status::ok : Status::truncated));
      CHECK(exchange.sent(i).deliveries == 1);
    }
    come_to_rest(world);
  }
}

TEST_CASE("rest__a_sender_tells_its_floor_first", "[R4]") {
  WorldConfig config = sleepy();
  World world(config);
  for (const std::uint64_t messages : {33, 100, 1000}) {
    // All messages go at once, so that no packet among them shows that an earlier one finished.
    talk(world, 0, 1, 8, messages);
    talk(world, 1, 0, 8, messages);
    come_to_rest(world);
  }
  check_one_session(world);
}

TEST_CASE("rest__a_floor_that_was_lost_is_asked_for", "[R4]") {
  WorldConfig config = sleepy();
  bool lossy = true;
  config.hook = [&](std::uint32_t node, std::uint32_t, const FaultPacket& packet) {
    const bool lost = lossy && node == 0 && packet.direction == engine::Direction::tx &&
                      packet.queue == proto::Queue::control;
    return lost ? std::optional(Fate{.drop = true}) : std::nullopt;
  };
  World world(config);
  talk(world, 0, 1, 8, 100);
  REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(100)));
  CHECK_FALSE(rests(world, 1));
  lossy = false;
  come_to_rest(world);
  talk(world, 1, 0);
  check_one_session(world);
}

// Nobody has asked the peer anything for longer than peer_timeout when its floor is asked for. It
// is away just then.
TEST_CASE("rest__who_is_asked_for_its_floor_has_peer_timeout_to_answer", "[R4][F1]") {
  for (const bool comes_back : {true, false}) {
    INFO((comes_back ? "it comes back" : "it stays away"));
    WorldConfig config = sleepy(1);
    config.tunables.rest_after_ms = 60;
    config.tunables.peer_timeout_ms = 40;
    World world(config);
    talk(world, 0, 1, 8, 100);
    const proto::Time heard = world.now();
    const std::uint64_t probes = world.stats(1).path_probes_sent;
    world.pause(0, true);
    world.run_for(milliseconds(80));
    CHECK(world.stats(1).path_probes_sent > probes);
    CHECK(world.stats(1).peer_failures == 0);
    if (comes_back) {
      world.pause(0, false);
      REQUIRE(
          world.run_until([&] { return rests(world, 0) && rests(world, 1); }, milliseconds(500)));
      check_one_session(world);
      continue;
    }
    REQUIRE(world.run_until([&] { return world.stats(1).peer_failures == 1; }, milliseconds(100)));
    CHECK((world.now() - heard).ns >= milliseconds(99).ns);
  }
}

TEST_CASE("rest__path_numbers_that_enter_an_epoch_begin_a_generation", "[R3]") {
  WorldConfig config = sleepy();
  config.tunables.initial_sequence = (std::uint64_t{1} << 30) - 100;
  std::vector<int> generations;
  generations.reserve(16);
  config.hook = [&](std::uint32_t, std::uint32_t, const FaultPacket& packet) {
    proto::wire::CommonHeader header;
    if (packet.direction == engine::Direction::tx && packet.queue == proto::Queue::data &&
        packet.header.size() >= sizeof header) {
      std::memcpy(&header, packet.header.data(), sizeof header);
      if (header.type == PacketType::data &&
          (generations.empty() || generations.back() != header.generation)) {
        generations.push_back(header.generation);
      }
    }
    return std::optional<Fate>{};
  };
  World world(config);
  for (int i = 0; i < 4; ++i) {
    talk(world, 0, 1, 20000);
    come_to_rest(world);
  }
  CHECK(generations.size() == 1);
  talk(world, 0, 1, 1000000);
  come_to_rest(world);
  for (int i = 0; i < 4; ++i) {
    talk(world, 0, 1, 20000);
    come_to_rest(world);
  }
  REQUIRE(generations.size() == 2);
  CHECK(generations[1] == generations[0] + 1);
  check_one_session(world);
}

TEST_CASE("rest__keepalives_wake_it_and_it_answers", "[R2][R5]") {
  WorldConfig config = sleepy();
  config.tunables.peer_timeout_ms = 200;
  World world(config);
  talk(world, 0, 1);
  Exchange exchange(world);
  exchange.ignore_what_was();
  (void)exchange.receive(0, 1, 1, 100);  // node 0 waits for a message; node 1 doesn't know
  std::uint64_t slept = 0;
  for (int i = 0; i < 40; ++i) {
    world.run_for(milliseconds(50));
    if (rests(world, 1)) ++slept;
  }
  CHECK(slept > 30);
  CHECK(world.stats(1).peers_woken >= 10);
  CHECK(world.stats(0).peer_failures == 0);
  (void)exchange.send(1, 0, 1, 100);
  REQUIRE(exchange.run(milliseconds(20)));
  exchange.check_all_ok();
  // With nothing pending the silence doesn't matter. With something pending the timeout applies.
  come_to_rest(world);
  world.run_for(milliseconds(5000));
  world.crash(1, false);
  exchange.forget(1);
  world.run_for(milliseconds(5000));
  CHECK(world.stats(0).peer_failures == 0);
  (void)exchange.send(0, 1, 1, 100);
  const proto::Time start = world.now();
  REQUIRE(exchange.run(milliseconds(500)));
  CHECK(exchange.sent(exchange.sends() - 1).completion->status == Status::peer_timeout);
  CHECK((world.now() - start).ns >= milliseconds(200).ns);
}

TEST_CASE("rest__a_restarted_peer_is_a_new_one", "[R2]") {
  for (const bool it_speaks_first : {true, false}) {
    INFO((it_speaks_first ? "it" : "the survivor") << " speaks first");
    WorldConfig config = sleepy();
    config.tunables.peer_timeout_ms = 300;
    World world(config);
    talk(world, 0, 1);
    come_to_rest(world);
    world.crash(1, true);
    if (!it_speaks_first) {
      Exchange exchange(world);
      exchange.ignore_what_was();
      (void)exchange.send(0, 1, 1, 100);
      REQUIRE(exchange.run(milliseconds(1000)));
      CHECK(is_peer_failure(exchange.sent(0).completion->status));
      world.reconnect(0, 1);
      talk(world, 0, 1);
    } else {
      (void)world.peer(1, 0);
      REQUIRE(world.run_until([&] { return world.stats(1).sessions_established == 1; },
                              milliseconds(100)));
      talk(world, 1, 0);
    }
    CHECK(world.stats(0).sessions_established == 2);
    come_to_rest(world);
    talk(world, 0, 1);
  }
}

// Slots, generations and numbers never run out: a generation has 8 bits, a path number 32.
TEST_CASE("rest__a_thousand_times", "[R3]") {
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{4294967000}}) {
    WorldConfig config = sleepy();
    config.tunables.rest_after_ms = 0;
    config.tunables.initial_sequence = start;
    World world(config);
    world.connect_all();
    for (int round = 0; round < 1000; ++round) {
      Exchange exchange(world);
      exchange.ignore_what_was();
      const std::uint32_t from = round % 2;
      (void)exchange.receive(1 - from, kAnyNode, 1, 8);
      (void)exchange.send(from, 1 - from, 1, 8, {.level = Level::delivered});
      REQUIRE(exchange.run(milliseconds(20)));
      exchange.check_all_ok();
      if (round % 7 != 0) come_to_rest(world);
    }
    come_to_rest(world);
    CHECK(world.stats(0).peers_rested > 500);
    CHECK(world.stats(0).peers_rested == world.stats(0).peers_woken + 1);
    check_one_session(world);
  }
}

// Every packet may be lost, duplicated or late, and still everything arrives once.
TEST_CASE("rest__on_a_bad_fabric", "[R1][R3][R4]") {
  for_each_seed(30, [](proto::Random& random) {
    WorldConfig config = sleepy(1 + static_cast<std::uint32_t>(random.below(3)));
    config.tunables.rest_after_ms = random.below(3);
    config.seed = random.next();
    config.faults = "delay=5us/200us,loss=0.1,duplicate=0.05,reorder=0.1,late-reap=100us";
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (int i = 0; i < 60; ++i) {
      const auto from = static_cast<std::uint32_t>(random.below(2));
      (void)exchange.receive(1 - from, kAnyNode, from, 30000);
      (void)exchange.send(from, 1 - from, from, random.below(30000),
                          {.level = random.chance(0.5) ? Level::delivered : Level::accepted});
      world.run_for(microseconds(random.below(random.chance(0.3) ? 10000 : 300)));
    }
    REQUIRE(exchange.run(milliseconds(8000)));
    exchange.check_all_ok();
    exchange.check();
    REQUIRE(
        world.run_until([&] { return rests(world, 0) || rests(world, 1); }, milliseconds(2000)));
    CHECK(world.stats(0).sessions_established == 1);
    CHECK(world.allocations() == 0);
  });
}

}  // namespace
}  // namespace hawser::test
