// SPDX-License-Identifier: Apache-2.0
// An accepted message can be received, whatever becomes of its session.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::milliseconds;

enum class End { sender_closes, sender_disconnects, receiver_disconnects, sender_dies, restarts };

std::string name_of(End end) {
  switch (end) {
    case End::sender_closes: return "the sender closes";
    case End::sender_disconnects: return "the sender disconnects";
    case End::receiver_disconnects: return "the receiver disconnects";
    case End::sender_dies: return "the sender dies";
    case End::restarts: return "the sender dies, and another process takes its name";
  }
  return {};
}

WorldConfig impatient() {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 300;
  return config;
}

// Ends the session of node 0 with node 1, and lets node 1 notice it.
void end_session(World& world, Exchange& exchange, End end) {
  switch (end) {
    case End::sender_closes: world.close(0); break;
    case End::sender_disconnects: world.disconnect(0, 1); break;
    case End::receiver_disconnects: world.disconnect(1, 0); break;
    case End::sender_dies:
    case End::restarts:
      (void)exchange.receive(1, 0, 99, 0);  // so that node 1 notices
      world.crash(0, end == End::restarts);
      exchange.forget(0);
      break;
  }
  REQUIRE(exchange.run(milliseconds(800)));
  CHECK(world.stats(1).sessions_established == 1);
}

}  // namespace

TEST_CASE("accepted__is_received_after_the_session_has_ended") {
  for (const End end : {End::sender_closes, End::sender_disconnects, End::receiver_disconnects,
                        End::sender_dies, End::restarts}) {
    // The receiver may call the sender before it asks for the messages. A program does that when it
    // looks its peer up by address.
    for (const bool calls : {false, true}) {
      if (calls && end == End::sender_dies) continue;  // the call needs a living peer's address
      INFO(name_of(end) << (calls ? ", and is called" : ""));
      World world(impatient());
      (void)world.peer(0, 1);  // node 1 has no PeerId for node 0 yet
      Exchange exchange(world);
      for (const std::uint64_t tag : {1, 2, 3, 4}) (void)exchange.send(0, 1, tag, 5000);
      (void)exchange.send(0, 1, 5, 0);
      REQUIRE(exchange.run(milliseconds(20)));
      exchange.check_all_ok();
      world.run_for(milliseconds(5));
      Envelope envelope;
      MessageId claimed = kNoMessage;
      REQUIRE(world.endpoint(1).claim(kAnyPeer, 0, 4, kWholeTag, envelope, claimed) == Status::ok);
      exchange.note_claim(exchange.sent(3).serial);
      end_session(world, exchange, end);
      if (calls) world.reconnect(1, 0);
      const std::size_t first = exchange.receives();
      (void)exchange.receive(1, 0, 1, 5000);
      (void)exchange.receive(1, kAnyNode, 2, 5000);
      if (end == End::restarts && calls) {
        world.run_for(milliseconds(50));
        (void)exchange.send(0, 1, 3, 100);  // sent by the successor: it comes after the old message
        world.run_for(milliseconds(5));
      }
      (void)exchange.receive(1, 0, 3, 5000);
      (void)exchange.receive_claimed(1, claimed, 5000);
      (void)exchange.receive(1, 0, 5, 0);
      if (end == End::restarts && calls) (void)exchange.receive(1, kAnyNode, 3, 100);
      REQUIRE(exchange.run(milliseconds(100)));
      for (std::size_t i = first; i < exchange.receives(); ++i) {
        INFO("receive " << i - first);
        REQUIRE(exchange.received(i).completion->status == Status::ok);
        CHECK(exchange.received(i).serial == i - first + 1);
      }
      exchange.check();
    }
  }
}

// An accepted message may have to wait for the message before it, which was lost with the session.
TEST_CASE("accepted__behind_one_that_was_lost_with_the_session") {
  for (const bool posted : {false, true}) {
    INFO("its receive is posted " << (posted ? "before" : "after") << " the session ends");
    WorldConfig config = impatient();
    config.hook = [](std::uint32_t, std::uint32_t,
                     const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::rx || packet.header.size() < 1000) return {};
      return Fate{.drop = true};
    };
    World world(config);
    (void)world.peer(0, 1);
    Exchange exchange(world);
    (void)exchange.send(0, 1, 1, 3000);
    world.run_for(milliseconds(1));
    (void)exchange.send(0, 1, 2, 100);
    REQUIRE(exchange.run_until([&] { return exchange.sent(1).completion.has_value(); },
                               milliseconds(20)));
    CHECK(exchange.sent(1).completion->status == Status::ok);
    if (posted) (void)exchange.receive(1, kAnyNode, 2, 100);
    world.run_for(milliseconds(20));
    if (posted) CHECK_FALSE(exchange.received(0).completion.has_value());
    world.disconnect(1, 0);
    if (!posted) (void)exchange.receive(1, 0, 2, 100);
    REQUIRE(exchange.run(milliseconds(100)));
    CHECK(exchange.sent(0).completion->status == Status::peer_closed);
    CHECK(exchange.received(0).completion->status == Status::ok);
    exchange.check();
  }
}

}  // namespace hawser::test
