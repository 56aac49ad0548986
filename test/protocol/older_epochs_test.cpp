// SPDX-License-Identifier: Apache-2.0
// A process whose epoch is older than that of the endpoint's previous process, because the host's
// clock went back. The tests show when it gets a session, and what it can't do.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "test/protocol/exchange.hpp"
#include "test/protocol/session_scene.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

// Sends a HELLO of an older epoch that proves its address.
void call_with_older_epoch(Scene& s) {
  s.peer.epoch = 0;
  s.restart_and_prove();
  s.peer.say(PacketType::hello);
}

TEST_CASE("older_epochs__an_older_epoch_follows_a_session_that_has_ended", "[S35]") {
  Scene s(State::failed);
  call_with_older_epoch(s);
  s.settle();
  REQUIRE(s.peer.heard() == "WELCOME");
  s.peer.speak();
  s.settle();
  CHECK(s.stats().established);
}

TEST_CASE("older_epochs__an_older_epoch_answers_a_call", "[S35]") {
  Scene s(State::failed);
  s.connect();
  s.peer.epoch = 0;
  ++s.peer.token;
  SECTION("with an echo of the present token") {
    s.peer.echo = true;
    s.peer.say(PacketType::welcome);
    s.settle();
    CHECK(s.stats().established);
  }
  SECTION("without one it is no answer") {
    s.peer.say(PacketType::welcome);
    s.settle();
    CHECK_FALSE(s.stats().established);
  }
  SECTION("an older handshake of the same process is none, whatever it echoes") {
    s.peer.epoch = 1;
    s.peer.counter = 0x7fffffff;  // behind 1, as counters wrap
    s.peer.counter += 0x7fffffff;
    s.peer.echo = true;
    s.peer.say(PacketType::welcome);
    s.settle();
    CHECK_FALSE(s.stats().established);
  }
}

// The living peer answers the probe, and nothing of its session changes.
TEST_CASE("older_epochs__an_older_epoch_never_replaces_a_session_that_lives", "[S34]") {
  for (const bool lives : {true, false}) {
    INFO("lives " << lives);
    Scene s(State::ready);
    ScriptedPeer older(s.world(), 0, kPeerId, kSecret);
    older.epoch = 0;
    older.token ^= 0xff00;
    const auto call = [&] {
      older.say(PacketType::hello);
      s.settle();
      for (const ScriptedPeer::Seen& packet : older.seen()) older.cookie = packet.cookie;
    };
    call();
    REQUIRE(older.cookie != 0);
    // The older process calls for as long as a real caller would.
    for (int i = 0; i < 6 && s.stats().failure == Status::ok; ++i) {
      call();
      s.world().run_for(milliseconds(50));
      if (lives) s.peer.speak();
    }
    CHECK(s.stats().established == lives);
    CHECK(s.stats().failure == (lives ? Status::ok : Status::peer_timeout));
    older.say(PacketType::hello);
    s.settle();
    CHECK((older.heard() == "WELCOME") == !lives);
    CHECK(s.stats().established == lives);
  }
}

// A HELLO that was in flight for long arrives, with the cookie of its process.
TEST_CASE("older_epochs__a_late_call_of_a_process_that_is_gone_ends_nothing", "[S36]") {
  Scene s(State::failed);
  // The newer process has proven its address, and its last HELLO is in flight.
  ScriptedPeer gone(s.world(), 0, kPeerId, kSecret);
  gone.counter = 2;
  gone.token += 8;
  gone.say(PacketType::hello);
  s.settle();
  gone.cookie = gone.seen().at(0).cookie;
  // The newer process is gone. The one with the older epoch calls, and gets a session.
  call_with_older_epoch(s);
  s.settle();
  REQUIRE(s.peer.heard() == "WELCOME");
  s.peer.speak();
  s.settle();
  REQUIRE(s.stats().established);
  gone.say(PacketType::hello);
  s.settle();
  CHECK(gone.heard() == "CHALLENGE");
  CHECK(s.stats().established);
  CHECK(s.peer.heard().empty());
  s.peer.speak();
  s.settle();
  CHECK(s.stats().established);
}

// The newer process died after its call was answered, before the session was READY here. The cookie
// shows that the older epoch's process is there after it.
TEST_CASE("older_epochs__an_older_epoch_follows_a_newer_call_that_was_answered", "[S35]") {
  Scene s(State::answered);
  s.peer.epoch = 0;
  s.restart_and_prove();
  s.peer.say(PacketType::hello);
  s.settle();
  REQUIRE(s.peer.heard() == "WELCOME");
  s.peer.speak();
  s.settle();
  CHECK(s.stats().established);
}

// A HELLO that was under way for long, of a handshake that its process has begun anew since then.
TEST_CASE("older_epochs__a_late_call_does_not_displace_a_newer_one_that_was_answered", "[S36]") {
  const std::string secret = GENERATE(std::string(), kSecret);
  INFO("secret '" << secret << "'");
  Scene s(State::ready, secret);
  s.restart_and_prove();
  const std::uint32_t late_counter = s.peer.counter;
  const std::uint64_t late_token = s.peer.token;
  const std::uint64_t late_cookie = s.peer.cookie;
  s.restart_and_prove();
  s.peer.say(PacketType::hello);
  s.settle();
  REQUIRE(s.peer.heard() == "WELCOME");
  const auto newer = std::pair(s.peer.counter, s.peer.token);
  s.peer.counter = late_counter;
  s.peer.token = late_token;
  s.peer.cookie = late_cookie;
  s.peer.say(PacketType::hello);
  s.settle();
  CHECK(s.peer.heard() == "CHALLENGE");  // its cookie is from before the newer one was answered
  std::tie(s.peer.counter, s.peer.token) = newer;
  s.peer.speak();
  s.settle();
  CHECK(s.stats().established);
}

// A caller uses the name of a living peer. It learns what is wrong once it has proven its address.
// The living peer hears nothing and loses nothing.
TEST_CASE("older_epochs__a_caller_whose_epoch_is_no_higher_is_told_so", "[S37]") {
  const std::uint64_t epoch = GENERATE(0u, 1u);
  INFO("epoch " << epoch << " beside 1");
  Scene s(State::ready);
  ScriptedPeer other(s.world(), 0, kPeerId, kSecret);
  other.epoch = epoch;
  other.token ^= 0xff00;
  other.index = 9;
  other.say(PacketType::hello);
  s.settle();
  const std::vector<ScriptedPeer::Seen> asked = other.seen();
  REQUIRE(asked.size() == 1);
  REQUIRE(asked[0].type == PacketType::challenge);
  other.cookie = asked[0].cookie;
  other.say(PacketType::hello);
  s.settle();
  const std::vector<ScriptedPeer::Seen> told = other.seen();
  REQUIRE(told.size() == 1);
  CHECK(told[0].type == PacketType::reset);
  CHECK(told[0].closing.flags == proto::wire::kClosingStaleEpoch);
  CHECK(told[0].header.token == other.token);
  CHECK(told[0].header.receiver == other.index);
  CHECK(s.peer.heard().empty());
  CHECK(s.stats().established);
  s.peer.speak();
  s.settle();
  CHECK(s.stats().established);
}

// The session was READY here, and ended before the peer had heard that. This end has called again
// since then, where the peer no longer is, and has ended that call too. The peer still has the
// first session, and calls.
TEST_CASE("older_epochs__a_caller_whose_session_has_ended_hears_that", "[S47]") {
  const bool by_program = GENERATE(true, false);
  INFO("ended " << (by_program ? "by the program" : "by the timeout of a call"));
  Scene s(State::ready);
  auto its =
      std::tie(s.peer.their_index, s.peer.their_token, s.peer.their_epoch, s.peer.their_counter);
  const std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t> first = its;
  const auto disconnect = [&s] {
    REQUIRE(s.world().endpoint(0).disconnect(s.world().now(), s.id) == Status::ok);
    s.world().wake(0);
    s.settle();
  };
  disconnect();
  REQUIRE(s.peer.heard() == "CLOSE");  // it gets lost
  s.connect();
  if (by_program) disconnect();
  s.world().run_for(milliseconds(450));
  REQUIRE(s.stats().failure == (by_program ? Status::endpoint_closed : Status::peer_unreachable));
  (void)s.peer.heard();
  s.peer.echo = true;
  const auto call = [&] {
    its = first;
    s.peer.say(PacketType::hello);
    s.settle();
    const std::vector<ScriptedPeer::Seen> seen = s.peer.seen();
    REQUIRE(seen.size() == 1);
    return seen[0];
  };
  s.peer.cookie = call().cookie;
  REQUIRE(s.peer.cookie != 0);
  for (int i = 0; i < 2; ++i) {  // the first answer may be lost
    const ScriptedPeer::Seen told = call();
    CHECK(told.type == PacketType::reset);
    CHECK(told.closing.flags == (by_program ? proto::wire::kClosingOnPurpose : 0));
    CHECK(told.header.token == s.peer.token);
    CHECK(told.header.receiver == s.peer.index);
  }
  // Its next incarnation gets in.
  s.peer.echo = false;
  s.restart_and_prove();
  s.peer.say(PacketType::hello);
  s.settle();
  CHECK(s.peer.heard() == "WELCOME");
  s.peer.speak();
  s.settle();
  CHECK(s.stats().established);
}

// The RESET tells why a call failed. It doesn't end the call, and without a valid MAC it tells
// nothing.
TEST_CASE("older_epochs__that_an_epoch_is_stale_ends_no_call", "[S37]") {
  Scene s(State::calling);
  const auto answer = [&s] { s.peer.end(PacketType::reset, proto::wire::kClosingStaleEpoch); };
  const auto give_up = [&s] {
    s.world().run_for(milliseconds(450));
    CHECK(s.stats().failure == Status::peer_unreachable);
    return s.stats().failure_reason;
  };
  SECTION("the other one answers after all") {
    answer();
    s.settle();
    s.peer.echo = true;
    s.peer.say(PacketType::welcome);
    s.settle();
    CHECK(s.stats().established);
  }
  SECTION("nobody does") {
    answer();
    s.world().run_for(milliseconds(350));
    CHECK(s.stats().failure == Status::ok);
    CHECK(give_up() == Reason::stale_epoch);
  }
  SECTION("the MAC is wrong") {
    s.peer.damage_mac = true;
    answer();
    CHECK(give_up() == Reason::never_heard);
  }
  SECTION("it is said in the name of another session") {
    ++s.peer.their_token;
    answer();
    CHECK(give_up() == Reason::never_heard);
  }
  SECTION("the next call begins anew") {
    answer();
    CHECK(give_up() == Reason::stale_epoch);
    (void)s.peer.heard();
    s.connect();
    CHECK(give_up() == Reason::never_heard);
  }
}

// Both ends call at once, and the caller has the incarnation of its previous process. Its answer
// makes the session, so it must not hear earlier that its epoch is stale. On another path that
// RESET might arrive when the session is READY.
TEST_CASE("older_epochs__whoever_may_answer_the_call_is_not_told", "[S37]") {
  Scene s(State::failed);
  s.connect();
  s.settle();
  const auto hears = [&s](PacketType type) {
    bool any = false;
    for (const ScriptedPeer::Seen& packet : s.peer.seen()) {
      any |= packet.type == type;
      if (packet.type == PacketType::challenge) s.peer.cookie = packet.cookie;
    }
    return any;
  };
  ++s.peer.token;  // another process, of the same epoch and handshake
  s.peer.say(PacketType::hello);
  s.settle();
  REQUIRE(hears(PacketType::challenge));
  s.peer.say(PacketType::hello);
  s.settle();
  CHECK_FALSE(hears(PacketType::reset));
  s.peer.echo = true;
  s.peer.say(PacketType::welcome);
  s.settle();
  CHECK(s.stats().established);
}

// For a session that is READY it is a RESET like any other.
TEST_CASE("older_epochs__a_session_whose_name_went_to_another_process_ends", "[S37]") {
  Scene s(State::ready);
  s.peer.end(PacketType::reset, proto::wire::kClosingStaleEpoch);
  s.settle();
  CHECK(s.stats().failure == Status::peer_timeout);
}

// Two processes with one name and one epoch call the same peer.
TEST_CASE("older_epochs__two_processes_of_one_name", "[S37][F6]") {
  WorldConfig config = tiny_world();
  config.nodes = 3;
  config.ids = {1, 2, 2};
  config.tunables.peer_timeout_ms = 300;
  World world(config);
  std::string in(4, ' ');
  const std::string out = "mine";
  (void)world.receive(0, kAnyPeer, 1, in);
  (void)world.send(1, 0, 1, out);
  REQUIRE(world.run_until_completed(1, 1, milliseconds(100)));
  (void)world.send(2, 0, 2, out);
  REQUIRE(world.run_until_completed(2, 1, milliseconds(500)));
  CHECK(world.completions(2)[0].status == Status::peer_unreachable);
  const auto failed = std::ranges::find(world.events(2), Event::Kind::peer_failed, &Event::kind);
  REQUIRE(failed != world.events(2).end());
  CHECK(failed->reason == Reason::stale_epoch);
  CHECK(world.peer_stats(2, 0).failure_reason == Reason::stale_epoch);
  CHECK(world.peer_stats(1, 0).established);
  (void)world.receive(0, kAnyPeer, 3, in);
  (void)world.send(1, 0, 3, out);
  REQUIRE(world.run_until_completed(1, 2, milliseconds(100)));
  CHECK(world.completions(1)[1].status == Status::ok);
}

// A process starts again at once, before its peer can know that the previous process is gone. It
// goes on calling until the previous one has been silent for long enough.
TEST_CASE("older_epochs__a_process_that_follows_at_once_gets_in", "[S34][S35]") {
  const bool waits = GENERATE(true, false);
  const std::uint64_t absence_ms = GENERATE(0u, 400u);
  INFO("its peer waits " << waits << ", absence " << absence_ms);
  for_each_seed(20, [&](proto::Random& random) {
    WorldConfig config = tiny_world();
    config.seed = random.next();
    config.clocks_go_back = true;
    config.tunables.peer_timeout_ms = 500;
    config.tunables.longest_absence_ms = absence_ms;
    World world(config);
    std::string in(4, ' ');
    std::string more(4, ' ');
    const std::string out = "here";
    (void)world.receive(0, kAnyPeer, 1, in);
    (void)world.send(1, 0, 1, out);
    REQUIRE(world.run_until_completed(1, 1, milliseconds(100)));
    if (waits) (void)world.receive(0, world.completions(0)[0].peer, 2, more);
    world.run_for(milliseconds(static_cast<std::int64_t>(random.below(20))));
    world.crash(1, true);
    (void)world.receive(0, kAnyPeer, 3, in);
    (void)world.send(1, 0, 3, out);
    REQUIRE(world.run_until_completed(1, 1, milliseconds(1100)));
    CHECK(world.completions(1)[0].status == Status::ok);
  });
}

}  // namespace
}  // namespace hawser::test
