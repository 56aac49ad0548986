// SPDX-License-Identifier: Apache-2.0
// Cancelling a send: the receiver decides, in-band, and both ends agree whatever is lost.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"
#include "test/protocol/timeline.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::EnvelopeKind;
using proto::wire::MessageStatus;
using proto::wire::PacketType;

bool is_cancel(const FaultPacket& packet) {
  if (packet.direction != engine::Direction::tx) return false;
  const auto view = view_of(packet);
  return view.envelope != nullptr && view.envelope->kind == EnvelopeKind::cancel;
}

// The receive that takes anything is posted first, so it would get message 5.
TEST_CASE("cancel__of_5_unsent_then_send_6_matches", "[scenario 12][M20]") {
  for (const bool connected : {true, false}) {
    for (const int losses : {0, 3}) {
      INFO((connected ? "a session" : "no session yet") << ", " << losses << " cancels lost");
      int lost = 0;
      std::uint64_t data_packets = 0;
      WorldConfig config;
      config.hook = [&](std::uint32_t node, std::uint32_t,
                        const FaultPacket& packet) -> std::optional<Fate> {
        if (packet.direction != engine::Direction::tx) return {};
        if (node == 0 && view_of(packet).type == PacketType::data) ++data_packets;
        if (!is_cancel(packet) || lost == losses) return {};
        ++lost;
        return Fate{.drop = true};
      };
      World world(config);
      Exchange exchange(world);
      if (connected) {
        world.connect_all();
        world.run_for(milliseconds(5));
      }
      std::size_t fifth = 0;
      std::size_t sixth = 0;
      play(world, {{microseconds(0), [&] { (void)exchange.receive(1, kAnyNode, 0, 100, 0); }},
                   {microseconds(1), [&] { fifth = exchange.send(0, 1, 5, 100); }},
                   {microseconds(1),
                    [&] {
                      REQUIRE(world.cancel(0, exchange.sent(fifth).operation) == Status::ok);
                      CHECK(world.cancel(0, exchange.sent(fifth).operation) == Status::ok);
                    }},
                   {microseconds(1), [&] { sixth = exchange.send(0, 1, 6, 100); }}});
      REQUIRE(exchange.run(milliseconds(200)));
      CHECK(lost == losses);
      CHECK(exchange.sent(fifth).completion->status == Status::cancelled);
      CHECK(exchange.sent(sixth).completion->status == Status::ok);
      CHECK(exchange.received(0).serial == exchange.sent(sixth).serial);
      CHECK(data_packets == 1);
      CHECK(world.cancel(0, exchange.sent(fifth).operation) == Status::unknown_operation);
      exchange.check_quiet();
    }
  }
}

TEST_CASE("cancel__buries_a_message_that_no_receive_has_matched", "[M22]") {
  for (const std::size_t bytes : {0, 100, 50000, 2000000}) {
    INFO(bytes << " bytes");
    World world({});
    world.connect_all();
    Exchange exchange(world);
    const auto sent = exchange.send(0, 1, 1, bytes, {.level = Level::delivered});
    world.run_for(milliseconds(5));
    CHECK(world.stats(1).unexpected_messages == 1);
    CHECK((world.stats(1).unexpected_bytes_held > 0) == (bytes > 0));
    REQUIRE(world.cancel(0, exchange.sent(sent).operation) == Status::ok);
    REQUIRE(exchange.run(milliseconds(1)));
    CHECK(exchange.sent(sent).completion->status == Status::cancelled);
    CHECK(world.stats(1).unexpected_bytes_held == 0);
    Envelope envelope;
    CHECK(world.endpoint(1).probe(kAnyPeer, 0, 0, 0, envelope) == Status::again);
    // Later messages are received as if the cancelled one had never been there.
    const auto next = exchange.send(0, 1, 1, 300);
    const auto receive = exchange.receive(1, 0, 1, 300);
    REQUIRE(exchange.run(milliseconds(10)));
    CHECK(exchange.received(receive).serial == exchange.sent(next).serial);
    exchange.check_quiet();
  }
}

TEST_CASE("cancel__fails_once_a_receive_has_matched", "[M21]") {
  for (const int losses : {0, 4}) {
    Loss loss{[](std::uint32_t, const FaultPacket& packet) {
                return has_status(packet, MessageStatus::matched);
              },
              losses};
    WorldConfig config;
    config.faults = "delay=5us,rate=1000000000";
    config.hook = std::ref(loss);
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    (void)exchange.receive(1, 0, 1, 20000000);
    const auto sent = exchange.send(0, 1, 1, 20000000);
    REQUIRE(world.run_until([&] { return world.stats(1).data_bytes_received > 300000; },
                            milliseconds(100)));
    REQUIRE(world.cancel(0, exchange.sent(sent).operation) == Status::ok);
    // In the end the receiver refuses. Until then the sender asks in one packet after another.
    const auto is_refused = [&] {
      return world.endpoint(0).cancel(world.now(), exchange.sent(sent).operation) ==
             Status::too_late;
    };
    REQUIRE(world.run_until(is_refused, milliseconds(200)));
    REQUIRE(exchange.run(milliseconds(500)));
    CHECK(loss.lost == losses);
    exchange.check_all_ok();
    exchange.check_quiet();
  }
}

// At level accepted ACCEPTED is final at the sender. The receiver never takes back a message that
// has arrived completely, because its status may be in flight.
TEST_CASE("cancel__fails_once_all_has_been_accepted", "[M21]") {
  bool mute = false;
  WorldConfig config;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (node != 1 || packet.direction != engine::Direction::tx || !mute) return {};
    return Fate{.drop = true};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  mute = true;
  const auto sent = exchange.send(0, 1, 1, 1000);
  world.run_for(microseconds(300));
  REQUIRE(world.cancel(0, exchange.sent(sent).operation) == Status::ok);
  world.run_for(microseconds(300));
  mute = false;
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(exchange.sent(sent).completion->status == Status::ok);
  CHECK(world.cancel(0, exchange.sent(sent).operation) == Status::unknown_operation);
  (void)exchange.receive(1, 0, 1, 1000);
  REQUIRE(exchange.run(milliseconds(10)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

// Fragments that are in flight while the receiver discards their number find the tombstone or the
// floor.
TEST_CASE("cancel__late_fragments_of_a_cancelled_message_are_dropped", "[M23]") {
  WorldConfig config;
  config.hook = [](std::uint32_t node, std::uint32_t,
                   const FaultPacket& packet) -> std::optional<Fate> {
    if (node != 0 || packet.direction != engine::Direction::tx) return {};
    const auto view = view_of(packet);
    if (view.type != PacketType::data || view.fragment->fragment < 4) return {};
    return Fate{.delay = view.fragment->fragment % 2 == 0 ? microseconds(250) : milliseconds(20)};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  const auto sent = exchange.send(0, 1, 1, 60000);
  world.run_for(microseconds(100));
  REQUIRE(world.cancel(0, exchange.sent(sent).operation) == Status::ok);
  REQUIRE(exchange.run(milliseconds(5)));
  CHECK(exchange.sent(sent).completion->status == Status::cancelled);
  const auto receive = exchange.receive(1, kAnyNode, 0, 60000, 0);
  const auto next = exchange.send(0, 1, 2, 100);
  REQUIRE(exchange.run(milliseconds(50)));
  CHECK(exchange.received(receive).serial == exchange.sent(next).serial);
  exchange.check_quiet();
  CHECK(world.drops(1, DropReason::below_floor) + world.drops(1, DropReason::duplicate_fragment) >
        3);
}

// A cancel that the peer never answers ends with its session.
TEST_CASE("cancel__ends_with_the_session_if_that_fails_first") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 100;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  const auto sent = exchange.send(0, 1, 1, 1000, {.level = Level::delivered});
  world.run_for(milliseconds(1));
  world.crash(1, false);
  REQUIRE(world.cancel(0, exchange.sent(sent).operation) == Status::ok);
  REQUIRE(exchange.run(milliseconds(300)));
  CHECK(exchange.sent(sent).completion->status == Status::peer_timeout);
}

// Packets are lost, duplicated and late. A send that reports cancelled was never delivered. Every
// other send was delivered once, and in order. No number is left behind to hold up later ones.
TEST_CASE("cancel__both_ends_agree_whatever_happens", "[M22]") {
  for_each_seed(40, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 2;
    config.seed = random.next();
    config.faults = "delay=5us/60us,loss=0.1,duplicate=0.05,reorder=0.1";
    config.tunables.unexpected_bytes = 131072;
    config.tunables.max_receive_messages = 16;
    config.tunables.initial_sequence = random.chance(0.5) ? 0 : 0xfffffff0u;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    std::vector<std::size_t> sends;
    for (std::uint64_t i = 0; i < 80; ++i) {
      const Level level = random.chance(0.5) ? Level::accepted : Level::delivered;
      sends.push_back(exchange.send(0, 1, i % 3, random.below(90000), {.level = level}));
      if (random.chance(0.6)) (void)exchange.receive(1, 0, i % 3, 90000);
      if (random.chance(0.4)) {
        const auto victim = sends[random.below(sends.size())];
        (void)world.cancel(0, exchange.sent(victim).operation);
      }
      world.run_for(microseconds(random.below(150)));
    }
    // Receives for all messages that are left, and as many more, which stay open.
    for (std::uint64_t i = 0; i < 80; ++i) (void)exchange.receive(1, 0, i % 3, 90000);
    REQUIRE(exchange.run_until(
        [&] {
          return std::ranges::all_of(
              sends, [&](std::size_t i) { return exchange.sent(i).completion.has_value(); });
        },
        milliseconds(5000)));
    world.run_for(milliseconds(200));
    exchange.collect();
    std::size_t cancelled = 0;
    for (const std::size_t i : sends) {
      const Exchange::Sent& sent = exchange.sent(i);
      INFO("send " << sent.serial << ": " << to_string(sent.completion->status));
      const bool gone = sent.completion->status == Status::cancelled;
      cancelled += gone ? 1 : 0;
      CHECK((gone || sent.completion->status == Status::ok));
      CHECK(sent.deliveries == (gone ? 0u : 1u));
    }
    CHECK(cancelled > 0);
    exchange.check();
    CHECK(world.stats(1).unexpected_bytes_held == 0);
    CHECK(world.stats(0).packets_in_flight == 0);
    CHECK(world.allocations() == 0);
  });
}

}  // namespace
}  // namespace hawser::test
