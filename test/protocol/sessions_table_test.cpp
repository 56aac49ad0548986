// SPDX-License-Identifier: Apache-2.0
// The table of states in docs/internals/protocol.md §6, row by row: an endpoint's answer to each
// event in each state, and its next state. The test plays the peer.
#include <catch2/catch.hpp>
#include <optional>
#include <utility>

#include "test/protocol/session_scene.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;
using proto::wire::PacketType;

struct Expected {
  std::string answer;                   // packets, by name
  std::optional<bool> ready{};          // nothing: the endpoint knows no such peer
  Status failure = Status::ok;          // of the peer
  std::optional<DropReason> dropped{};  // counted once
};
constexpr std::optional<bool> kReady = true;
constexpr std::optional<bool> kNotReady = false;

template <class Event>
void check(State state, const Expected& expected, Event&& event) {
  Scene scene(state);
  INFO("state " << static_cast<int>(state));
  const EndpointStats before = scene.world().stats(0);
  event(scene);
  scene.settle();
  CHECK(scene.peer.heard() == expected.answer);
  const PeerStats stats = scene.stats();
  CHECK((stats.peer != kAnyPeer) == expected.ready.has_value());
  if (expected.ready) {
    CHECK(stats.established == *expected.ready);
    CHECK(stats.failure == expected.failure);
  }
  const EndpointStats after = scene.world().stats(0);
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    const bool wanted = expected.dropped && static_cast<std::size_t>(*expected.dropped) == i;
    INFO(kDropReasonTexts[i].name);
    CHECK(after.drops[i] - before.drops[i] == (wanted ? 1 : 0));
  }
  // Whatever happened, nothing hangs and nothing is left over.
  scene.world().run_for(milliseconds(2000));
  CHECK(scene.world().stats(0).operations_pending == 0);
  CHECK(scene.world().stats(0).buffers_in_use == 0);
}

TEST_CASE("sessions_table__hello_of_what_is_known_or_new", "[S8]") {
  const auto hello = [](Scene& s) { s.peer.say(PacketType::hello); };
  check(State::none, {"WELCOME", kNotReady}, hello);
  check(State::calling, {"WELCOME", kNotReady}, hello);
  check(State::answered, {"WELCOME", kNotReady}, hello);
  check(State::ready, {"WELCOME", kReady}, hello);
  check(State::failed, {"", kNotReady, Status::peer_timeout, DropReason::stale_session}, hello);
}

TEST_CASE("sessions_table__hello_that_echoes_our_token") {
  const auto hello = [](Scene& s) {
    s.peer.echo = true;
    s.peer.say(PacketType::hello);
  };
  check(State::calling, {"WELCOME", kReady}, hello);
  check(State::answered, {"WELCOME", kReady}, hello);
  check(State::ready, {"WELCOME", kReady}, hello);
  check(State::failed, {"RESET", kNotReady, Status::peer_timeout, DropReason::stale_session},
        hello);
}

TEST_CASE("sessions_table__hello_of_a_newer_incarnation_that_proves_nothing", "[S8]") {
  const auto hello = [](Scene& s) {
    s.restart();
    s.peer.say(PacketType::hello);
  };
  check(State::none, {"WELCOME", kNotReady}, hello);
  check(State::calling, {"WELCOME", kNotReady}, hello);  // the first packet of this incarnation
  check(State::answered, {"CHALLENGE", kNotReady}, hello);
  check(State::ready, {"CHALLENGE", kReady}, hello);
  check(State::failed, {"CHALLENGE", kNotReady, Status::peer_timeout}, hello);
}

TEST_CASE("sessions_table__hello_of_a_newer_incarnation_with_its_cookie", "[S8]") {
  const auto hello = [](Scene& s) {
    s.restart_and_prove();
    s.peer.say(PacketType::hello);
  };
  check(State::answered, {"WELCOME", kNotReady}, hello);
  for (const bool is_same_process : {true, false}) {
    check(State::ready, {"WELCOME", kNotReady}, [&](Scene& s) {
      s.post_receive();
      if (!is_same_process) ++s.peer.epoch;
      hello(s);
      s.settle();
      // The old session's operations have failed, and the new session begins.
      REQUIRE(s.world().completions(0).size() == 1);
      CHECK(s.world().completions(0)[0].status ==
            (is_same_process ? Status::peer_timeout : Status::peer_restarted));
    });
  }
  check(State::failed, {"WELCOME", kNotReady}, hello);
}

// Otherwise packets of an incarnation that was READY before it died would count as its successor's.
TEST_CASE("sessions_table__each_incarnation_that_is_answered_is_told_a_token_of_its_own", "[S8]") {
  Scene s(State::answered);
  const std::uint64_t first = s.peer.their_token;
  s.restart_and_prove();
  s.peer.say(PacketType::hello);
  s.settle();
  REQUIRE(s.peer.heard() == "WELCOME");
  const std::uint64_t second = std::exchange(s.peer.their_token, first);
  CHECK(second != first);
  const std::uint64_t before = s.drops(DropReason::wrong_token);
  s.peer.speak();
  s.settle();
  CHECK(s.drops(DropReason::wrong_token) == before + 1);
  CHECK_FALSE(s.stats().established);
  s.peer.their_token = second;
  s.peer.speak();
  s.settle();
  CHECK(s.stats().established);
}

// The peer answered, but never learned that this end was READY and then failed. It still has the
// incarnation that is verified here. Only its echo shows that its answer is a current one.
TEST_CASE("sessions_table__an_incarnation_that_was_verified_and_echoes_the_token_of_now", "[S8]") {
  for (const bool echoes : {true, false}) {
    INFO("echoes " << echoes);
    Scene s(State::ready);
    REQUIRE(s.world().endpoint(0).disconnect(s.world().now(), s.id) == Status::ok);
    s.world().wake(0);
    s.settle();
    (void)s.peer.heard();
    s.connect();
    ++s.peer.token;
    s.peer.echo = echoes;
    const std::uint64_t before = s.drops(DropReason::stale_session);
    s.peer.say(PacketType::welcome);
    s.settle();
    CHECK(s.stats().established == echoes);
    CHECK(s.drops(DropReason::stale_session) == before + (echoes ? 0 : 1));
  }
}

TEST_CASE("sessions_table__an_older_incarnation_does_not_undo_what_is_known_of_a_newer_one",
          "[S8]") {
  check(State::answered, {"CHALLENGE", kNotReady}, [](Scene& s) {
    s.peer.epoch = 0;  // with an echo: it heard this end before it died
    s.peer.echo = true;
    ++s.peer.token;
    s.peer.say(PacketType::welcome);
  });
}

TEST_CASE("sessions_table__a_cookie_is_good_for_its_hello_at_its_address_only", "[S9]") {
  const auto changed = [](auto&& change) {
    check(State::ready, {"CHALLENGE", kReady}, [&](Scene& s) {
      s.restart_and_prove();
      change(s);
      s.peer.say(PacketType::hello);
    });
  };
  changed([](Scene& s) { s.peer.cookie ^= 1; });
  changed([](Scene& s) { s.peer.cookie = 0; });
  changed([](Scene& s) { ++s.peer.counter; });
  changed([](Scene& s) { ++s.peer.epoch; });
  changed([](Scene& s) { ++s.peer.token; });
  check(State::ready, {"CHALLENGE", kReady}, [&](Scene& s) {
    s.restart_and_prove();
    s.world().run_for(milliseconds(8000));  // two periods
    s.peer.say(PacketType::hello);
  });
  // The HELLO comes from another address. The endpoint challenges that address, and nobody there
  // answers.
  Scene scene(State::ready);
  scene.restart_and_prove();
  ScriptedPeer elsewhere(scene.world(), 0, kPeerId, kSecret);
  elsewhere.counter = scene.peer.counter;
  elsewhere.token = scene.peer.token;
  elsewhere.cookie = scene.peer.cookie;
  elsewhere.say(PacketType::hello);
  scene.settle();
  CHECK(elsewhere.heard() == "CHALLENGE");
  CHECK(scene.peer.heard().empty());
  CHECK(scene.stats().established);
}

TEST_CASE("sessions_table__hello_of_an_older_incarnation") {
  const auto hello = [](Scene& s) {
    s.peer.epoch = 0;
    s.peer.counter = 1000;
    s.peer.token ^= 0xff00;
    s.peer.say(PacketType::hello);
  };
  check(State::ready, {"CHALLENGE", kReady}, hello);
  check(State::failed, {"CHALLENGE", kNotReady, Status::peer_timeout}, hello);
  check(State::answered, {"CHALLENGE", kNotReady}, hello);
  Scene open(State::answered, "");
  hello(open);
  open.settle();
  CHECK(open.peer.heard() == "CHALLENGE");
}

TEST_CASE("sessions_table__the_same_incarnation_with_another_token", "[S37]") {
  const auto hello = [](Scene& s) {
    s.peer.token ^= 0xff00;
    s.peer.say(PacketType::hello);
  };
  // Another process has the name. It must prove its address before it learns that.
  check(State::ready, {"CHALLENGE", kReady}, hello);
}

TEST_CASE("sessions_table__welcome") {
  const auto plain = [](Scene& s) { s.peer.say(PacketType::welcome); };
  const auto echoing = [](Scene& s) {
    s.peer.echo = true;
    s.peer.say(PacketType::welcome);
  };
  const Expected stale{"", kNotReady, Status::ok, DropReason::stale_session};
  check(State::none, {"", std::nullopt, Status::ok, DropReason::stale_session}, plain);
  check(State::calling, stale, plain);
  check(State::answered, {"WELCOME", kNotReady}, plain);
  check(State::ready, {"", kReady}, plain);
  check(State::failed, {"", kNotReady, Status::peer_timeout, DropReason::stale_session}, plain);
  check(State::calling, {"WELCOME", kReady}, echoing);
  check(State::answered, {"WELCOME", kReady}, echoing);
  check(State::ready, {"", kReady}, echoing);
  check(State::failed, {"RESET", kNotReady, Status::peer_timeout, DropReason::stale_session},
        echoing);
  // A WELCOME of an unknown incarnation, which has had a packet of ours. It must prove that it is
  // there after the known one. The endpoint answers the proof with another token.
  const auto restarted = [&](Scene& s) {
    s.restart();
    echoing(s);
  };
  check(State::answered, {"CHALLENGE", kNotReady}, restarted);
  check(State::ready, {"CHALLENGE", kReady}, restarted);
  check(State::failed, {"CHALLENGE", kNotReady, Status::peer_timeout}, restarted);
  check(State::answered, {"WELCOME", kReady}, [&](Scene& s) {
    s.peer.echo = true;
    s.restart_and_prove();
    s.peer.say(PacketType::hello);
    s.settle();
    REQUIRE(s.peer.heard() == "WELCOME");
    echoing(s);
  });
}

// The endpoint calls, and two processes of the peer answer, one after the other. Both know the
// endpoint's token. Only the later process is there, so it may be READY with that token, and the
// answer of the earlier one is late.
TEST_CASE("sessions_table__a_late_answer_does_not_displace_the_process_that_is_known", "[S8]") {
  const bool has_higher_epoch = GENERATE(true, false);
  INFO("the later process has the " << (has_higher_epoch ? "higher" : "lower") << " epoch");
  Scene s(State::calling, "");
  ScriptedPeer gone(s.world(), 0, kPeerId);
  gone.their_index = s.peer.their_index;
  gone.their_token = s.peer.their_token;
  gone.their_epoch = s.peer.their_epoch;
  gone.their_counter = s.peer.their_counter;
  gone.echo = true;
  gone.token += 8;
  (has_higher_epoch ? s.peer : gone).epoch = 2;
  s.call();
  gone.say(PacketType::welcome);
  s.settle();
  const std::vector<ScriptedPeer::Seen> asked = gone.seen();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].type == PacketType::challenge);
  SECTION("the process that is known has a session") {
    s.peer.speak();
    s.settle();
    CHECK(s.stats().established);
  }
  SECTION("a process that answers the challenge has one") {
    gone.cookie = asked[0].cookie;
    gone.say(PacketType::hello);
    s.settle();
    REQUIRE(gone.heard() == "WELCOME");
    gone.speak();
    s.settle();
    CHECK(s.stats().established);
  }
  SECTION("a cookie is void once another process is known") {
    s.restart_and_prove();
    s.peer.say(PacketType::hello);
    s.settle();
    REQUIRE(s.peer.heard() == "WELCOME");
    gone.cookie = asked[0].cookie;
    gone.say(PacketType::hello);
    s.settle();
    CHECK(gone.heard() == "CHALLENGE");
    s.peer.speak();
    s.settle();
    CHECK(s.stats().established);
  }
}

TEST_CASE("sessions_table__challenge") {
  const auto challenge = [](Scene& s) { s.peer.challenge(1234); };
  check(State::calling, {"HELLO", kNotReady}, challenge);
  // The endpoint has sent a WELCOME to a peer that knows another process of it.
  check(State::answered, {"HELLO", kNotReady}, challenge);
  check(State::ready, {"", kReady, Status::ok, DropReason::stale_session}, challenge);
  check(State::failed, {"", kNotReady, Status::peer_timeout, DropReason::stale_session}, challenge);
  // The endpoint answers a CHALLENGE with the cookie, once.
  Scene scene(State::calling);
  challenge(scene);
  scene.settle();
  const auto seen = scene.peer.seen();
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].session.cookie == 1234);
  challenge(scene);
  scene.settle();
  CHECK(scene.peer.heard().empty());
  // Without calls of its own, it answers each: nothing else repeats an answer that is lost.
  Scene answered(State::answered);
  for (int i = 0; i < 2; ++i) {
    challenge(answered);
    answered.settle();
    const auto answers = answered.peer.seen();
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].session.cookie == 1234);
  }
}

TEST_CASE("sessions_table__control_with_our_index_and_token") {
  const auto speak = [](Scene& s) { s.peer.speak(); };
  check(State::none, {"", std::nullopt, Status::ok, DropReason::unknown_receiver}, speak);
  check(State::calling, {"", kNotReady, Status::ok, DropReason::not_connected}, speak);
  check(State::answered, {"", kReady}, speak);
  check(State::ready, {"", kReady}, speak);
  check(State::failed, {"RESET", kNotReady, Status::peer_timeout, DropReason::not_connected},
        speak);
}

TEST_CASE("sessions_table__control_with_a_wrong_token") {
  const auto speak = [](Scene& s) {
    s.peer.their_token ^= 4;
    s.peer.speak();
  };
  for (const State state : {State::calling, State::answered}) {
    check(state, {"", kNotReady, Status::ok, DropReason::wrong_token}, speak);
  }
  check(State::ready, {"", kReady, Status::ok, DropReason::wrong_token}, speak);
  check(State::failed, {"", kNotReady, Status::peer_timeout, DropReason::wrong_token}, speak);
}

TEST_CASE("sessions_table__close") {
  const auto close = [](Scene& s) { s.peer.end(PacketType::close); };
  check(State::calling, {"", kNotReady, Status::ok, DropReason::not_connected}, close);
  check(State::answered, {"CLOSED", kNotReady, Status::peer_closed}, close);
  check(State::ready, {"CLOSED", kNotReady, Status::peer_closed}, close);
  check(State::failed, {"CLOSED", kNotReady, Status::peer_timeout}, close);
}

TEST_CASE("sessions_table__close_in_parts", "[S4][S15]") {
  using proto::wire::kClosingLast;
  // All but one CLOSE have come, so the session stays. Any of them may come last.
  check(State::ready, {"", kReady}, [](Scene& s) {
    s.peer.end(PacketType::close, 0, 0);
    s.peer.end(PacketType::close, kClosingLast, 2);
    s.peer.end(PacketType::close, kClosingLast, 2);
  });
  check(State::ready, {"CLOSED", kNotReady, Status::peer_closed}, [](Scene& s) {
    s.peer.end(PacketType::close, kClosingLast, 2);
    s.peer.end(PacketType::close, 0, 0);
    s.peer.end(PacketType::close, 0, 1);
  });
  check(State::ready, {"", kReady, Status::ok, DropReason::bad_field},
        [](Scene& s) { s.peer.end(PacketType::close, kClosingLast, 128); });
}

TEST_CASE("sessions_table__closed_that_nobody_asked_for") {
  const auto closed = [](Scene& s) { s.peer.end(PacketType::closed, 0); };
  check(State::calling, {"", kNotReady, Status::ok, DropReason::not_connected}, closed);
  check(State::answered, {"", kReady}, closed);
  check(State::ready, {"", kReady}, closed);
  check(State::failed, {"", kNotReady, Status::peer_timeout}, closed);
}

TEST_CASE("sessions_table__reset") {
  const auto lost = [](Scene& s) { s.peer.end(PacketType::reset, 0); };
  const auto closed = [](Scene& s) {
    s.peer.end(PacketType::reset, proto::wire::kClosingOnPurpose);
  };
  check(State::calling, {"", kNotReady, Status::ok, DropReason::not_connected}, lost);
  check(State::answered, {"", kNotReady, Status::peer_timeout}, lost);
  check(State::ready, {"", kNotReady, Status::peer_timeout}, [&](Scene& s) {
    lost(s);
    s.settle();
    CHECK(s.stats().failure_reason == Reason::gave_up);
  });
  check(State::ready, {"", kNotReady, Status::peer_closed}, closed);
  check(State::failed, {"", kNotReady, Status::peer_timeout}, lost);
}

TEST_CASE("sessions_table__packets_with_a_wrong_mac", "[S22]") {
  const auto with_bad_mac = [](auto&& event) {
    return [event](Scene& s) {
      s.peer.damage_mac = true;
      event(s.peer);
    };
  };
  for (const State state : {State::calling, State::answered, State::ready}) {
    const Expected same{"", state == State::ready, Status::ok, DropReason::bad_mac};
    check(state, same, with_bad_mac([](ScriptedPeer& p) { p.say(PacketType::hello); }));
    check(state, same, with_bad_mac([](ScriptedPeer& p) { p.say(PacketType::welcome); }));
    check(state, same, with_bad_mac([](ScriptedPeer& p) { p.end(PacketType::close); }));
    check(state, same, with_bad_mac([](ScriptedPeer& p) { p.end(PacketType::closed); }));
    check(state, same, with_bad_mac([](ScriptedPeer& p) { p.end(PacketType::reset); }));
    check(state, same, with_bad_mac([](ScriptedPeer& p) { p.challenge(5); }));
  }
  check(State::none, {"", std::nullopt, Status::ok, DropReason::bad_mac},
        with_bad_mac([](ScriptedPeer& p) { p.say(PacketType::hello); }));
}

TEST_CASE("sessions_table__old_sequence_numbers", "[S22]") {
  const auto old = [](auto&& event) {
    return [event](Scene& s) {
      s.peer.sequence -= 2;  // the next packet repeats the last number but one
      event(s.peer);
    };
  };
  const Expected stale{"", kReady, Status::ok, DropReason::stale_session};
  check(State::ready, stale, old([](ScriptedPeer& p) { p.say(PacketType::hello); }));
  check(State::ready, stale, old([](ScriptedPeer& p) { p.say(PacketType::welcome); }));
  check(State::ready, stale, old([](ScriptedPeer& p) { p.end(PacketType::close); }));
  check(State::ready, stale, old([](ScriptedPeer& p) { p.end(PacketType::closed); }));
  check(State::ready, stale, old([](ScriptedPeer& p) { p.end(PacketType::reset); }));
}

TEST_CASE("sessions_table__the_callers_own_events") {
  const auto disconnect = [](Scene& s) {
    CHECK(s.world().endpoint(0).disconnect(s.world().now(), s.id) == Status::ok);
    s.world().wake(0);
  };
  check(State::calling, {"", kNotReady, Status::endpoint_closed}, disconnect);
  check(State::answered, {"", kNotReady, Status::endpoint_closed}, disconnect);
  check(State::ready, {"CLOSE", kNotReady, Status::endpoint_closed}, disconnect);
  check(State::failed, {"", kNotReady, Status::peer_timeout}, disconnect);
  const auto connect = [](Scene& s) {
    const std::vector<std::byte> address = s.peer.address();
    PeerId again{};
    CHECK(s.world().endpoint(0).connect(s.world().now(), address, again) == Status::ok);
    CHECK(again == s.id);
    s.world().wake(0);
  };
  check(State::none, {"HELLO", kNotReady}, connect);
  check(State::calling, {"", kNotReady}, connect);
  check(State::answered, {"HELLO", kNotReady}, connect);
  check(State::ready, {"", kReady}, connect);
  check(State::failed, {"HELLO", kNotReady}, connect);
}

TEST_CASE("sessions_table__time_passes") {
  const auto wait = [](Scene& s) {
    s.world().run_for(milliseconds(400));
    (void)s.peer.heard();
  };
  check(State::calling, {"", kNotReady, Status::peer_unreachable}, wait);
  check(State::answered, {"", kNotReady}, wait);  // no operation here waits for it
  // A receive that waits for it calls it.
  check(State::answered, {"", kNotReady, Status::peer_unreachable}, [&](Scene& s) {
    s.post_receive();
    wait(s);
  });
  check(State::ready, {"", kReady}, wait);
  check(State::ready, {"", kNotReady, Status::peer_timeout}, [&](Scene& s) {
    s.post_receive();
    wait(s);
  });
}

// The program connects by an address of the peer's older process, which had another number of NICs.
// The peer's own word counts as soon as it shows that it heard this end.
TEST_CASE("sessions_table__connect_while_answered_with_an_older_address", "[S18]") {
  Scene scene(State::answered);
  const ScriptedPeer old_first(scene.world(), 0, 7);
  std::vector<std::byte> address = scene.peer.address();
  // The same endpoint with the NIC of the older process before its own.
  const std::vector<std::byte> old = old_first.address();
  const std::size_t head = address.size() - sizeof(proto::wire::NicRecord);
  std::vector<std::byte> stale(address.begin(), address.begin() + static_cast<long>(head));
  stale.insert(stale.end(), old.begin() + static_cast<long>(head), old.end());
  stale.insert(stale.end(), address.begin() + static_cast<long>(head), address.end());
  const std::uint32_t nics = 2;
  std::memcpy(stale.data() + 24, &nics, sizeof nics);
  proto::wire::NicRecord second;
  std::memcpy(&second, stale.data() + stale.size() - sizeof second, sizeof second);
  second.index = 1;
  std::memcpy(stale.data() + stale.size() - sizeof second, &second, sizeof second);
  PeerId id{};
  REQUIRE(scene.world().endpoint(0).connect(scene.world().now(), stale, id) == Status::ok);
  scene.world().wake(0);
  scene.settle();
  scene.peer.echo = true;
  scene.peer.say(PacketType::welcome);
  scene.settle();
  CHECK(scene.stats().established);
  REQUIRE(scene.stats().paths.size() == 1);
  (void)scene.peer.heard();
  const std::uint64_t sent = scene.world().stats(0).path_probes_sent;
  scene.post_receive();
  scene.world().run_for(milliseconds(200));  // it asks the silent peer whether it lives
  CHECK(scene.world().stats(0).path_probes_sent > sent);
  CHECK(scene.peer.heard() != "");
}

TEST_CASE("sessions_table__an_address_is_learned_from_who_knows_our_token_only", "[S18]") {
  for (const bool echoes : {false, true}) {
    Scene scene(State::ready);
    ScriptedPeer elsewhere(scene.world(), 0, 5);
    scene.peer.pretended = elsewhere.nic_address();
    scene.peer.echo = echoes;
    scene.peer.say(PacketType::hello);
    scene.settle();
    // The endpoint would send everything to the address that gets the WELCOME.
    CHECK(scene.peer.heard() == (echoes ? "" : "WELCOME"));
    CHECK(elsewhere.heard() == (echoes ? "WELCOME" : ""));
    CHECK(scene.world().stats(0).paths_down == (echoes ? 1 : 0));
    CHECK(scene.world().stats(0).paths_returned == 0);  // no probe of it was answered
  }
}

// A NIC that moved and takes smaller datagrams than the session's fragments is of no use. The
// endpoint doesn't even probe it at once, as it would probe one that fits.
TEST_CASE("sessions_table__a_nic_that_takes_too_little_stays_down", "[S20]") {
  for (const bool fits : {true, false}) {
    Scene scene(State::ready);
    const ScriptedPeer other(scene.world(), 0, kPeerId + 1);  // says nothing
    scene.peer.echo = true;
    scene.peer.pretended = other.nic_address();
    if (!fits) scene.peer.max_datagram = 1024 / 8;
    const std::uint64_t probes = scene.world().stats(0).path_probes_sent;
    scene.peer.say(PacketType::hello);
    scene.settle();
    CHECK((scene.world().stats(0).path_probes_sent > probes) == fits);
    scene.world().run_for(milliseconds(3000));
    REQUIRE(scene.stats().paths.size() == 1);
    CHECK(scene.stats().paths[0].state == PathState::down);
    CHECK(scene.world().stats(0).paths_down == 1);
    CHECK(scene.world().stats(0).paths_returned == 0);
  }
}

}  // namespace
}  // namespace hawser::test
