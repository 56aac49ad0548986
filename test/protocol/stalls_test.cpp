// SPDX-License-Identifier: Apache-2.0
// An operation that stands still although its peer is heard shows itself: an event names what it
// waits for, and a counter counts it.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::milliseconds;
using proto::wire::PacketType;

constexpr std::uint64_t kTimeout = 400;  // ms

// The reasons of the node's stall events.
std::vector<Reason> stalls(World& world, std::uint32_t node) {
  std::vector<Reason> reasons;
  for (const Event& event : world.events(node)) {
    if (event.kind == Event::Kind::operation_stalled) reasons.push_back(event.reason);
  }
  CHECK(world.stats(node).operations_stalled == reasons.size());
  return reasons;
}

// Drops the packets of node 0 that `loses` selects while `active` is true.
struct Filter {
  bool active = true;
  std::function<bool(const FaultPacket&)> loses;
  std::optional<Fate> operator()(std::uint32_t node, std::uint32_t, const FaultPacket& packet) {
    if (!active || node != 0 || packet.direction != engine::Direction::tx || !loses(packet))
      return {};
    return Fate{.drop = true};
  }
};

WorldConfig filtered(Filter& filter) {
  WorldConfig config;
  config.tunables.peer_timeout_ms = kTimeout;
  config.hook = std::ref(filter);
  return config;
}

// An operation that waits for a program is not stalled.
TEST_CASE("stalls__waiting_for_a_receive_is_none", "[M5][F5]") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = kTimeout;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100, {.level = Level::delivered});
  (void)exchange.send(0, 1, 2, 1000000);
  (void)exchange.receive(0, 1, 3, 100);
  world.run_for(milliseconds(kTimeout * 6));
  CHECK(stalls(world, 0).empty());
  CHECK(stalls(world, 1).empty());
  (void)exchange.receive(1, 0, 1, 100);
  (void)exchange.receive(1, 0, 2, 1000000);
  (void)exchange.send(1, 0, 3, 100);
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
  CHECK(stalls(world, 0).empty());
}

TEST_CASE("stalls__questions_that_are_not_answered", "[F5]") {
  Filter filter;
  filter.loses = [](const FaultPacket& packet) {
    return view_of(packet).type == PacketType::envelope;
  };
  World world(filtered(filter));
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100, {.level = Level::delivered});
  world.run_for(milliseconds(5));
  // Both ends go on exchanging messages.
  std::uint64_t tag = 10;
  for (int i = 0; i < 45; ++i) {
    exchange.message(1, 0, ++tag, 100);
    world.run_for(milliseconds(kTimeout / 10));
  }
  const std::vector<Reason> told = stalls(world, 0);
  CHECK(told.size() >= 2);
  CHECK(told.size() <= 4);  // once in peer_timeout
  CHECK(std::ranges::count(told, Reason::awaits_answer) ==
        static_cast<std::ptrdiff_t>(told.size()));
  CHECK(stalls(world, 1).empty());
  filter.active = false;
  (void)exchange.receive(1, 0, 1, 100);
  REQUIRE(exchange.run(milliseconds(kTimeout)));
  exchange.check_all_ok();
  world.run_for(milliseconds(kTimeout * 2));
  CHECK(stalls(world, 0).size() == told.size());
}

TEST_CASE("stalls__fragments_and_messages_that_do_not_come", "[F5]") {
  for (const bool whole : {false, true}) {
    INFO((whole ? "a message is lost" : "a fragment of it is lost"));
    Filter filter;
    filter.loses = [whole](const FaultPacket& packet) {
      const proto::wire::PacketView view = view_of(packet);
      if (view.fragment == nullptr || view.fragment->message != 0) return false;
      return whole || view.fragment->fragment == 9;
    };
    World world(filtered(filter));
    world.connect_all();
    Exchange exchange(world);
    const std::size_t bytes =
        whole ? 1000 : 9 * 4096 + 100;  // only small packets are lost, so this is no MTU problem
    for (std::uint64_t tag = 0; tag < 4; ++tag) exchange.message(0, 1, tag, bytes);
    world.run_for(milliseconds(kTimeout * 5 / 2));
    const std::vector<Reason> told = stalls(world, 1);
    REQUIRE(!told.empty());
    CHECK(told.front() == (whole ? Reason::awaits_message : Reason::awaits_fragments));
    filter.active = false;
    REQUIRE(exchange.run(milliseconds(kTimeout)));
    exchange.check_all_ok();
  }
}

// A silent peer is no stall: peer_timeout ends the wait.
TEST_CASE("stalls__a_peer_that_is_not_heard_is_none", "[F1][F5]") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = kTimeout;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 5000000);
  world.run_for(proto::microseconds(200));
  for (const std::uint32_t node : {0u, 1u}) world.apply(node, "blackhole=both");
  REQUIRE(exchange.run(milliseconds(kTimeout * 3)));
  CHECK(exchange.sent(0).completion->status == Status::peer_timeout);
  CHECK(stalls(world, 0).empty());
  CHECK(stalls(world, 1).empty());
}

// Nothing else brings packets, so the peer is heard only when it answers keepalives.
TEST_CASE("stalls__are_told_if_only_keepalives_are_answered", "[F5]") {
  Filter filter;
  filter.loses = [](const FaultPacket& packet) {
    return view_of(packet).type == PacketType::envelope;
  };
  World world(filtered(filter));
  world.set_lateness(0, proto::microseconds(1));
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100, {.level = Level::delivered});
  world.run_for(milliseconds(kTimeout * 4));
  const std::vector<Reason> told = stalls(world, 0);
  REQUIRE(!told.empty());
  CHECK(told.front() == Reason::awaits_answer);
  CHECK(world.stats(0).peer_failures == 0);
}

// A message found no room, and was received later. Then its last fragment is lost. That one is
// small, as the peer would be given up if only large packets were lost.
TEST_CASE("stalls__fragments_of_a_message_that_once_found_no_room", "[F5][M5]") {
  constexpr std::uint32_t kLast = 40;
  constexpr std::size_t kBytes = kLast * 4096 + 100;
  Filter filter;
  filter.loses = [](const FaultPacket& packet) {
    const proto::wire::PacketView view = view_of(packet);
    return view.type == PacketType::granted && view.fragment->fragment == kLast;
  };
  WorldConfig config = filtered(filter);
  config.tunables.unexpected_bytes = 64 * 1024;
  config.tunables.unscheduled_bytes = 128 * 1024;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, kBytes);
  world.run_for(milliseconds(20));
  REQUIRE(world.stats(1).no_room_answers > 0);
  (void)exchange.receive(1, 0, 1, kBytes);
  // Small messages keep the peer heard, and the path in use.
  for (std::uint64_t tag = 10; tag < 55; ++tag) {
    exchange.message(0, 1, tag, 100);
    world.run_for(milliseconds(kTimeout / 10));
  }
  const std::vector<Reason> told = stalls(world, 1);
  REQUIRE(!told.empty());
  CHECK(told.front() == Reason::awaits_fragments);
  filter.active = false;
  REQUIRE(exchange.run(milliseconds(kTimeout)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
