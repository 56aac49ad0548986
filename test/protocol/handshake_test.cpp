// SPDX-License-Identifier: Apache-2.0
// Handshakes under attack and in great numbers: they cost little and take no memory from anybody,
// and honest callers get through.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "test/protocol/exchange.hpp"
#include "test/protocol/injector.hpp"
#include "test/protocol/packets.hpp"
#include "test/protocol/scripted_peer.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;
using proto::wire::PacketType;

bool is_hello(const FaultPacket& packet) {
  return packet.direction == engine::Direction::tx && view_of(packet).type == PacketType::hello;
}

// Sends HELLOs in the names of ever new strangers, all from one address.
void flood(ScriptedPeer& stranger, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    ++stranger.id;
    ++stranger.token;
    stranger.say(PacketType::hello);
  }
}

TEST_CASE("handshake__strangers_beyond_the_limit_are_asked_for_proof_and_take_no_memory",
          "[S8][S10]") {
  WorldConfig config;
  config.nodes = 3;
  config.tunables.max_half_open_sessions = 5;
  config.tunables.max_peers = 20;
  World world(config);
  ScriptedPeer stranger(world, 0, 1000);
  std::map<PacketType, int> answers;
  std::size_t received = 0;
  for (int i = 0; i < 200; ++i) {
    flood(stranger, 1);
    world.run_for(microseconds(20));
    for (const ScriptedPeer::Seen& packet : stranger.seen()) {
      ++answers[packet.type];
      received += packet.bytes;
    }
  }
  CHECK(answers[PacketType::welcome] == 5);
  CHECK(answers[PacketType::challenge] == 195);
  CHECK(world.stats(0).challenges_sent == 195);
  CHECK(received <= stranger.bytes_sent());  // no endpoint sends more than it got
  CHECK(world.allocations() == 0);
  // Honest peers don't notice.
  Exchange exchange(world);
  exchange.message(1, 0, 1, 100);
  exchange.message(0, 2, 1, 100);
  REQUIRE(exchange.run(milliseconds(20)));
  exchange.check_all_ok();
}

TEST_CASE("handshake__with_a_limit_of_none_everybody_proves_his_address") {
  WorldConfig config;
  config.tunables.max_half_open_sessions = 0;
  World world(config);
  Exchange exchange(world);
  (void)exchange.receive(1, kAnyNode, 1, 100);
  (void)exchange.send(0, 1, 1, 100);  // node 1 doesn't know of node 0
  REQUIRE(exchange.run(milliseconds(5)));
  exchange.check_all_ok();
  CHECK(world.stats(1).challenges_sent == 1);
}

// Strangers that do prove their address keep slots only as long as no other peer needs them.
TEST_CASE("handshake__strangers_never_keep_a_slot_from_who_needs_it", "[S12]") {
  WorldConfig config;
  config.nodes = 4;
  config.tunables.max_peers = 8;
  World world(config);
  ScriptedPeer stranger(world, 0, 1000);
  stranger.cookie = 0;
  const auto come_and_prove = [&] {
    ++stranger.id;
    ++stranger.token;
    stranger.cookie = 0;
    stranger.say(PacketType::hello);
    world.run_for(microseconds(20));
    for (const ScriptedPeer::Seen& packet : stranger.seen()) stranger.cookie = packet.cookie;
    if (stranger.cookie != 0) stranger.say(PacketType::hello);
    world.run_for(microseconds(20));
  };
  for (int i = 0; i < 30; ++i) come_and_prove();
  CHECK(world.peer(0, 1) != kAnyPeer);  // asserts that connect is ok
  for (int i = 0; i < 30; ++i) come_and_prove();
  Exchange exchange(world);
  exchange.message(1, 0, 1, 100);
  (void)exchange.receive(0, kAnyNode, 2, 100);
  (void)exchange.send(2, 0, 2, 100);
  (void)exchange.send(0, 3, 2, 100);
  (void)exchange.receive(3, 0, 2, 100);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  for (int i = 0; i < 30; ++i) come_and_prove();
  exchange.message(0, 1, 3, 100);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  for (std::uint32_t node = 0; node < 4; ++node) CHECK(world.stats(node).peer_failures == 0);
}

// Strangers that prove nothing, each at an address of its own, get a quarter of the places. They
// keep them longer than those that come from one address.
TEST_CASE("handshake__strangers_that_prove_nothing_get_a_quarter_of_the_places", "[S8][S40]") {
  WorldConfig config;
  config.nodes = 2;
  config.tunables.max_peers = 8;
  World world(config);
  std::vector<std::unique_ptr<ScriptedPeer>> strangers;
  std::size_t answered = 0;
  for (std::uint64_t i = 0; i < 8; ++i) {
    strangers.push_back(std::make_unique<ScriptedPeer>(world, 0, 1000 + i));
    strangers.back()->say(PacketType::hello);
    world.run_for(microseconds(20));
    answered += strangers.back()->heard() == "WELCOME";
  }
  CHECK(answered == 2);
  CHECK(world.stats(0).challenges_sent == 6);
  Exchange exchange(world);
  (void)exchange.receive(0, kAnyNode, 2, 100);
  (void)exchange.send(1, 0, 2, 100);
  REQUIRE(exchange.run(milliseconds(1)));
  exchange.check_all_ok();
}

// All places are taken by strangers that have proven their addresses. The newest of those that
// share one keeps its place as long as the one whose address is its own. The others lose theirs
// sooner.
TEST_CASE("handshake__a_crowd_at_one_address_goes_before_who_is_alone", "[S12][S39]") {
  WorldConfig config;
  config.nodes = 1;
  config.tunables.max_peers = 4;
  config.tunables.peer_timeout_ms = 8000;
  World world(config);
  const auto come_and_prove = [&](ScriptedPeer& stranger) {
    stranger.say(PacketType::hello);
    world.run_for(microseconds(20));
    for (const ScriptedPeer::Seen& packet : stranger.seen()) stranger.cookie = packet.cookie;
    if (stranger.cookie != 0) stranger.say(PacketType::hello);
    world.run_for(microseconds(20));
  };
  ScriptedPeer alone(world, 0, 1000);
  ScriptedPeer crowd(world, 0, 2000);
  come_and_prove(alone);
  for (int i = 0; i < 3; ++i) {
    ++crowd.id;
    ++crowd.token;
    crowd.cookie = 0;
    come_and_prove(crowd);
  }
  const auto gets_in = [&](std::uint64_t id) {
    ScriptedPeer newcomer(world, 0, id);
    come_and_prove(newcomer);
    return newcomer.heard().find("WELCOME") != std::string::npos;
  };
  CHECK_FALSE(gets_in(3001));
  world.run_for(milliseconds(100));
  CHECK(gets_in(3002));
  CHECK(gets_in(3003));
  CHECK_FALSE(gets_in(3004));  // the others are alone at their addresses
  alone.echo = true;
  alone.say(PacketType::welcome);
  world.run_for(microseconds(50));
  CHECK(world.stats(0).sessions_established == 1);
  world.run_for(milliseconds(1300));
  CHECK_FALSE(gets_in(3004));
  world.run_for(milliseconds(100));
  CHECK(gets_in(3005));
}

// All to all around a ring, step by step, while strangers flood every node.
TEST_CASE("handshake__a_flood_during_an_all_reduce", "[scenario 18]") {
  const auto run = [](bool with_flood, Time& took) {
    WorldConfig config;
    config.nodes = 4;
    config.nics = 2;
    World world(config);
    std::vector<std::unique_ptr<ScriptedPeer>> strangers;
    for (std::uint32_t node = 0; node < 4; ++node) {
      strangers.push_back(std::make_unique<ScriptedPeer>(world, node, 1000 + 100000 * node));
    }
    const Time start = world.now();
    for (std::uint64_t step = 0; step < 6; ++step) {
      Exchange exchange(world);
      exchange.ignore_what_was();
      for (std::uint32_t node = 0; node < 4; ++node) {
        (void)exchange.receive((node + 1) % 4, node, step, 500000);
        (void)exchange.send(node, (node + 1) % 4, step, 500000);
      }
      while (!exchange.settled()) {
        REQUIRE((world.now() - start).ns < milliseconds(1000).ns);
        if (with_flood) {
          for (auto& stranger : strangers) {
            flood(*stranger, 20);
            (void)stranger->seen();
          }
        }
        world.run_for(microseconds(10));
        exchange.collect();
      }
      exchange.check_all_ok();
    }
    took = Time{(world.now() - start).ns};
    for (std::uint32_t node = 0; node < 4; ++node) {
      CHECK(world.stats(node).peer_failures == 0);
      CHECK(world.stats(node).sessions_established == 2);
      CHECK(world.stats(node).paths_down == 0);
      CHECK(world.allocations() == 0);
      if (with_flood) CHECK(world.stats(node).challenges_sent > 100);
    }
  };
  Time quiet{};
  Time flooded{};
  run(false, quiet);
  run(true, flooded);
  // Virtual time counts turns, not their length. The check shows that nothing waits for a timer.
  CHECK(flooded.ns < 2 * quiet.ns);
}

TEST_CASE("handshake__no_more_than_so_many_are_called_at_once", "[S11]") {
  WorldConfig config;
  config.nodes = 40;
  config.tunables.max_peers = 64;
  config.tunables.max_outstanding_handshakes = 4;
  std::vector<std::set<std::uint64_t>> open(config.nodes);  // called, and not answered so far
  std::size_t most = 0;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx) return {};
    const proto::wire::PacketView view = view_of(packet);
    if (view.type == PacketType::hello && view.session->echo_token == 0) {
      open[node].insert(view.session->target_id);
      most = std::max(most, open[node].size());
    }
    if (view.type == PacketType::welcome) {
      // The caller processes this WELCOME before its next call, so the call counts as answered on
      // arrival.
      open[static_cast<std::size_t>(view.session->target_id - 1)].erase(view.session->sender_id);
    }
    return {};
  };
  World world(config);
  world.connect_all();
  REQUIRE(world.run_until(
      [&] {
        for (std::uint32_t node = 0; node < config.nodes; ++node) {
          if (world.stats(node).sessions_established < config.nodes - 1) return false;
        }
        return true;
      },
      milliseconds(500)));
  CHECK(most <= 4);
  CHECK(most >= 2);
}

TEST_CASE("handshake__those_who_do_not_answer_do_not_keep_others_waiting_for_long", "[S11]") {
  WorldConfig config;
  config.nodes = 24;
  config.tunables.max_peers = 32;
  config.tunables.max_outstanding_handshakes = 2;
  World world(config);
  for (std::uint32_t to = 1; to < 24; ++to) (void)world.peer(0, to);
  for (std::uint32_t dead = 1; dead < 23; ++dead) world.crash(dead, false);
  REQUIRE(world.run_until([&] { return world.stats(0).sessions_established == 1; },
                          milliseconds(3000)));
  // Each of the dead peers is reported as unreachable, peer_timeout after it was called.
  world.run_for(milliseconds(13000));
  CHECK(world.stats(0).peer_failures == 22);
}

TEST_CASE("handshake__tokens_are_new_each_time_and_follow_from_the_seed") {
  const auto tokens_of = [](std::uint64_t seed) {
    std::vector<std::uint64_t> tokens;
    WorldConfig config;
    config.seed = seed;
    config.hook = [&](std::uint32_t, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (is_hello(packet)) tokens.push_back(view_of(packet).session->my_token);
      return {};
    };
    World world(config);
    for (int round = 0; round < 10; ++round) {
      world.reconnect(0, 1);
      world.run_for(milliseconds(5));
      world.disconnect(0, 1);
      world.run_for(milliseconds(5));
    }
    return tokens;
  };
  const std::vector<std::uint64_t> once = tokens_of(1);
  CHECK(std::set(once.begin(), once.end()).size() >= 10);
  CHECK(tokens_of(1) == once);
  CHECK(tokens_of(2) != once);
}

// A HELLO in a peer's name with a counter beyond all others must not make the true peer's packets
// stale.
TEST_CASE("handshake__what_is_said_in_a_peers_name_does_not_make_it_stale") {
  for (const bool live : {true, false}) {
    World world({});
    if (live) {
      world.connect_all();
      world.run_for(milliseconds(5));
    }
    ScriptedPeer liar(world, 0, 2);  // node 1's name
    liar.epoch = ~std::uint64_t{0};
    liar.counter = 0x7fffffff;
    for (int i = 0; i < 5; ++i) {
      ++liar.token;
      liar.say(PacketType::hello);
      world.run_for(microseconds(50));
    }
    for (int round = 0; round < 3; ++round) {
      Exchange exchange(world);
      exchange.ignore_what_was();
      (void)exchange.receive(0, kAnyNode, 1, 100);
      (void)exchange.send(1, 0, 1, 100);
      REQUIRE(exchange.run(milliseconds(50)));
      exchange.check_all_ok();
      world.disconnect(1, 0);
      world.run_for(milliseconds(5));
      world.reconnect(1, 0);
      world.run_for(milliseconds(5));
    }
  }
}

// A stranger has called each of them in the other's name, and doesn't answer. They call the
// addresses that their applications gave them.
TEST_CASE("handshake__strangers_in_both_names_keep_nobody_apart", "[S5]") {
  World world({});
  ScriptedPeer second(world, 0, 2);
  ScriptedPeer first(world, 1, 1);
  second.say(PacketType::hello);
  first.say(PacketType::hello);
  world.run_for(milliseconds(1));
  REQUIRE(second.heard() == "WELCOME");
  REQUIRE(first.heard() == "WELCOME");
  world.connect_all();
  Exchange exchange(world);
  exchange.both_ways(1, 100, 100);
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
}

// A pair of NICs as (local NIC of node 0, NIC of node 1). The HELLO arrives at node 1, and its
// answer at node 0.
using Pair = std::pair<std::uint32_t, std::uint32_t>;

// Nobody answers. The caller tries every pair of NICs, at intervals that double, with jitter. If
// there are more pairs than a few calls would reach, each call tries several at once.
TEST_CASE("handshake__hello_goes_over_one_pair_of_nics_after_the_other", "[S5][S24]") {
  for (const auto& [locals, remotes] :
       {std::pair{1u, 2u}, {2u, 3u}, {3u, 2u}, {4u, 4u}, {2u, 1u}}) {
    INFO(locals << " and " << remotes << " NICs");
    World* running = nullptr;
    std::vector<Pair> pairs;
    std::vector<Time> times;
    WorldConfig config;
    config.nics_of = {locals, remotes};
    config.tunables.handshake_retry_us = 1000;
    config.hook = [&](std::uint32_t node, std::uint32_t nic,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::rx || node != 1) return {};
      const auto& header =
          *reinterpret_cast<const proto::wire::CommonHeader*>(packet.header.data());
      if (header.type != PacketType::hello) return {};
      pairs.emplace_back(header.nic(), nic);
      times.push_back(running->now());
      return Fate{.drop = true};
    };
    World world(config);
    running = &world;
    (void)world.peer(0, 1);
    world.run_for(milliseconds(9000));
    const std::size_t all = std::size_t{locals} * remotes;
    REQUIRE(times.size() >= std::max<std::size_t>(all, 8));
    const std::size_t at_once = (all + 7) / 8;
    // The HELLOs of one call arrive in any order.
    CHECK(std::set(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(all + at_once - 1))
              .size() == all);
    CHECK(std::ranges::count(times, times.back()) == static_cast<std::ptrdiff_t>(at_once));
    times.erase(std::unique(times.begin(), times.end()), times.end());
    std::set<std::int64_t> different;
    for (std::size_t i = 0; i < 7; ++i) {
      const std::int64_t interval = (times[i + 1] - times[i]).ns;
      CHECK(interval >= 1250000 << i);
      CHECK(interval <= (1750000 << i) + 10000);
      different.insert(interval >> i);
    }
    CHECK(different.size() > 3);
  }
}

// A caller's first HELLO is in flight when its NIC gets another address. The answer goes to the new
// one.
TEST_CASE("handshake__a_caller_that_moves_is_answered_there", "[S23]") {
  WorldConfig config;
  config.faults = "delay=300us";
  config.tunables.peer_timeout_ms = 500;
  World world(config);
  (void)world.peer(0, 1);  // starts calling
  world.run_for(microseconds(100));
  world.apply(0, 0, "revive:moved");
  REQUIRE(
      world.run_until([&] { return world.stats(1).sessions_established == 1; }, milliseconds(400)));
  CHECK(world.stats(0).sessions_established == 1);
  CHECK(world.stats(1).challenges_sent == 1);
}

// Time during which the caller itself was away does not count as time without an answer.
TEST_CASE("handshake__who_was_away_while_calling_calls_on", "[S5]") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 1000;
  World world(config);
  world.apply(1, "blackhole=both");
  Exchange exchange(world);
  (void)exchange.receive(1, kAnyNode, 1, 8);
  (void)exchange.send(0, 1, 1, 8);
  world.run_for(milliseconds(1));
  world.pause(0, true);
  world.run_for(milliseconds(1250));
  world.pause(0, false);
  world.run_for(milliseconds(500));  // none of these calls is heard
  CHECK(world.stats(0).peer_failures == 0);
  world.apply(1, "blackhole=none");
  REQUIRE(exchange.run(milliseconds(400)));
  exchange.check_all_ok();
}

// The absence does not tell either how long the other end takes to answer.
TEST_CASE("handshake__who_was_away_while_calling_waits_no_longer_for_answers", "[S5][L10]") {
  World* running = nullptr;
  bool lost = false;
  WorldConfig config;
  config.tunables.handshake_retry_us = 1000;  // it is away from here on
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (running == nullptr || node != 0 || lost || packet.direction != engine::Direction::tx)
      return std::nullopt;
    lost = true;
    return Fate{.drop = true};
  };
  World world(config);
  (void)world.peer(0, 1);
  world.run_for(proto::microseconds(1));
  world.pause(0, true);
  world.run_for(milliseconds(400));
  world.pause(0, false);
  REQUIRE(world.run_until([&] { return world.stats(0).sessions_established == 1; },
                          proto::microseconds(100)));
  running = &world;
  Exchange exchange(world);
  exchange.message(0, 1, 1, 8);
  REQUIRE(exchange.run(milliseconds(20)));
  CHECK(lost);
  exchange.check_all_ok();
}

TEST_CASE("handshake__is_made_over_whatever_pair_of_nics_lives", "[S5][S24]") {
  for (const auto& [locals, remotes] :
       {std::pair{1u, 2u}, {2u, 1u}, {2u, 3u}, {3u, 2u}, {5u, 4u}}) {
    for (std::uint32_t alive = 0; alive < locals * remotes; ++alive) {
      INFO(locals << " and " << remotes << " NICs, alive " << alive % locals << " and "
                  << alive / locals);
      WorldConfig config;
      config.nics_of = {locals, remotes};
      config.tunables.handshake_retry_us = 1000;
      World world(config);
      for (std::uint32_t nic = 0; nic < locals; ++nic) {
        if (nic != alive % locals) world.apply(0, nic, "kill");
      }
      for (std::uint32_t nic = 0; nic < remotes; ++nic) {
        if (nic != alive / locals) world.apply(1, nic, "kill");
      }
      (void)world.peer(0, 1);
      CHECK(world.run_until([&] { return world.stats(0).sessions_established == 1; },
                            milliseconds(2000)));
    }
  }
}

TEST_CASE("handshake__welcome_goes_back_over_the_pair_of_its_hello", "[S6]") {
  std::vector<Pair> hellos;
  std::vector<Pair> welcomes;
  int to_lose = 0;
  WorldConfig config;
  config.nics_of = {2, 3};
  config.tunables.handshake_retry_us = 1000;
  config.hook = [&](std::uint32_t node, std::uint32_t nic,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::rx) return {};
    const auto& header = *reinterpret_cast<const proto::wire::CommonHeader*>(packet.header.data());
    if (node == 1 && header.type == PacketType::hello) hellos.emplace_back(header.nic(), nic);
    if (node == 0 && header.type == PacketType::welcome) {
      welcomes.emplace_back(nic, header.nic());
      if (to_lose-- > 0) return Fate{.drop = true};
    }
    return {};
  };
  to_lose = 5;
  World world(config);
  (void)world.peer(0, 1);
  REQUIRE(world.run_until([&] { return world.stats(0).sessions_established == 1; },
                          milliseconds(2000)));
  REQUIRE(hellos.size() >= 6);
  REQUIRE(welcomes.size() >= hellos.size());
  for (std::size_t i = 0; i < hellos.size(); ++i) CHECK(welcomes[i] == hellos[i]);
}

// Both processes were started again. The caller first had the address of the peer's previous
// process.
TEST_CASE("handshake__a_newer_address_is_called_while_the_older_does_not_answer", "[S5]") {
  World world(WorldConfig{});
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> old;
  const std::size_t bytes = world.endpoint(1).write_address(old);
  world.crash(0, true);
  world.crash(1, true);
  PeerId peer{};
  REQUIRE(world.endpoint(0).connect(world.now(), std::span(old).first(bytes), peer) == Status::ok);
  world.wake(0);
  world.run_for(proto::milliseconds(100));
  CHECK(world.stats(0).sessions_established == 0);
  CHECK(world.peer(0, 1) == peer);
  CHECK(world.run_until([&] { return world.stats(0).sessions_established == 1; },
                        proto::milliseconds(100)));
  CHECK(world.stats(0).peer_failures == 0);
}

// The peer's WELCOME is lost, and the peer disconnects. The caller doesn't know of that, and goes
// on calling.
TEST_CASE("handshake__who_has_disconnected_unheard_answers_again", "[S25]") {
  bool loses = true;
  WorldConfig config;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || node != 1 || !loses) return {};
    return Fate{.drop = true};
  };
  World world(config);
  (void)world.peer(0, 1);
  world.run_for(microseconds(100));
  world.disconnect(1, 0);
  world.run_for(microseconds(100));
  loses = false;
  REQUIRE(
      world.run_until([&] { return world.stats(0).sessions_established == 1; }, milliseconds(100)));
  Exchange exchange(world);
  exchange.both_ways(1, 100, 100);
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
