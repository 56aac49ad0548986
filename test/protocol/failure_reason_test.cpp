// SPDX-License-Identifier: Apache-2.0
// Why an endpoint gave its peer up, as far as it can know. The event and the peer's statistics
// agree.
#include <catch2/catch.hpp>

#include <algorithm>

#include "test/support/virtual_world.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::milliseconds;

constexpr proto::Duration kLong = milliseconds(10'000);

// Drops the packets of a node while its `is_mute` is true.
struct Mute {
  std::array<bool, 2> is_mute{};
};

WorldConfig impatient(Mute& mute) {
  WorldConfig config = tiny_world();
  config.nics = 2;
  config.tunables.peer_timeout_ms = 500;
  config.hook = [&mute](std::uint32_t node, std::uint32_t,
                        const FaultPacket& packet) -> std::optional<Fate> {
    const bool lost = packet.direction == Direction::tx && mute.is_mute[node];
    return lost ? std::optional(Fate{.drop = true}) : std::nullopt;
  };
  return config;
}

void check_failure(World& world, std::uint32_t node, Status status, Reason reason) {
  const auto& events = world.events(node);
  const auto is_there = [&] {
    return std::ranges::count(events, Event::Kind::peer_failed, &Event::kind) > 0;
  };
  REQUIRE(world.run_until(is_there, kLong));
  const auto event = std::ranges::find(events, Event::Kind::peer_failed, &Event::kind);
  CHECK(event->status == status);
  CHECK(event->reason == reason);
  const PeerStats stats = world.peer_stats(node, 1 - node);
  CHECK(stats.failure == status);
  CHECK(stats.failure_reason == reason);
}

TEST_CASE("failure_reason__of_a_peer_that_never_said_anything", "[F6]") {
  Mute mute;
  World world(impatient(mute));
  SECTION("there is nobody") {
    mute.is_mute = {true, true};
    world.connect_all();
    check_failure(world, 0, Status::peer_unreachable, Reason::never_heard);
  }
  SECTION("it calls, and hears no answer") {
    mute.is_mute[0] = true;
    world.connect_all();
    check_failure(world, 0, Status::peer_unreachable, Reason::one_way);
    check_failure(world, 1, Status::peer_unreachable, Reason::never_heard);
  }
}

TEST_CASE("failure_reason__of_a_peer_with_another_job_secret", "[F6]") {
  Mute mute;
  WorldConfig config = impatient(mute);
  config.secrets = {"one", "another"};
  World world(config);
  world.connect_all();
  check_failure(world, 0, Status::peer_unreachable, Reason::never_heard);
}

TEST_CASE("failure_reason__of_a_peer_to_which_no_driver_finds_a_way", "[F6]") {
  Mute mute;
  WorldConfig config = impatient(mute);
  config.knows_way = [](std::uint32_t, std::uint32_t, const proto::NicAddress&) { return false; };
  World world(config);
  world.connect_all();
  check_failure(world, 0, Status::peer_unreachable, Reason::no_way);
}

TEST_CASE("failure_reason__of_a_session_that_was_ready", "[F6]") {
  Mute mute;
  World world(impatient(mute));
  world.connect_all();
  world.run_for(milliseconds(20));
  std::string buffer(100, ' ');
  const std::string bytes(100, 'a');
  (void)world.receive(1, world.peer(1, 0), 1, buffer);
  SECTION("the peer has gone") {
    mute.is_mute[1] = true;
    (void)world.send(0, 1, 1, bytes);
    check_failure(world, 0, Status::peer_timeout, Reason::unheard);
  }
  SECTION("what is sent to it is lost, and it is heard") {
    mute.is_mute[0] = true;
    (void)world.send(0, 1, 1, bytes);
    check_failure(world, 0, Status::peer_timeout, Reason::one_way);
    check_failure(world, 1, Status::peer_timeout, Reason::unheard);
  }
  SECTION("it had all that was sent, and dies while messages wait for receives") {
    (void)world.send(0, 1, 2, bytes, {.level = Level::delivered});
    world.run_for(milliseconds(2000));
    mute.is_mute = {true, true};
    check_failure(world, 0, Status::peer_timeout, Reason::unheard);
  }
  SECTION("all NICs of this end are down") {
    (void)world.send(0, 1, 1, bytes);
    world.apply(0, "kill:event");
    check_failure(world, 0, Status::peer_timeout, Reason::nics_down);
  }
  SECTION("it closes") {
    world.close(1);
    check_failure(world, 0, Status::peer_closed, Reason::status);
  }
}

// The record of a peer at rest keeps the reason.
TEST_CASE("failure_reason__is_known_of_a_peer_at_rest", "[F6]") {
  Mute mute;
  WorldConfig config = impatient(mute);
  config.tunables.rest_after_ms = 1000;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(20));
  const std::string bytes(100, 'a');
  mute.is_mute[1] = true;
  (void)world.send(0, 1, 1, bytes);
  check_failure(world, 0, Status::peer_timeout, Reason::unheard);
  REQUIRE(world.run_until([&] { return world.peer_stats(0, 1).at_rest; }, kLong));
  CHECK(world.peer_stats(0, 1).failure == Status::peer_timeout);
  CHECK(world.peer_stats(0, 1).failure_reason == Reason::unheard);
}

// After a session has ended, `probe` and `claim` return the same status as `receive`. Nobody waits
// for a message that can't come.
TEST_CASE("failure_reason__probe_and_claim_say_that_nothing_will_come", "[F6]") {
  Mute mute;
  World world(impatient(mute));
  world.connect_all();
  world.run_for(milliseconds(20));
  const std::string bytes(100, 'a');
  (void)world.send(1, 0, 1, bytes);
  REQUIRE(world.run_until_completed(1, 1, kLong));
  const PeerId peer = world.peer(0, 1);
  proto::Endpoint& endpoint = world.endpoint(0);
  Envelope envelope;
  MessageId message = kNoMessage;
  CHECK(endpoint.probe(peer, 0, 2, ~std::uint64_t{0}, envelope) == Status::again);
  world.close(1);
  check_failure(world, 0, Status::peer_closed, Reason::status);
  // Messages that the peer has delivered stay.
  CHECK(endpoint.probe(peer, 0, 1, ~std::uint64_t{0}, envelope) == Status::ok);
  CHECK(endpoint.probe(peer, 0, 2, ~std::uint64_t{0}, envelope) == Status::peer_closed);
  CHECK(endpoint.claim(peer, 0, 2, ~std::uint64_t{0}, envelope, message) == Status::peer_closed);
  CHECK(endpoint.probe(kAnyPeer, 0, 2, ~std::uint64_t{0}, envelope) == Status::again);
  world.close(0);
  CHECK(endpoint.probe(kAnyPeer, 0, 2, ~std::uint64_t{0}, envelope) == Status::endpoint_closed);
  CHECK(endpoint.claim(peer, 0, 1, ~std::uint64_t{0}, envelope, message) ==
        Status::endpoint_closed);
}

// One end gave the other up because it did not hear it. The other end is told so, not that its peer
// restarted, and learns it once the way is open again.
TEST_CASE("failure_reason__of_a_session_that_the_peer_gave_up", "[F6]") {
  Mute mute;
  WorldConfig config = impatient(mute);
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  mute.is_mute[0] = true;
  proto::ReceiveRequest request;
  request.peer = world.peer(1, 0);
  REQUIRE(world.post(1, request) == Status::ok);
  check_failure(world, 1, Status::peer_timeout, Reason::unheard);
  CHECK(world.stats(0).peer_failures == 0);
  mute.is_mute[0] = false;
  request.peer = world.peer(0, 1);
  REQUIRE(world.post(0, request) == Status::ok);
  check_failure(world, 0, Status::peer_timeout, Reason::gave_up);
}

}  // namespace
}  // namespace hawser::test
