// SPDX-License-Identifier: Apache-2.0
// Endpoints close: their sends are settled first, and no peer waits for ever.
#include <catch2/catch.hpp>

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

bool run_until_closed(World& world, std::uint32_t node, proto::Duration limit) {
  return world.run_until([&] { return world.endpoint(node).closed(); }, limit);
}

TEST_CASE("closing__settles_what_was_sent") {
  for (const std::string faults : {"delay=5us", "delay=5us/20us,loss=0.1"}) {
    WorldConfig config;
    config.nics = 2;
    config.faults = faults;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 20; ++i) {
      (void)exchange.receive(1, 0, i, 100000);
      (void)exchange.send(0, 1, i, 5000 * i);
    }
    world.close(0);
    REQUIRE(run_until_closed(world, 0, milliseconds(500)));
    REQUIRE(exchange.run(milliseconds(20)));
    exchange.check_all_ok();
    exchange.check_quiet();
    CHECK(world.stats(1).peer_failures == 1);
    CHECK(world.events(1).back().status == Status::peer_closed);
  }
}

TEST_CASE("closing__is_quick_where_nothing_is_pending") {
  for (const bool connected : {false, true}) {
    World world({});
    if (connected) {
      world.connect_all();
      world.run_for(milliseconds(5));
    }
    const Time start = world.now();
    world.close(0);
    REQUIRE(run_until_closed(world, 0, milliseconds(100)));
    CHECK((world.now() - start).ns < milliseconds(1).ns);
    proto::SendRequest send;
    proto::ReceiveRequest receive;
    CHECK(world.post(0, send) == Status::endpoint_closed);
    CHECK(world.post(0, receive) == Status::endpoint_closed);
  }
}

TEST_CASE("closing__ends_its_own_receives_and_those_that_wait_for_it") {
  WorldConfig config;
  config.nodes = 3;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.receive(0, 1, 1, 100);
  (void)exchange.receive(0, kAnyNode, 1, 100);
  (void)exchange.receive(1, 0, 1, 100);
  (void)exchange.receive(1, 2, 1, 100);
  (void)exchange.receive(1, kAnyNode, 2, 100);
  world.run_for(milliseconds(2));
  world.close(0);
  REQUIRE(run_until_closed(world, 0, milliseconds(100)));
  world.run_for(milliseconds(10));
  exchange.collect();
  CHECK(exchange.received(0).completion->status == Status::endpoint_closed);
  CHECK(exchange.received(1).completion->status == Status::endpoint_closed);
  CHECK(exchange.received(2).completion->status == Status::peer_closed);
  CHECK_FALSE(exchange.received(3).completion.has_value());
  CHECK_FALSE(exchange.received(4).completion.has_value());
}

// The loss of a last message's status must not turn a delivered send into a failed one.
TEST_CASE("closing__carries_the_final_statuses", "[S15]") {
  for_each_seed(20, [](proto::Random& random) {
    bool mute = false;
    WorldConfig config;
    config.seed = random.next();
    config.hook = [&](std::uint32_t node, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::tx || node != 1 || !mute) return {};
      const PacketType type = view_of(packet).type;
      // All of its acknowledgements and statuses are lost, and half of its CLOSEs.
      if (type == PacketType::control) return Fate{.drop = true};
      return Fate{.drop = random.chance(0.5)};
    };
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    mute = true;
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 10; ++i) {
      if (i % 2 == 0) (void)exchange.receive(1, 0, i, 1000);
      (void)exchange.send(0, 1, i, 1000,
                          {.level = i % 4 == 0 ? Level::delivered : Level::accepted});
    }
    REQUIRE(exchange.run_until([&] { return exchange.received(4).completion.has_value(); },
                               milliseconds(100)));
    world.close(1);
    REQUIRE(run_until_closed(world, 1, milliseconds(3000)));
    REQUIRE(exchange.run(milliseconds(100)));
    for (std::size_t i = 0; i < 10; ++i) CHECK(exchange.sent(i).completion->status == Status::ok);
    exchange.check_quiet();
  });
}

TEST_CASE("closing__while_the_other_still_sends") {
  World world({});
  world.connect_all();
  Exchange exchange(world);
  exchange.message(1, 0, 1, 50000000);
  (void)exchange.send(1, 0, 2, 100, {.level = Level::delivered});
  world.run_for(proto::microseconds(100));
  const Time start = world.now();
  world.close(0);
  REQUIRE(run_until_closed(world, 0, milliseconds(3000)));
  REQUIRE(exchange.run(milliseconds(10)));
  CHECK((world.now() - start).ns < milliseconds(20).ns);
  CHECK(exchange.sent(0).completion->status == Status::peer_closed);
  CHECK(exchange.sent(1).completion->status == Status::peer_closed);
  CHECK(exchange.received(0).completion->status == Status::endpoint_closed);
  exchange.check_quiet();
}

// CLOSE is lost some times. A peer that still sends gets no acknowledgements of the dropped
// packets. It doesn't get an answer each round trip either: the answer is CLOSE, which is paced.
TEST_CASE("closing__answers_what_still_comes_by_closing_again", "[S28]") {
  for (const int lost : {1, 4}) {
    INFO(lost << " CLOSEs are lost");
    Loss closes;
    closes.left = lost;
    closes.which = [](std::uint32_t node, const FaultPacket& packet) {
      return node == 0 && view_of(packet).type == PacketType::close;
    };
    WorldConfig config;
    config.faults = "delay=5us,rate=1000000000";
    config.hook = std::ref(closes);
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    exchange.message(1, 0, 1, 50000000);
    world.run_for(milliseconds(2));
    const std::uint64_t probes = world.stats(1).path_probes_sent;
    world.close(0);
    REQUIRE(world.run_until([&] { return closes.lost > 0; }, milliseconds(2000)));
    const Time start = world.now();
    const std::uint64_t sent = world.stats(1).data_packets_sent;
    REQUIRE(exchange.run(milliseconds(100)));
    CHECK(exchange.sent(0).completion->status == Status::peer_closed);
    INFO("over after " << (world.now() - start).ns / 1000 << " us");
    CHECK((world.now() - start).ns < milliseconds(1).ns * lost);
    CHECK(world.stats(1).path_probes_sent - probes <= 3u * static_cast<unsigned>(lost));
    // The peer sent what its window held, and no more.
    CHECK(world.stats(1).data_packets_sent - sent <= 300);
    REQUIRE(run_until_closed(world, 0, milliseconds(100)));
    exchange.check_quiet();
  }
}

TEST_CASE("closing__of_both_at_once") {
  for_each_seed(20, [](proto::Random& random) {
    WorldConfig config;
    config.nodes = 4;
    config.seed = random.next();
    config.faults = random.chance(0.5) ? "delay=5us" : "delay=5us/50us,loss=0.2";
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    exchange.all_to_all(3000);
    if (random.chance(0.5)) world.run_for(milliseconds(random.below(5)));
    for (std::uint32_t node = 0; node < 4; ++node) {
      world.close(node);
      if (random.chance(0.3)) world.run_for(proto::microseconds(random.below(1000)));
    }
    for (std::uint32_t node = 0; node < 4; ++node) {
      REQUIRE(run_until_closed(world, node, milliseconds(2500)));
    }
    REQUIRE(exchange.run(milliseconds(1)));
    for (std::uint32_t node = 0; node < 4; ++node) {
      CHECK(world.stats(node).operations_pending == 0);
      CHECK(world.stats(node).buffers_in_use == 0);
    }
  });
}

TEST_CASE("closing__takes_one_and_a_half_of_its_timeout_if_nobody_answers", "[S14]") {
  WorldConfig config;
  config.tunables.close_timeout_ms = 200;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100, {.level = Level::delivered});
  (void)exchange.receive(0, 1, 2, 100);
  world.run_for(milliseconds(5));
  world.crash(1, false);
  const Time start = world.now();
  world.close(0);
  REQUIRE(run_until_closed(world, 0, milliseconds(1000)));
  CHECK((world.now() - start).ns >= milliseconds(290).ns);
  CHECK((world.now() - start).ns < milliseconds(350).ns);
  REQUIRE(exchange.run(milliseconds(1)));
  CHECK(exchange.sent(0).completion->status == Status::endpoint_closed);
  CHECK(exchange.received(0).completion->status == Status::endpoint_closed);
}

// A NIC that reports late what it has sent holds up the buffers. Completions that say ok wait for
// it; a failure is reported at once.
TEST_CASE("closing__waits_for_nics_to_let_go_of_the_senders_buffers", "[M25]") {
  WorldConfig config;
  config.faults = "delay=5us,late-reap=5ms";
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 50000);
  const Time start = world.now();
  REQUIRE(exchange.run(milliseconds(50)));
  CHECK((world.now() - start).ns >= milliseconds(5).ns);
  exchange.check_all_ok();
  // The same when the session fails meanwhile.
  (void)exchange.send(0, 1, 2, 50000, {.level = Level::delivered});
  world.run_for(proto::microseconds(100));
  world.disconnect(0, 1);
  world.run_for(milliseconds(1));
  exchange.collect();
  REQUIRE(exchange.sent(1).completion.has_value());
  CHECK_FALSE(exchange.sent(1).completion->released);
  CHECK(world.stats(0).sends_unreleased == 1);
  REQUIRE(exchange.run(milliseconds(20)));
  CHECK(exchange.sent(1).completion->status == Status::endpoint_closed);
  CHECK(world.stats(0).sends_unreleased == 0);
}

// CLOSE leaves when all that was sent is settled, or after close_timeout.
TEST_CASE("closing__waits_for_what_it_sent_but_for_its_timeout_at_most", "[S13]") {
  for (const bool received : {true, false}) {
    INFO((received ? "the receive comes after 900 ms" : "it never does"));
    World* running = nullptr;
    Time closed_at{};
    WorldConfig config;
    config.tunables.close_timeout_ms = 1000;
    config.hook = [&](std::uint32_t node, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (node == 0 && packet.direction == engine::Direction::tx && closed_at == Time{} &&
          view_of(packet).type == PacketType::close) {
        closed_at = running->now();
      }
      return {};
    };
    World world(config);
    running = &world;
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    const auto sent = exchange.send(0, 1, 1, 1000, {.level = Level::delivered});
    world.run_for(milliseconds(5));
    const Time begin = world.now();
    world.close(0);
    world.run_for(milliseconds(900));
    CHECK(closed_at == Time{});
    if (received) (void)exchange.receive(1, 0, 1, 1000);
    REQUIRE(run_until_closed(world, 0, milliseconds(200)));
    exchange.collect();
    REQUIRE(closed_at != Time{});
    const auto waited = (closed_at - begin).ns;
    if (received) {
      CHECK(waited < milliseconds(902).ns);
      CHECK(exchange.sent(sent).completion->status == Status::ok);
    } else {
      CHECK(waited >= milliseconds(1000).ns);
      CHECK(waited < milliseconds(1002).ns);
      CHECK(exchange.sent(sent).completion->status == Status::endpoint_closed);
    }
  }
}

// The first contact is with a peer that is away for nearly all of close_timeout.
TEST_CASE("closing__delivers_what_was_sent_to_who_comes_late", "[S13]") {
  WorldConfig config;
  config.tunables.close_timeout_ms = 1000;
  config.tunables.peer_timeout_ms = 10000;
  World world(config);
  Exchange exchange(world);
  exchange.message(0, 1, 1, 100);
  world.pause(1, true);
  world.close(0);
  world.run_for(milliseconds(900));
  world.pause(1, false);
  REQUIRE(run_until_closed(world, 0, milliseconds(1500)));
  REQUIRE(exchange.run(milliseconds(1)));
  exchange.check_all_ok();
}

// The time during which the closing endpoint itself is away doesn't count.
TEST_CASE("closing__gives_the_others_all_of_its_timeout_though_it_was_away", "[S13]") {
  WorldConfig config;
  config.tunables.close_timeout_ms = 1000;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100, {.level = Level::delivered});
  world.run_for(milliseconds(5));
  world.close(0);
  world.run_for(milliseconds(5));
  world.pause(0, true);
  world.run_for(milliseconds(3000));
  world.pause(0, false);
  world.run_for(milliseconds(500));
  CHECK_FALSE(world.endpoint(0).closed());
  (void)exchange.receive(1, 0, 1, 100);
  REQUIRE(run_until_closed(world, 0, milliseconds(100)));
  REQUIRE(exchange.run(milliseconds(1)));
  exchange.check_all_ok();
}

// A closing endpoint doesn't answer strangers that call. It does answer a peer to which it has
// posted a message.
TEST_CASE("closing__makes_no_session_but_for_what_was_posted_before", "[S16]") {
  WorldConfig config;
  config.nodes = 3;
  World world(config);
  Exchange exchange(world);
  (void)exchange.receive(1, 0, 1, 1000);
  (void)exchange.send(0, 1, 1, 1000);  // there is no session so far
  world.endpoint(0).close(world.now());
  (void)world.peer(2, 0);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  world.run_for(milliseconds(100));
  CHECK(world.stats(0).sessions_established == 1);
  CHECK(world.stats(2).sessions_established == 0);
  CHECK(world.drops(0, DropReason::limit) > 0);
}

}  // namespace
}  // namespace hawser::test
