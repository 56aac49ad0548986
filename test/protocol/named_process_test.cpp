// SPDX-License-Identifier: Apache-2.0
// The program names a process by its address, and an earlier process of the same endpoint is still
// there. The tests show that the earlier one gets neither the session nor what was posted to it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include "test/protocol/session_scene.hpp"

namespace hawser::test {
namespace {

constexpr std::uint64_t kLaterEpoch = 3;

// A scene whose program connects to a later process than the scene's peer.
struct TwoProcesses {
  explicit TwoProcesses(State state) : scene(state), later(scene.world(), 0, kPeerId, kSecret) {
    later.epoch = kLaterEpoch;
    later.token ^= 0xff00;
  }

  void name(const ScriptedPeer& process) {
    REQUIRE(scene.world().endpoint(0).connect(scene.world().now(), process.address(), scene.id) ==
            Status::ok);
    scene.world().wake(0);
    scene.settle();
  }
  // The earlier process calls, twice with a cookie.
  void earlier_calls() {
    for (int i = 0; i < 3; ++i) {
      earlier.say(PacketType::hello);
      scene.settle();
      for (const ScriptedPeer::Seen& packet : earlier.seen()) {
        heard.push_back(packet);
        if (packet.cookie != 0) earlier.cookie = packet.cookie;
      }
    }
  }
  [[nodiscard]] bool was_heard(PacketType type) const {
    return std::ranges::any_of(heard, [&](const auto& packet) { return packet.type == type; });
  }
  void later_answers() {
    later.echo = true;
    later.say(PacketType::welcome);
    scene.settle();
  }

  Scene scene;
  ScriptedPeer& earlier{scene.peer};
  ScriptedPeer later;
  std::vector<ScriptedPeer::Seen> heard;  // by the earlier process
};

TEST_CASE("named_process__an_earlier_one_elsewhere_does_not_get_in", "[S38]") {
  const State state = GENERATE(State::none, State::answered, State::ready, State::failed);
  INFO("state " << static_cast<int>(state));
  TwoProcesses two(state);
  two.name(two.later);
  REQUIRE(two.later.heard() == "HELLO");
  SECTION("by its calls") {
    two.earlier_calls();
    CHECK(two.was_heard(PacketType::challenge));
    CHECK(two.heard.back().type == PacketType::reset);
    CHECK((two.heard.back().closing.flags & proto::wire::kClosingStaleEpoch) != 0);
  }
  SECTION("by calls of a newer handshake") {
    two.scene.restart();
    two.earlier_calls();
    CHECK(two.heard.back().type == PacketType::reset);
  }
  SECTION("by an answer with the token that it was told") {
    two.earlier.echo = true;
    two.earlier.say(PacketType::welcome);
    two.scene.settle();
  }
  SECTION("by an answer with the token that the later one was told") {
    two.earlier.echo = true;
    two.earlier.their_token = two.later.their_token;
    two.earlier.their_epoch = two.later.their_epoch;
    two.earlier.their_counter = two.later.their_counter;
    two.earlier.say(PacketType::welcome);
    two.scene.settle();
  }
  CHECK_FALSE(two.was_heard(PacketType::welcome));
  CHECK_FALSE(two.scene.stats().established);
  two.scene.world().run_for(milliseconds(60));
  CHECK(two.later.heard().find("HELLO") == 0);  // the calls still go there
  two.later_answers();
  CHECK(two.scene.stats().established);
  two.earlier_calls();
  CHECK_FALSE(two.was_heard(PacketType::welcome));
  CHECK(two.scene.stats().established);
}

// The later process calls, too.
TEST_CASE("named_process__its_own_call_is_answered", "[S38]") {
  const State state = GENERATE(State::none, State::answered, State::ready, State::failed);
  TwoProcesses two(state);
  two.name(two.later);
  REQUIRE(two.later.heard() == "HELLO");
  two.later.say(PacketType::hello);
  two.scene.settle();
  // A HELLO in the name of a peer that was READY must prove its address.
  if (state == State::ready || state == State::failed) {
    for (const ScriptedPeer::Seen& packet : two.later.seen()) two.later.cookie = packet.cookie;
    REQUIRE(two.later.cookie != 0);
    two.later.say(PacketType::hello);
    two.scene.settle();
  }
  REQUIRE(two.later.heard().find("WELCOME") == 0);
  two.earlier_calls();
  CHECK_FALSE(two.was_heard(PacketType::welcome));
  two.later.speak();
  two.scene.settle();
  CHECK(two.scene.stats().established);
}

// At the address that the program named, there is only the process that it means, whatever clock it
// has.
TEST_CASE("named_process__an_older_epoch_at_its_address_is_it", "[S38][S35]") {
  Scene scene(State::none);
  scene.peer.epoch = kLaterEpoch;
  scene.connect();
  scene.peer.epoch = 1;
  scene.peer.echo = true;
  scene.peer.say(PacketType::welcome);
  scene.settle();
  CHECK(scene.stats().established);
}

TEST_CASE("named_process__that_never_answers_gives_way_to_an_earlier_one", "[S38][S35]") {
  TwoProcesses two(State::ready);
  two.name(two.later);
  two.scene.world().run_for(milliseconds(1000));
  REQUIRE(two.scene.stats().failure == Status::peer_unreachable);
  const bool calls_on = GENERATE(false, true);
  if (calls_on) two.name(two.later);  // that says nothing new
  two.earlier_calls();
  CHECK(two.was_heard(PacketType::welcome));
}

// A program that connects again names the same process.
TEST_CASE("named_process__stays_named_while_it_is_called", "[S38]") {
  TwoProcesses two(State::failed);
  two.name(two.later);
  two.scene.world().run_for(milliseconds(50));
  two.name(two.later);
  two.earlier_calls();
  CHECK_FALSE(two.was_heard(PacketType::welcome));
}

// A call in the name of the ended session, from before the program named another process, may be
// replayed at any time.
TEST_CASE("named_process__that_was_never_there_leaves_what_was_verified", "[S36][S38]") {
  TwoProcesses two(State::ready);
  two.name(two.later);
  two.scene.world().run_for(milliseconds(10000));  // long enough for a rest
  REQUIRE(two.scene.stats().failure == Status::peer_unreachable);
  (void)two.earlier.heard();
  two.earlier.say(PacketType::hello);
  two.scene.settle();
  CHECK(two.earlier.heard() == "CHALLENGE");
}

// The program's last word counts, whichever of its addresses is older.
TEST_CASE("named_process__the_program_may_name_an_earlier_one_instead", "[S38]") {
  TwoProcesses two(State::failed);
  two.name(two.later);
  (void)two.later.heard();
  two.name(two.earlier);
  CHECK(two.earlier.heard() == "HELLO");
  two.earlier.echo = true;
  ++two.earlier.counter;
  two.earlier.token += 2;
  two.earlier.say(PacketType::welcome);
  two.scene.settle();
  CHECK(two.scene.stats().established);
}

}  // namespace
}  // namespace hawser::test
