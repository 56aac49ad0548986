// A process of an endpoint whose epoch is older than that of the process before it, as the clock of
// its host went back: when it gets in, and what it can't do.
#include <catch2/catch.hpp>

#include "test/protocol/session_scene.hpp"

namespace hawser::test {
namespace {

// A HELLO of an older epoch that proves its address.
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

// The living peer answers the question, and nothing of its session changes.
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
    // As long as its caller would call.
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

// A HELLO that was under way for long, with the cookie that it had been given.
TEST_CASE("older_epochs__a_late_call_of_a_process_that_is_gone_ends_nothing", "[S36]") {
  Scene s(State::failed);
  // The newer process has proven its address, and its last HELLO is under way.
  ScriptedPeer gone(s.world(), 0, kPeerId, kSecret);
  gone.counter = 2;
  gone.token += 8;
  gone.say(PacketType::hello);
  s.settle();
  gone.cookie = gone.seen().at(0).cookie;
  // It is gone. The one with the older epoch comes, and has a session.
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

// The newer process has died after its call was answered, before the session was READY here.
TEST_CASE("older_epochs__an_older_epoch_follows_a_newer_call_that_is_silent_for_long", "[S35]") {
  for (const bool long_silent : {true, false}) {
    INFO("long silent " << long_silent);
    Scene s(State::answered);
    if (long_silent) s.world().run_for(milliseconds(8000));
    s.peer.epoch = 0;
    ++s.peer.token;
    s.peer.say(PacketType::hello);
    s.settle();
    CHECK(s.peer.heard() == (long_silent ? "CHALLENGE" : ""));
  }
}

}  // namespace
}  // namespace hawser::test
