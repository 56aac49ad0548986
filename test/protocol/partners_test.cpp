// SPDX-License-Identifier: Apache-2.0
// Partners that come and go. A long-lived endpoint serves any number of them, max_peers at a time.
// A partner that has left gives its place to a newcomer; nobody gets its PeerId.
#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "test/protocol/partners.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

TEST_CASE("partners__many_more_than_places_are_served_one_after_the_other", "[S29]") {
  serve_in_turn(400);
}

// The same from the calling side, which disconnects from each.
TEST_CASE("partners__many_more_than_places_are_called_one_after_the_other", "[S29]") {
  World world(server_and(1, 4));
  std::string bytes(8, 'x');
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::string buffer(8, '\0');
    const OperationId receive = world.receive(1, kAnyPeer, i, buffer);
    const OperationId send = world.send(kServer, 1, i, bytes);
    REQUIRE(world.run_until(
        [&] {
          return world.completion(1, receive) != nullptr &&
                 world.completion(kServer, send) != nullptr;
        },
        milliseconds(450)));
    REQUIRE(world.completion(kServer, send)->status == Status::ok);
    world.disconnect(kServer, 1);
    world.run_for(milliseconds(1));
    world.replace(1);
  }
}

// Ten partners at a time share sixteen places.
TEST_CASE("partners__several_at_a_time_come_and_go", "[S29]") {
  World world(server_and(10, 16));
  std::uint64_t tag = 0;
  for (int round = 0; round < 20; ++round) {
    for (std::uint32_t client = 1; client <= 10; ++client) {
      REQUIRE(serve(world, client, ++tag).has_value());
    }
    for (std::uint32_t client = 1; client <= 10; ++client) leave(world, client);
  }
}

// All clients call at one moment, and each gets the place of a partner that has left.
TEST_CASE("partners__that_come_together_take_no_place_from_each_other", "[S29]") {
  constexpr std::uint32_t kClients = 10;
  World world(server_and(kClients, 12));
  std::uint64_t tag = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    REQUIRE(serve(world, 1, ++tag).has_value());
    leave(world, 1);
  }
  for (int round = 0; round < 10; ++round) {
    std::vector<std::string> in(kClients, std::string(8, ' '));
    const std::string out = "together";
    const std::size_t first = world.completions(kServer).size();
    for (std::uint32_t i = 0; i < kClients; ++i) {
      (void)world.receive(kServer, kAnyPeer, ++tag, in[i]);
      (void)world.send(1 + i, kServer, tag, out);
    }
    REQUIRE(world.run_until_completed(kServer, first + kClients, milliseconds(450)));
    for (const std::string& message : in) CHECK(message == out);
    for (std::uint32_t i = 0; i < kClients; ++i) leave(world, 1 + i);
  }
}

// More clients call at one moment than there are places. Those that hear the answer late keep their
// places. Each client is served, or learns that there is no place.
TEST_CASE("partners__that_are_too_many_are_told_so", "[S12][S31]") {
  constexpr std::uint32_t kClients = 12;
  World world(server_and(kClients, 8));
  const std::string out = "together";
  std::vector<std::string> in(kClients, std::string(8, ' '));
  std::vector<OperationId> sends;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    (void)world.receive(kServer, kAnyPeer, 1, in[i]);
    sends.push_back(world.send(1 + i, kServer, 1, out));
  }
  // The clients that had to prove their addresses have done so.
  REQUIRE(world.run_until([&] { return world.stats(kServer).calls_refused > 0; }, milliseconds(1)));
  for (std::uint32_t client = 1; client <= 8; ++client) {
    world.set_lateness(client, milliseconds(3));
  }
  world.run_for(milliseconds(1500));
  std::size_t served = 0;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    const Completion* completion = world.completion(1 + i, sends[i]);
    REQUIRE(completion != nullptr);
    INFO("client " << i << ": " << to_string(completion->status));
    served += completion->status == Status::ok;
    CHECK(completion->status == (i < 8 ? Status::ok : Status::peer_full));
  }
  CHECK(served == 8);
}

// Nine clients at a time come to five places, over ways that lose one packet in ten. Some clients
// hear their answers late. A client that was answered keeps its place until it has had time to call
// again.
TEST_CASE("partners__that_crowd_a_server_over_lossy_ways_lose_no_session", "[S12]") {
  constexpr std::uint32_t kClients = 9;
  const std::string out = "together";
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WorldConfig config = server_and(kClients, 5);
    config.tunables.peer_timeout_ms = 1000;
    config.faults = "loss=0.1,delay=100us,seed=" + std::to_string(seed);
    World world(config);
    std::vector<std::string> in(kClients * 4, std::string(8, ' '));
    for (std::string& message : in) (void)world.receive(kServer, kAnyPeer, 1, message);
    std::vector<OperationId> sends(1 + kClients, kNoOperation);
    std::vector<int> rounds(1 + kClients);
    const auto come_or_leave = [&](std::uint32_t client) {
      if (sends[client] == kNoOperation) {
        world.set_lateness(client, milliseconds((client * 7 + seed) % 5 * 3));
        sends[client] = world.send(client, kServer, 1, out);
        return;
      }
      const Completion* completion = world.completion(client, sends[client]);
      if (completion == nullptr) return;
      INFO("seed " << seed << ", client " << client << ": " << to_string(completion->status));
      CHECK((completion->status == Status::ok || completion->status == Status::peer_full));
      sends[client] = kNoOperation;
      ++rounds[client];
      leave(world, client);
    };
    const auto is_done = [&] {
      return std::accumulate(rounds.begin(), rounds.end(), 0) == 4 * kClients;
    };
    for (int ms = 0; ms < 20000 && !is_done(); ++ms) {
      for (std::uint32_t client = 1; client <= kClients; ++client) {
        if (rounds[client] < 4) come_or_leave(client);
      }
      world.run_for(milliseconds(1));
    }
    CHECK(is_done());
  }
}

// Sixteen clients at a time come to four places. They hear the answer long after their first calls,
// because the way is long or because their programs poll rarely.
TEST_CASE("partners__that_are_slow_lose_no_session_at_a_crowded_server", "[S12]") {
  constexpr std::uint32_t kClients = 16;
  const bool is_far = GENERATE(false, true);
  INFO((is_far ? "far" : "rarely polled"));
  WorldConfig config = server_and(kClients, 4);
  config.tunables.peer_timeout_ms = 8000;
  config.tunables.close_timeout_ms = 1000;
  if (is_far) config.faults = "delay=150ms,seed=1";
  World world(config);
  std::vector<std::string> in(kClients * 2, std::string(8, ' '));
  for (std::string& message : in) (void)world.receive(kServer, kAnyPeer, 1, message);
  const std::string out = "together";
  std::vector<OperationId> sends(1 + kClients, kNoOperation);
  std::vector<int> rounds(1 + kClients);
  for (std::uint32_t client = 1; client <= kClients; ++client) {
    if (!is_far) world.set_lateness(client, milliseconds(100 + 12 * client));
    sends[client] = world.send(client, kServer, 1, out);
  }
  const auto is_done = [&] {
    return std::accumulate(rounds.begin(), rounds.end(), 0) == 2 * kClients;
  };
  for (int ms = 0; ms < 40000 && !is_done(); ms += 10) {
    for (std::uint32_t client = 1; client <= kClients; ++client) {
      const Completion* completion = world.completion(client, sends[client]);
      if (completion == nullptr || rounds[client] == 2) continue;
      INFO("client " << client);
      CHECK(completion->status == Status::ok);
      leave(world, client);
      if (!is_far) world.set_lateness(client, milliseconds(100 + 12 * client));
      if (++rounds[client] < 2) sends[client] = world.send(client, kServer, 1, out);
    }
    world.run_for(milliseconds(10));
  }
  CHECK(is_done());
}

// The clients vanish silently. When no place is left, the server probes those that have long been
// silent. A newcomer gets the place of one that doesn't answer.
TEST_CASE("partners__that_died_without_a_word_give_their_places", "[S30]") {
  const bool rests = GENERATE(false, true);
  constexpr std::uint32_t kPlaces = 4;
  WorldConfig config = server_and(kPlaces + 1, kPlaces);
  config.tunables.rest_after_ms = rests ? 20 : 10'000;
  World world(config);
  std::uint64_t tag = 0;
  for (std::uint32_t client = 1; client <= kPlaces; ++client) {
    REQUIRE(serve(world, client, ++tag).has_value());
    if (client != 2) world.crash(client, false);  // client 2 lives
  }
  world.run_for(milliseconds(600));
  const auto newcomer = serve(world, kPlaces + 1, ++tag);
  REQUIRE(newcomer.has_value());
  // The server probed the living client, which has stayed.
  CHECK(serve(world, 2, ++tag).has_value());
}

// All partners die at one moment, and newcomers call at the next. They get the places, although
// they are refused at first.
TEST_CASE("partners__that_died_as_others_called_give_their_places", "[S30][S31]") {
  constexpr std::uint32_t kPlaces = 4;
  const std::uint32_t newcomers = GENERATE(1u, 4u);
  WorldConfig config = server_and(2 * kPlaces, kPlaces);
  World world(config);
  std::uint64_t tag = 0;
  for (std::uint32_t client = 1; client <= kPlaces; ++client) {
    REQUIRE(serve(world, client, ++tag).has_value());
  }
  for (std::uint32_t client = 1; client <= kPlaces; ++client) world.crash(client, false);
  const std::string out = "together";
  std::vector<std::string> in(newcomers, std::string(8, ' '));
  const std::size_t first = world.completions(kServer).size();
  for (std::uint32_t i = 0; i < newcomers; ++i) {
    (void)world.receive(kServer, kAnyPeer, ++tag, in[i]);
    (void)world.send(kPlaces + 1 + i, kServer, tag, out);
  }
  REQUIRE(world.run_until_completed(kServer, first + newcomers, milliseconds(625)));
  for (const std::string& message : in) CHECK(message == out);
  CHECK(world.stats(kServer).calls_refused > 0);
}

// A place becomes free at the last moment of the newcomer's calls.
TEST_CASE("partners__that_leave_last_give_their_places_to_who_still_calls", "[S31]") {
  for_each_seed(20, [](proto::Random& random) {
    constexpr std::uint32_t kPlaces = 2;
    WorldConfig config = server_and(kPlaces + 1, kPlaces);
    config.seed = random.next();
    World world(config);
    std::uint64_t tag = 0;
    for (std::uint32_t client = 1; client <= kPlaces; ++client) {
      REQUIRE(serve(world, client, ++tag).has_value());
    }
    std::string in(4, ' ');
    const std::string out = "late";
    (void)world.receive(kServer, kAnyPeer, ++tag, in);
    const OperationId send = world.send(kPlaces + 1, kServer, tag, out);
    world.run_for(milliseconds(624));  // of the 625 ms for which the newcomer calls
    REQUIRE(world.completion(kPlaces + 1, send) == nullptr);
    world.close(1);
    REQUIRE(world.run_until([&] { return world.completion(kPlaces + 1, send) != nullptr; },
                            milliseconds(100)));
    CHECK(world.completion(kPlaces + 1, send)->status == Status::ok);
  });
}

// A known partner came back, and died before it heard the answer. No operation waits for it here,
// and no timer checks it.
TEST_CASE("partners__that_died_as_they_came_back_give_their_places", "[S30]") {
  constexpr std::uint32_t kPlaces = 4;
  World world(server_and(kPlaces + 1, kPlaces));
  std::uint64_t tag = 0;
  for (std::uint32_t client = 1; client <= kPlaces; ++client) {
    REQUIRE(serve(world, client, ++tag).has_value());
  }
  world.crash(1, true);
  const std::string out = "back";
  (void)world.send(1, kServer, ++tag, out);
  // The time of a call, the challenge, and the call with the cookie. The answer comes too late.
  world.run_for(proto::microseconds(19));
  world.crash(1, false);
  world.run_for(milliseconds(1));
  const std::vector<Event>& events = world.events(kServer);
  const auto restarted = std::ranges::find(events, Status::peer_restarted, &Event::status);
  REQUIRE(restarted != events.end());
  world.run_for(milliseconds(600));
  REQUIRE(std::ranges::find(events, Status::peer_unreachable, &Event::status) == events.end());
  CHECK(serve(world, kPlaces + 1, ++tag).has_value());
  for (std::uint32_t client = 2; client <= kPlaces; ++client) {
    CHECK(serve(world, client, ++tag).has_value());
  }
}

// A known client calls again, and dies before it hears the answer. No operation waits for it here,
// and a newcomer gets its place.
TEST_CASE("partners__that_died_while_they_were_answered_give_their_places", "[S29]") {
  World world(server_and(3, 2));
  std::uint64_t tag = 0;
  for (std::uint32_t client = 1; client <= 2; ++client) {
    REQUIRE(serve(world, client, ++tag).has_value());
  }
  world.disconnect(kServer, 1);
  world.run_for(milliseconds(10));
  const std::uint64_t answers = world.stats(kServer).handshakes_sent;
  const std::string bytes = "not heard";
  world.reconnect(1, kServer);
  (void)world.send(1, kServer, ++tag, bytes);
  REQUIRE(world.run_until([&] { return world.stats(kServer).handshakes_sent > answers; },
                          milliseconds(100)));
  world.crash(1, false);
  world.run_for(milliseconds(600));
  CHECK(serve(world, 3, ++tag).has_value());
  CHECK(serve(world, 2, ++tag).has_value());
}

// All partners live. A newcomer is refused, and no partner suffers.
TEST_CASE("partners__that_live_keep_their_places", "[S30][S31]") {
  constexpr std::uint32_t kPlaces = 4;
  World world(server_and(kPlaces + 1, kPlaces));
  std::uint64_t tag = 0;
  for (std::uint32_t client = 1; client <= kPlaces; ++client) {
    REQUIRE(serve(world, client, ++tag).has_value());
  }
  world.run_for(milliseconds(600));
  const std::size_t before = world.events(kServer).size();
  CHECK_FALSE(serve(world, kPlaces + 1, ++tag).has_value());
  world.run_for(milliseconds(600));
  // Both ends learn the reason: the caller once, by a status, and the other end at most once a
  // second.
  const auto failed =
      std::ranges::find(world.events(kPlaces + 1), Event::Kind::peer_failed, &Event::kind);
  REQUIRE(failed != world.events(kPlaces + 1).end());
  CHECK(failed->status == Status::peer_full);
  std::size_t told = 0;
  for (std::size_t i = before; i < world.events(kServer).size(); ++i) {
    const Event& event = world.events(kServer)[i];
    CHECK(event.kind != Event::Kind::peer_failed);
    if (event.kind != Event::Kind::peer_refused) continue;
    ++told;
    CHECK(event.reason == Reason::no_place);
    CHECK(event.endpoint_id == kPlaces + 2);
    CHECK(event.peer == kAnyPeer);
  }
  CHECK(told == 1);
  CHECK(world.stats(kServer).calls_refused > 1);
  for (std::uint32_t client = 1; client <= kPlaces; ++client) {
    CHECK(serve(world, client, ++tag).has_value());
  }
}

// Each newcomer gets the place of the peer that left the longest time ago.
TEST_CASE("partners__that_left_first_give_their_places_first", "[S29]") {
  constexpr std::uint32_t kPlaces = 4;
  World world(server_and(2 * kPlaces, kPlaces));
  std::vector<std::uint32_t> places;
  for (std::uint32_t client = 1; client <= kPlaces; ++client) {
    const auto peer = serve(world, client, client);
    REQUIRE(peer.has_value());
    places.push_back(peer_place(*peer));
  }
  const std::uint32_t order[] = {3, 1, 4, 2};
  for (const std::uint32_t client : order) leave(world, client);
  for (std::uint32_t i = 0; i < kPlaces; ++i) {
    const auto peer = serve(world, kPlaces + 1 + i, 100 + i);
    REQUIRE(peer.has_value());
    CHECK(peer_place(*peer) == places[order[i] - 1]);
  }
}

// A delivered message that was not received keeps its sender's place and PeerId.
TEST_CASE("partners__what_they_left_keeps_their_places", "[S29]") {
  const bool claims = GENERATE(false, true);
  constexpr std::uint32_t kPlaces = 4;
  World world(server_and(kPlaces, kPlaces));
  const std::string bytes = "left behind";
  const OperationId send = world.send(1, kServer, 7, bytes);
  REQUIRE(world.run_until([&] { return world.completion(1, send) != nullptr; }, milliseconds(400)));
  REQUIRE(world.completion(1, send)->status == Status::ok);
  Envelope envelope;
  MessageId message = kNoMessage;
  if (claims) {
    REQUIRE(world.endpoint(kServer).claim(kAnyPeer, 0, 7, kWholeTag, envelope, message) ==
            Status::ok);
  } else {
    REQUIRE(world.endpoint(kServer).probe(kAnyPeer, 0, 7, kWholeTag, envelope) == Status::ok);
  }
  leave(world, 1);
  for (std::uint32_t i = 0; i < 5 * kPlaces; ++i) {
    const auto peer = serve(world, 1, 100 + i);
    REQUIRE(peer.has_value());
    REQUIRE(peer_place(*peer) != peer_place(envelope.peer));
    leave(world, 1);
  }
  std::string buffer(bytes.size(), '\0');
  proto::ReceiveRequest request;
  request.peer = envelope.peer;
  request.tag = 7;
  request.claimed = message;
  request.data = reinterpret_cast<std::byte*>(buffer.data());
  request.bytes = buffer.size();
  REQUIRE(world.post(kServer, request) == Status::ok);
  REQUIRE(world.run_until([&] { return world.completion(kServer, request.operation) != nullptr; },
                          milliseconds(100)));
  CHECK(buffer == bytes);
  // Now the place is as free as any other.
  for (std::uint32_t client = 1; client <= kPlaces; ++client) {
    CHECK(serve(world, client, 200 + client).has_value());
  }
}

}  // namespace
}  // namespace hawser::test
