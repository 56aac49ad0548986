// SPDX-License-Identifier: Apache-2.0
// Rest and NICs: NICs that change while peers rest, dead NICs, and unreachable peers.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "test/protocol/message_scene.hpp"
#include "test/protocol/rest_scene.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;
using proto::wire::MessageStatus;
using proto::wire::PacketType;
using proto::wire::PacketWriter;

// A NIC goes and comes while all peers rest. All of them hear of it, and rest again.
TEST_CASE("rest__changes_of_nics_are_told_to_those_at_rest", "[R6]") {
  WorldConfig config = sleepy();
  config.nodes = 5;
  World world(config);
  for (std::uint32_t other = 1; other < 5; ++other) talk(world, 0, other);
  const auto all_rest = [&] {
    for (std::uint32_t node = 0; node < 5; ++node) {
      if (!rests(world, node)) return false;
    }
    return true;
  };
  REQUIRE(world.run_until(all_rest, milliseconds(100)));
  const auto change = [&](const char* words) {
    world.apply(0, 1, words);
    const std::uint64_t before = world.stats(0).peers_woken;
    world.run_for(milliseconds(3));
    CHECK(world.stats(0).peers_woken >= before + 4);
    REQUIRE(world.run_until(all_rest, milliseconds(1000)));
  };
  std::uint64_t messages = 0;
  const auto check_talk = [&] {
    for (std::uint32_t other = 1; other < 5; ++other) {
      talk(world, other, 0);
      ++messages;
    }
    CHECK(world.stats(0).peer_failures == 0);
    REQUIRE(world.run_until(all_rest, milliseconds(1000)));
  };
  change("kill:event");
  // They know that the NIC is away: not a packet goes there.
  const std::uint64_t timeouts = world.stats(1).ptos;
  check_talk();
  CHECK(world.stats(1).ptos == timeouts);
  // Each path is reported down once, and up again once it is proven.
  const auto check_told = [&](std::uint64_t times) {
    CHECK(world.stats(0).paths_down == times * 4);
    CHECK(world.run_until([&] { return world.stats(0).paths_returned == times * 4; },
                          milliseconds(1000)));
  };
  change("revive:event");
  check_talk();
  check_told(1);
  change("revive:moved");
  check_talk();
  check_told(2);
  std::vector<NicStats> stats(2);
  world.endpoint(0).nic_stats(stats);
  CHECK(stats[1].packets_received > 0);
}

TEST_CASE("rest__both_ends_move_a_nic_while_they_rest", "[R6]") {
  World world(sleepy());
  talk(world, 0, 1);
  come_to_rest(world);
  for (const std::uint32_t nic : {0, 1, 0}) {
    for (std::uint32_t node = 0; node < 2; ++node) world.apply(node, nic, "revive:moved");
    world.run_for(milliseconds(50));
    come_to_rest(world);
    talk(world, 0, 1);
    talk(world, 1, 0);
    come_to_rest(world);
  }
  CHECK(world.stats(0).sessions_established == 1);
  CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
}

// Nothing is pending, so nothing fails. But an endpoint doesn't probe a silent peer for ever, nor
// announce an address to it. A peer that is back hears of the new address with the next message.
TEST_CASE("rest__who_is_out_of_reach_is_left_alone", "[R1]") {
  for (const std::uint32_t moved : {1, 2}) {
    INFO(moved << " NICs move");
    WorldConfig config = sleepy();
    config.tunables.peer_timeout_ms = 300;
    World world(config);
    talk(world, 0, 1, 1000000);
    world.apply(1, "kill");
    for (std::uint32_t nic = 0; nic < moved; ++nic) world.apply(0, nic, "revive:moved");
    world.wake(0);
    world.run_for(milliseconds(200));
    CHECK_FALSE(rests(world, 0));
    REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(500)));
    const auto asked = [&] {
      return world.stats(0).handshakes_sent + world.stats(0).path_probes_sent;
    };
    const std::uint64_t asked_before = asked();
    world.run_for(milliseconds(20000));
    CHECK(asked() == asked_before);
    CHECK(world.stats(0).peer_failures == 0);
    world.apply(1, "revive");
    talk(world, 0, 1);
    talk(world, 1, 0);
    come_to_rest(world);
    CHECK(world.stats(0).sessions_established == 1);
  }
}

// The peer's process dies while one of the paths is DOWN. The other path is UP only because nothing
// has probed it.
TEST_CASE("rest__a_path_that_nobody_asks_is_asked_before_it_counts", "[R1]") {
  WorldConfig config = sleepy();
  config.tunables.peer_timeout_ms = 300;
  World world(config);
  talk(world, 0, 1);
  world.apply(0, 1, "kill");
  for (int i = 0; i < 100 && world.stats(0).paths_down == 0; ++i) talk(world, 0, 1, 1000000);
  REQUIRE(world.stats(0).paths_down == 1);
  world.run_for(milliseconds(500));
  REQUIRE(world.stats(0).peers_awake == 1);
  world.crash(1, false);
  REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(5000)));
  const std::uint64_t turns = world.turns();
  world.run_for(milliseconds(100000));
  CHECK(world.turns() - turns <= 4);
  CHECK(world.stats(0).peer_failures == 0);
}

// Messages were turned away for want of a descriptor when the peer died. The endpoint doesn't
// request them for ever, nor wait for the acknowledgement of its packets in flight. This holds even
// for a path whose timeout is longer than that of the other path, which probes for both.
TEST_CASE("rest__what_was_turned_away_is_not_asked_for_of_the_dead", "[R1]") {
  for (const std::uint32_t nics : {1, 2}) {
    INFO(nics << " NICs");
    WorldConfig config = sleepy(nics);
    config.tunables.peer_timeout_ms = 16;
    config.tunables.max_receive_messages = 16;
    config.hook = [&](std::uint32_t node, std::uint32_t nic, const engine::FaultPacket& packet) {
      const bool delayed = node == 0 && packet.direction == engine::Direction::tx;
      return delayed ? std::optional(engine::Fate{.delay = milliseconds(nic == 0 ? 1 : 3)})
                     : std::nullopt;
    };
    World world(config);
    talk(world, 0, 1);
    Exchange exchange(world);
    exchange.ignore_what_was();
    for (std::uint64_t i = 0; i < 40; ++i) {
      (void)exchange.send(1, 0, i, 100);
      world.run_for(microseconds(100));
    }
    world.run_for(milliseconds(20));
    CHECK(world.drops(0, DropReason::no_descriptor) > 0);
    world.crash(1, false);
    exchange.forget(1);
    for (std::uint64_t i = 0; i < 40; ++i) (void)exchange.receive(0, kAnyNode, i, 100);
    REQUIRE(
        world.run_until([&] { return world.stats(0).messages_unmatched == 0; }, milliseconds(100)));
    CHECK_FALSE(rests(world, 0));
    REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(3000)));
    CHECK(world.stats(0).peer_failures == 0);
    const std::uint64_t turns = world.turns();
    world.run_for(milliseconds(100000));
    CHECK(world.turns() - turns <= 4);
  }
}

// A peer at rest changes no verdict. Its traffic after it wakes does.
TEST_CASE("rest__nobody_judges_who_rests", "[R7][V4]") {
  WorldConfig config = sleepy();
  config.tunables.rest_after_ms = 300;  // longer than a verdict takes
  World world(config);
  talk(world, 0, 1);
  const auto change = [&](const char* words) { world.apply(0, 1, words); };
  const auto standing = [&](std::uint32_t node) {
    std::array<Verdict, 8> verdicts;
    return world.endpoint(node).verdicts(verdicts);
  };
  change("kill:event");
  REQUIRE(
      world.run_until([&] { return standing(0) == 1 && standing(1) == 1; }, milliseconds(2000)));
  REQUIRE(world.run_until([&] { return rests(world, 0) && rests(world, 1); }, milliseconds(3000)));
  const std::uint64_t turns = world.turns();
  world.run_for(milliseconds(100000));
  CHECK(world.turns() - turns <= 4);
  CHECK(standing(0) + standing(1) == 2);
  change("revive:event");
  REQUIRE(world.run_until([&] { return standing(0) + standing(1) == 0; }, milliseconds(3000)));
  REQUIRE(world.run_until([&] { return rests(world, 0) && rests(world, 1); }, milliseconds(3000)));
  CHECK(standing(0) + standing(1) == 0);
}

// A verdict about another peer, which rests, keeps nobody awake for longer than the next judgement.
TEST_CASE("rest__a_new_session_is_judged_while_a_verdict_stands", "[R7]") {
  WorldConfig config = sleepy();
  config.nodes = 3;
  config.tunables.rest_after_ms = 300;  // longer than a verdict takes
  World world(config);
  talk(world, 0, 1);
  world.apply(1, 1, "kill:event");
  std::array<Verdict, 8> verdicts;
  REQUIRE(world.run_until([&] { return world.endpoint(0).verdicts(verdicts) == 1; },
                          milliseconds(2000)));
  REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(3000)));
  world.run_for(milliseconds(5000));  // no more judgements
  talk(world, 0, 2);
  REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(3000)));
  CHECK(world.endpoint(0).verdicts(verdicts) == 1);
  const std::uint64_t turns = world.turns();
  world.run_for(milliseconds(100000));
  CHECK(world.turns() - turns <= 4);
}

TEST_CASE("rest__whom_nobody_has_ever_reached", "[R1]") {
  WorldConfig config = sleepy();
  config.tunables.peer_timeout_ms = 300;
  World world(config);
  (void)world.peer(0, 1);  // starts calling
  world.crash(1, false);
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100);
  REQUIRE(exchange.run(milliseconds(2000)));
  REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(2000)));
  const std::uint64_t turns = world.turns();
  world.run_for(milliseconds(100000));
  CHECK(world.turns() - turns <= 4);
}

TEST_CASE("rest__a_silent_dead_path_keeps_it_awake_until_it_is_back", "[R1]") {
  World world(sleepy());
  talk(world, 0, 1);
  world.apply(0, 1, "kill");
  for (int i = 0; i < 100 && world.stats(0).paths_down == 0; ++i) talk(world, 0, 1, 1000000);
  REQUIRE(world.stats(0).paths_down > 0);
  world.run_for(milliseconds(500));
  CHECK(world.stats(0).peers_awake == 1);
  world.apply(0, 1, "revive");
  REQUIRE(world.run_until([&] { return world.stats(0).paths_returned > 0; }, milliseconds(2000)));
  come_to_rest(world);
  talk(world, 0, 1);
}

// The peer has been started again and doesn't know the endpoint that announces an address, so it
// sends a CHALLENGE. A resting endpoint ignores it. Otherwise it would repeat its announcement for
// ever.
TEST_CASE("rest__a_challenge_wakes_nobody", "[R2]") {
  WorldConfig config;
  config.nodes = 1;
  config.tunables.rest_after_ms = 0;
  config.tunables.peer_timeout_ms = 50;
  World world(config);
  ScriptedPeer peer(world, 0, 99);
  for (const PacketType type : {PacketType::hello, PacketType::welcome}) {
    peer.say(type);
    peer.echo = true;
    world.run_for(milliseconds(1));
    CHECK(peer.heard() == "WELCOME");
  }
  world.apply(0, 0, "revive:moved");
  world.run_for(milliseconds(200));
  CHECK(rests(world, 0));
  CHECK_FALSE(peer.heard().empty());
  PeerId id{};
  REQUIRE(world.endpoint(0).connect(world.now(), peer.address(), id) == Status::ok);
  world.wake(0);  // announces the address once more
  std::uint32_t announced = 0;
  for (int i = 0; i < 1000; ++i) {
    world.run_for(microseconds(100));
    for (const ScriptedPeer::Seen& seen : peer.seen()) {
      CHECK(seen.type == PacketType::hello);
      peer.challenge(++announced);
    }
  }
  CHECK(announced >= 1);
  CHECK(announced <= 2);
  CHECK(rests(world, 0));
  CHECK(world.drops(0, DropReason::stale_session) == 0);
  peer.challenge(++announced);
  world.run_for(milliseconds(1));
  CHECK(rests(world, 0));
  CHECK(world.drops(0, DropReason::stale_session) == 1);
  CHECK(peer.heard().empty());
}

// An evacuated packet waits for a path, and its message's status arrives first. Nothing is left to
// retransmit, and the endpoint, which has nothing more to send, rests.
TEST_CASE("rest__a_message_that_ended_while_no_path_worked_waits_for_none", "[R1]") {
  WorldConfig config = MessageScene::defaults();
  config.tunables.rest_after_ms = kRestMs;
  MessageScene scene(config);
  (void)scene.send(100, Level::accepted);
  scene.settle();
  REQUIRE(scene.heard(0) == "data 0");
  scene.control([](PacketWriter& w) { REQUIRE(w.nic_state(0, false, 1)); });
  scene.settle();
  REQUIRE(scene.world().stats(0).lost_by_evacuation == 1);
  scene.status(0, MessageStatus::accepted);
  scene.settle();
  REQUIRE(scene.ended() == "ok");
  CHECK(scene.world().run_until([&] { return rests(scene.world(), 0); },
                                milliseconds(config.tunables.peer_timeout_ms)));
  CHECK(scene.world().stats(0).fragments_retransmitted == 0);
}

TEST_CASE("rest__who_has_more_nics_than_a_record_stays_awake", "[R1]") {
  WorldConfig config = sleepy();
  config.nics_of = {2, 9};
  World world(config);
  talk(world, 0, 1);
  world.run_for(milliseconds(100));
  CHECK(world.stats(0).peers_awake == 1);
  CHECK(world.stats(1).peers_at_rest == 1);
  talk(world, 1, 0);
}

// Only one NIC of each end lives after the rest, whichever they are. Each direction finds the pair.
TEST_CASE("rest__any_living_pair_is_found_after_it", "[R6][P7][P17]") {
  for (std::uint32_t near = 0; near < 3; ++near) {
    for (std::uint32_t far = 0; far < 3; ++far) {
      INFO("only NIC " << near << " here and NIC " << far << " there live");
      WorldConfig config = sleepy(3);
      config.tunables.peer_timeout_ms = 4000;
      World world(config);
      talk(world, 0, 1);
      come_to_rest(world);
      for (std::uint32_t nic = 0; nic < 3; ++nic) {
        if (nic != near) world.apply(0, nic, "kill");
        if (nic != far) world.apply(1, nic, "kill");
      }
      Exchange exchange(world);
      exchange.ignore_what_was();
      exchange.message(0, 1, 1, 100000, {.level = Level::delivered});
      exchange.message(1, 0, 1, 100000, {.level = Level::delivered});
      REQUIRE(exchange.run(milliseconds(4000)));
      exchange.check_all_ok();
      exchange.check();
    }
  }
}

// A NIC of this end goes down while no driver knows a way to the peer. The peer is told as soon as
// there is a way, but not at the price of a turn every 50 us until then.
TEST_CASE("rest__news_for_a_peer_without_a_way_cost_few_turns", "[R1][R6]") {
  bool knows_way = true;
  WorldConfig config = sleepy();
  config.tunables.peer_timeout_ms = 300;
  config.knows_way = [&](std::uint32_t, std::uint32_t, const proto::NicAddress&) {
    return knows_way;
  };
  World world(config);
  talk(world, 0, 1);
  come_to_rest(world);
  knows_way = false;
  world.apply(0, 1, "kill:event");
  const std::uint64_t before = world.turns();
  REQUIRE(world.run_until([&] { return world.stats(0).peers_awake == 1; }, milliseconds(10)));
  REQUIRE(world.run_until([&] { return rests(world, 0); }, milliseconds(2000)));
  CHECK(world.turns() - before < 2000);
  const std::uint64_t at_rest = world.turns();
  world.run_for(milliseconds(10000));
  CHECK(world.turns() - at_rest <= 4);
  CHECK(world.stats(0).peer_failures == 0);
  // The peer is told when there is a way again.
  knows_way = true;
  talk(world, 0, 1);
  const std::uint64_t timeouts = world.stats(1).ptos;
  talk(world, 1, 0);
  CHECK(world.stats(1).ptos == timeouts);
}

}  // namespace
}  // namespace hawser::test
