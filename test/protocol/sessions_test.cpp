// SPDX-License-Identifier: Apache-2.0
// Sessions: made under any loss, between the right peers only, ended and made again.
#include <array>
#include <catch2/catch.hpp>
#include <utility>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::milliseconds;
using proto::Time;
using proto::wire::PacketType;

bool is_handshake(const FaultPacket& packet) {
  if (packet.direction != engine::Direction::tx) return false;
  const PacketType type = view_of(packet).type;
  return type == PacketType::hello || type == PacketType::welcome;
}

// A small exchange in both directions, all ok.
void talk(World& world, std::uint32_t a, std::uint32_t b, proto::Duration limit) {
  Exchange exchange(world);
  exchange.ignore_what_was();
  (void)exchange.receive(b, a, 1, 100000);
  (void)exchange.receive(a, b, 2, 1000);
  (void)exchange.send(a, b, 1, 100000);
  (void)exchange.send(b, a, 2, 1000);
  REQUIRE(exchange.run(limit));
  exchange.check_all_ok();
}

TEST_CASE("sessions__is_made_by_either_side_or_both_at_once", "[S7]") {
  for (const int who : {0, 1, 2}) {
    World world({});
    if (who != 1) (void)world.peer(0, 1);
    if (who != 0) (void)world.peer(1, 0);
    world.run_for(milliseconds(5));
    talk(world, 0, 1, milliseconds(50));
    CHECK(world.stats(0).sessions_established == 1);
    CHECK(world.stats(1).sessions_established == 1);
    CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
  }
}

TEST_CASE("sessions__is_made_whatever_handshakes_are_lost_doubled_or_late", "[S7]") {
  for_each_seed(200, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 1 + static_cast<std::uint32_t>(random.below(2));
    config.seed = random.next();
    config.tunables.handshake_retry_us = 2000;
    config.hook = [&](std::uint32_t, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (!is_handshake(packet)) return {};
      Fate fate;
      fate.drop = random.chance(0.5);
      fate.duplicate = random.chance(0.3);
      fate.delay = proto::microseconds(5 + random.below(random.chance(0.3) ? 30000 : 50));
      return fate;
    };
    World world(config);
    if (random.chance(0.7)) (void)world.peer(0, 1);
    if (random.chance(0.7)) (void)world.peer(1, 0);
    if (random.chance(0.5)) world.run_for(milliseconds(random.below(20)));
    talk(world, 0, 1, milliseconds(4000));
    world.run_for(milliseconds(100));
    CHECK(world.stats(0).sessions_established == 1);
    CHECK(world.stats(1).sessions_established == 1);
    CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
  });
}

TEST_CASE("sessions__with_somebody_who_is_not_there_ends_as_unreachable", "[F1]") {
  WorldConfig config;
  config.nodes = 3;
  config.tunables.peer_timeout_ms = 300;
  World world(config);
  (void)world.peer(0, 1);
  world.crash(1, false);
  Exchange exchange(world);
  (void)exchange.receive(0, 1, 1, 100);
  (void)exchange.receive(0, kAnyNode, 2, 100);
  (void)exchange.send(0, 1, 1, 100);
  (void)exchange.send(2, 0, 2, 100);
  const Time start = world.now();
  REQUIRE(exchange.run(milliseconds(500)));
  CHECK((world.now() - start).ns > milliseconds(280).ns);
  CHECK(exchange.sent(0).completion->status == Status::peer_unreachable);
  CHECK(exchange.received(0).completion->status == Status::peer_unreachable);
  CHECK(exchange.received(1).completion->status == Status::ok);
  CHECK(exchange.sent(1).completion->status == Status::ok);
  proto::SendRequest request;
  request.peer = world.peer(0, 1);
  CHECK(world.post(0, request) == Status::peer_unreachable);
  exchange.check_quiet();
}

TEST_CASE("sessions__with_another_job_secret_is_never_made") {
  WorldConfig config;
  config.secrets = {"one secret", "another one"};
  config.tunables.peer_timeout_ms = 300;
  World world(config);
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100);
  (void)exchange.send(1, 0, 1, 100);
  REQUIRE(exchange.run(milliseconds(500)));
  for (const std::uint32_t node : {0, 1}) {
    CHECK(exchange.sent(node).completion->status == Status::peer_unreachable);
    CHECK(world.drops(node, DropReason::bad_mac) > 0);
    CHECK(world.stats(node).sessions_established == 0);
  }
}

TEST_CASE("sessions__with_the_same_job_secret_is_made") {
  WorldConfig config;
  config.secrets = {"one secret", "one secret"};
  World world(config);
  talk(world, 0, 1, milliseconds(50));
  CHECK(world.drops(0, DropReason::bad_mac) == 0);
}

TEST_CASE("sessions__a_restarted_peer_is_a_new_one") {
  for (const bool it_speaks_first : {true, false}) {
    INFO((it_speaks_first ? "it" : "the survivor") << " speaks first");
    WorldConfig config;
    config.nodes = 3;
    config.tunables.peer_timeout_ms = 300;
    World world(config);
    world.connect_all();
    talk(world, 0, 1, milliseconds(50));
    Exchange exchange(world);
    exchange.ignore_what_was();
    (void)exchange.receive(0, 1, 1, 100);
    (void)exchange.send(0, 1, 7, 100, {.level = Level::delivered});
    (void)exchange.receive(0, 2, 1, 100);
    (void)exchange.receive(0, kAnyNode, 2, 100);
    world.run_for(milliseconds(5));
    world.crash(1, true);
    if (it_speaks_first) (void)world.peer(1, 0);
    const Time crashed = world.now();
    REQUIRE(exchange.run_until(
        [&] { return exchange.received(0).completion && exchange.sent(0).completion; },
        milliseconds(400)));
    const Status expected = it_speaks_first ? Status::peer_restarted : Status::peer_timeout;
    CHECK(exchange.received(0).completion->status == expected);
    CHECK(exchange.sent(0).completion->status == expected);
    CHECK((world.now() - crashed).ns < (it_speaks_first ? milliseconds(50) : milliseconds(400)).ns);
    // Other peers are not affected, and receives from any peer keep waiting.
    CHECK_FALSE(exchange.received(1).completion.has_value());
    CHECK_FALSE(exchange.received(2).completion.has_value());
    (void)exchange.send(2, 0, 1, 100);
    (void)exchange.send(2, 0, 2, 100);
    REQUIRE(exchange.run(milliseconds(100)));
    world.reconnect(0, 1);
    talk(world, 0, 1, milliseconds(100));
    talk(world, 1, 0, milliseconds(100));
  }
}

// The program hears from elsewhere that the peer has restarted.
TEST_CASE("sessions__connect_with_the_address_of_a_later_process_ends_the_one_before") {
  WorldConfig config;
  config.nodes = 2;
  World world(config);
  world.connect_all();
  talk(world, 0, 1, milliseconds(50));
  Exchange exchange(world);
  exchange.ignore_what_was();
  (void)exchange.receive(0, 1, 1, 100);
  (void)exchange.send(0, 1, 7, 100, {.level = Level::delivered});
  const PeerId before = world.peer(0, 1);
  world.reconnect(0, 1);  // the same process: nothing ends
  world.run_for(milliseconds(5));
  CHECK_FALSE(exchange.sent(0).completion.has_value());
  world.crash(1, true);
  world.reconnect(0, 1);
  REQUIRE(exchange.run_until(
      [&] { return exchange.received(0).completion && exchange.sent(0).completion; },
      proto::microseconds(10)));
  CHECK(exchange.received(0).completion->status == Status::peer_restarted);
  CHECK(exchange.sent(0).completion->status == Status::peer_restarted);
  CHECK(world.peer(0, 1) == before);
  talk(world, 0, 1, milliseconds(5));
  talk(world, 1, 0, milliseconds(5));
  CHECK(world.stats(0).peer_failures == 1);
}

// The wall clock of the peer's host went back before the peer started again.
TEST_CASE("sessions__a_peer_that_is_restarted_with_an_older_epoch_gets_in", "[S34][S35]") {
  for (const bool it_calls : {true, false}) {
    INFO((it_calls ? "it" : "the survivor") << " calls");
    WorldConfig config;
    config.clocks_go_back = true;
    config.tunables.peer_timeout_ms = 300;
    World world(config);
    world.connect_all();
    talk(world, 0, 1, milliseconds(50));
    world.crash(1, true);
    if (it_calls) {
      // No operation at node 0 waits for the peer, and the session lives as far as node 0 knows. It
      // ends after a peer timeout, and the caller gives up after one of its own.
      world.run_for(milliseconds(60));
      Exchange exchange(world);
      exchange.ignore_what_was();
      (void)exchange.receive(0, kAnyNode, 1, 100);
      (void)exchange.send(1, 0, 1, 100);
      REQUIRE(exchange.run(milliseconds(290)));
      exchange.check_all_ok();
    } else {
      std::string nothing(1, ' ');
      (void)world.receive(0, world.peer(0, 1), 9, nothing);
      world.run_for(milliseconds(400));
      world.reconnect(0, 1);
      talk(world, 0, 1, milliseconds(100));
    }
    talk(world, 0, 1, milliseconds(50));
    talk(world, 1, 0, milliseconds(50));
  }
}

TEST_CASE("sessions__a_crashed_peer_fails_its_own_operations_only") {
  WorldConfig config;
  config.nodes = 4;
  config.nics = 2;
  config.tunables.peer_timeout_ms = 500;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  (void)exchange.receive(0, 1, 1, 1000);                           // 0
  (void)exchange.receive(0, kAnyNode, 2, 1000);                    // 1
  (void)exchange.receive(0, 2, 3, 1000);                           // 2
  (void)exchange.send(0, 1, 1, 10000000);                          // 0: in the middle of it
  (void)exchange.send(0, 1, 2, 100, {.level = Level::delivered});  // 1
  world.run_for(milliseconds(2));
  const Time crashed = world.now();
  world.crash(1, false);
  exchange.forget(1);
  REQUIRE(exchange.run_until(
      [&] {
        return exchange.received(0).completion && exchange.sent(0).completion &&
               exchange.sent(1).completion;
      },
      milliseconds(800)));
  CHECK((world.now() - crashed).ns > milliseconds(450).ns);
  CHECK(exchange.received(0).completion->status == Status::peer_timeout);
  CHECK(exchange.sent(0).completion->status == Status::peer_timeout);
  CHECK(exchange.sent(1).completion->status == Status::peer_timeout);
  CHECK_FALSE(exchange.received(1).completion.has_value());
  CHECK_FALSE(exchange.received(2).completion.has_value());
  const auto& events = world.events(0);
  CHECK(std::ranges::count_if(events, [&](const Event& event) {
          return event.kind == Event::Kind::peer_failed && event.endpoint_id == 2 &&
                 event.status == Status::peer_timeout;
        }) == 1);
  (void)exchange.send(3, 0, 2, 1000);
  (void)exchange.send(2, 0, 3, 1000);
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(exchange.received(1).completion->status == Status::ok);
  CHECK(exchange.received(2).completion->status == Status::ok);
  exchange.check_quiet();
}

TEST_CASE("sessions__whole_messages_of_a_failed_peer_can_still_be_received") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 300;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 5000);    // whole, accepted
  (void)exchange.send(0, 1, 2, 500000);  // only its beginning has arrived
  (void)exchange.send(0, 1, 3, 0);
  world.run_for(milliseconds(5));
  exchange.collect();
  CHECK(exchange.sent(0).completion->status == Status::ok);
  world.crash(0, false);
  exchange.forget(0);
  (void)exchange.receive(1, 0, 99, 10);  // so that node 1 notices
  REQUIRE(exchange.run(milliseconds(500)));
  CHECK(exchange.received(0).completion->status == Status::peer_timeout);
  (void)exchange.receive(1, 0, 3, 10);
  (void)exchange.receive(1, kAnyNode, 1, 5000);
  REQUIRE(exchange.run(milliseconds(10)));
  CHECK(exchange.received(1).completion->status == Status::ok);
  CHECK(exchange.received(2).completion->status == Status::ok);
  proto::ReceiveRequest request;
  request.peer = world.peer(1, 0);
  request.tag = 2;
  CHECK(world.post(1, request) == Status::peer_timeout);
  exchange.check_quiet();
}

// All packets that an old session left in the fabric arrive after a new session was made.
TEST_CASE("sessions__packets_of_a_dead_one_do_nothing_to_its_successor") {
  for_each_seed(20, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 2;
    config.seed = random.next();
    config.tunables.peer_timeout_ms = 400;
    bool slow = false;
    config.hook = [&](std::uint32_t, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::tx || !slow) return {};
      return Fate{.duplicate = true, .delay = milliseconds(1 + random.below(30))};
    };
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 10; ++i) {
      exchange.message(0, 1, 100 + i, 200000);
      (void)exchange.send(1, 0, 100 + i, 500, {.level = Level::delivered});
    }
    world.run_for(proto::microseconds(random.below(100)));
    slow = true;
    world.run_for(milliseconds(random.below(10)));
    slow = false;
    if (random.chance(0.5)) {
      world.crash(0, true);
      exchange.forget(0);
      (void)world.peer(0, 1);
    } else {
      world.disconnect(0, 1);
      world.reconnect(0, 1);
    }
    world.run_for(milliseconds(2));  // node 1 hears of it, and ends the old session
    for (int i = 0; i < 4; ++i) talk(world, 0, 1, milliseconds(600));
    world.run_for(milliseconds(600));
    REQUIRE(exchange.run(milliseconds(10)));
    talk(world, 0, 1, milliseconds(50));
    // A message that was complete when the old session ended is still there, once.
    Envelope envelope;
    MessageId held = kNoMessage;
    while (world.endpoint(0).claim(kAnyPeer, 0, 0, 0, envelope, held) == Status::ok) {
      exchange.note_claim(envelope.immediate);
      (void)exchange.receive_claimed(0, held, 500);
    }
    REQUIRE(exchange.run(milliseconds(10)));
    for (const std::uint32_t node : {0, 1}) {
      CHECK(world.stats(node).packets_in_flight == 0);
      CHECK(world.stats(node).operations_pending == 0);
      CHECK(world.stats(node).unexpected_bytes_held == 0);
    }
  });
}

// Node 0 answers a call and disconnects, and its answer is late. It calls anew, and is answered.
// The late answer arrives before anything shows node 1 that node 0 is READY with the new handshake.
TEST_CASE("sessions__a_late_answer_of_an_earlier_handshake_ends_no_session", "[S8]") {
  for_each_seed(20, [](proto::Random& random) {
    WorldConfig config;
    config.seed = random.next();
    config.tunables.peer_timeout_ms = 400;
    std::array<proto::Duration, 2> late{milliseconds(10), {}};  // of each node's next WELCOME
    config.hook = [&](std::uint32_t node, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::tx) return {};
      if (view_of(packet).type != PacketType::welcome) return {};
      return Fate{.delay = std::exchange(late[node], {})};
    };
    World world(config);
    (void)world.peer(1, 0);
    world.run_for(milliseconds(1));
    world.disconnect(0, 1);
    late[1] = milliseconds(10 + random.below(8));
    world.reconnect(0, 1);
    Exchange exchange(world);
    exchange.message(0, 1, 1, 1000);
    exchange.message(1, 0, 2, 1000);
    REQUIRE(exchange.run(milliseconds(200)));
    exchange.check_all_ok();
    CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
    CHECK(world.stats(1).challenges_sent > 0);
  });
}

TEST_CASE("sessions__that_was_disconnected_can_be_made_again") {
  World world({});
  for (int round = 0; round < 5; ++round) {
    talk(world, 0, 1, milliseconds(100));
    const auto who = static_cast<std::uint32_t>(round % 2);
    const PeerId peer = world.peer(who, 1 - who);
    Exchange exchange(world);
    exchange.ignore_what_was();
    (void)exchange.receive(who, 1 - who, 1, 10);
    (void)exchange.receive(1 - who, who, 1, 10);
    (void)exchange.send(who, 1 - who, 5, 10, {.level = Level::delivered});
    world.run_for(milliseconds(1));
    REQUIRE(world.endpoint(who).disconnect(world.now(), peer) == Status::ok);
    REQUIRE(exchange.run(milliseconds(20)));
    CHECK(exchange.received(0).completion->status == Status::endpoint_closed);
    CHECK(exchange.received(1).completion->status == Status::peer_closed);
    CHECK(exchange.sent(0).completion->status == Status::endpoint_closed);
    world.reconnect(0, 1);
    world.reconnect(1, 0);
    world.run_for(milliseconds(5));
  }
  CHECK(world.endpoint(0).disconnect(world.now(), PeerId{99}) == Status::unknown_peer);
}

// The event peer_established draws the line. Messages posted before it go to the process that
// answers. Messages posted after it go to that process or to none.
TEST_CASE("sessions__a_successor_gets_what_was_posted_before_the_handshake_and_nothing_else") {
  for (const bool established : {false, true}) {
    for (const bool it_calls : {false, true}) {
      INFO((established ? "after" : "before") << ", " << (it_calls ? "called" : "calling"));
      WorldConfig config;
      config.tunables.peer_timeout_ms = 300;
      bool lost = true;
      config.hook = [&](std::uint32_t, std::uint32_t,
                        const FaultPacket& packet) -> std::optional<Fate> {
        if (packet.direction != engine::Direction::tx || !lost) return {};
        const PacketType type = view_of(packet).type;
        if (type == PacketType::hello || (type == PacketType::welcome && established)) return {};
        return Fate{.drop = true};
      };
      World world(config);
      (void)world.peer(it_calls ? 1 : 0, it_calls ? 0 : 1);
      world.run_for(milliseconds(5));
      if (!it_calls || established) (void)world.peer(0, 1);
      world.reconnect(0, 1);
      CHECK(world.stats(0).sessions_established == (established ? 1 : 0));
      Exchange exchange(world);
      (void)exchange.send(0, 1, 1, 100, {.level = Level::delivered});
      world.run_for(milliseconds(5));
      world.crash(1, true);
      lost = false;
      (void)world.peer(1, 0);
      (void)exchange.receive(1, 0, 1, 100);
      (void)exchange.receive(1, kAnyNode, 2, 100);
      REQUIRE(exchange.run_until([&] { return exchange.sent(0).completion.has_value(); },
                                 milliseconds(200)));
      CHECK(exchange.sent(0).completion->status ==
            (established ? Status::peer_restarted : Status::ok));
      world.run_for(milliseconds(50));
      CHECK(exchange.received(0).completion.has_value() == !established);
      CHECK_FALSE(exchange.received(1).completion.has_value());
    }
  }
}

// A peer that once called here and then vanished must not fail when it is wanted much later.
TEST_CASE("sessions__half_made_long_ago_is_made_when_it_is_wanted") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 300;
  bool deaf = true;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || node != 1 || !deaf) return {};
    return Fate{.drop = true};
  };
  World world(config);
  (void)world.peer(0, 1);
  world.run_for(milliseconds(1000));  // node 0 has given up, node 1 has heard its HELLOs
  deaf = false;
  world.reconnect(1, 0);
  world.run_for(milliseconds(5));
  talk(world, 1, 0, milliseconds(100));
}

}  // namespace
}  // namespace hawser::test
