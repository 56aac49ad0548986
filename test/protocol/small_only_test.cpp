// SPDX-License-Identifier: Apache-2.0
// A fabric on which no large packet passes on any path, but small packets and acknowledgements do:
// a switch's MTU is wrong. The peer is heard, but no large message can ever be delivered.
#include <catch2/catch.hpp>

#include <algorithm>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::milliseconds;

constexpr std::size_t kLargest = 1024;
constexpr std::size_t kMessage = 40 * 4096;

bool is_large(const FaultPacket& packet) {
  return packet.header.size() + packet.payload.size() > kLargest;
}

WorldConfig impatient(std::uint32_t nics) {
  WorldConfig config;
  config.nics = nics;
  config.tunables.peer_timeout_ms = 500;
  return config;
}

// Drops each large packet while `small_only` is true.
void lose_large_while(const bool& small_only, WorldConfig& config) {
  config.hook = [&small_only](std::uint32_t, std::uint32_t,
                              const FaultPacket& packet) -> std::optional<Fate> {
    const bool lost = small_only && packet.direction == Direction::tx && is_large(packet);
    return lost ? std::optional(Fate{.drop = true}) : std::nullopt;
  };
}

const Event* failure_of(World& world, std::uint32_t node) {
  const auto& events = world.events(node);
  const auto found = std::ranges::find(events, Event::Kind::peer_failed, &Event::kind);
  return found == events.end() ? nullptr : &*found;
}

// A message each way; node 0's is large.
struct Messages {
  std::string bytes = std::string(kMessage, 'a');
  std::string buffer = std::string(kMessage, 'b');
  OperationId send{};
  OperationId receive{};
  explicit Messages(World& world) {
    receive = world.receive(1, world.peer(1, 0), 1, buffer);
    send = world.send(0, 1, 1, bytes);
  }
};

TEST_CASE("small_only__ends_with_a_status_and_its_reason_and_not_never", "[F4]") {
  const auto nics = GENERATE(1u, 2u, 4u);
  const bool both_ways = GENERATE(false, true);
  WorldConfig config = impatient(nics);
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx || (node == 1 && !both_ways)) return {};
    return is_large(packet) ? std::optional(Fate{.drop = true}) : std::nullopt;
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(20));
  Messages messages(world);
  world.run_for(milliseconds(300));
  CHECK(failure_of(world, 0) == nullptr);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(2000)));
  CHECK(world.completion(0, messages.send)->status == Status::peer_timeout);
  REQUIRE(failure_of(world, 0) != nullptr);
  CHECK(failure_of(world, 0)->reason == Reason::only_small);
  CHECK(failure_of(world, 0)->status == Status::peer_timeout);
  // The other end hears of the failure, or fails by itself.
  REQUIRE(world.run_until_completed(1, 1, milliseconds(2000)));
  CHECK(world.completion(1, messages.receive)->status != Status::ok);
}

// The losses last for longer than the timeout, but one large packet passes each 200 ms, and that
// counts.
TEST_CASE("small_only__one_large_packet_now_and_then_is_enough", "[F4]") {
  World* running = nullptr;
  proto::Time next{};
  WorldConfig config = impatient(GENERATE(1u, 2u));
  config.hook = [&](std::uint32_t, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx || running == nullptr || !is_large(packet)) return {};
    if (running->now() < next) return Fate{.drop = true};
    next = running->now() + milliseconds(200);
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(20));
  running = &world;
  Messages messages(world);
  world.run_for(milliseconds(3000));
  CHECK(failure_of(world, 0) == nullptr);
  running = nullptr;
  REQUIRE(world.run_until_completed(0, 1, milliseconds(5000)));
  CHECK(world.completion(0, messages.send)->status == Status::ok);
}

TEST_CASE("small_only__that_ends_in_time_is_no_failure", "[F4]") {
  bool small_only = true;
  WorldConfig config = impatient(GENERATE(1u, 2u));
  lose_large_while(small_only, config);
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(20));
  Messages messages(world);
  world.run_for(milliseconds(400));
  small_only = false;
  REQUIRE(world.run_until_completed(0, 1, milliseconds(5000)));
  CHECK(world.completion(0, messages.send)->status == Status::ok);
}

// Packets of all sizes are lost at a high rate, so size is not the cause.
TEST_CASE("small_only__is_not_what_a_lossy_fabric_looks_like", "[F4]") {
  WorldConfig config = impatient(GENERATE(1u, 2u));
  config.faults = "delay=5us,loss=0.4";
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(200));
  Exchange exchange(world);
  exchange.ignore_what_was();
  for (int i = 0; i < 50; ++i) exchange.message(0, 1, 1, kMessage);
  REQUIRE(exchange.run(milliseconds(60'000)));
  exchange.check_all_ok();
}

// The large send is cancelled, and the fabric heals. Another operation still waits for the peer,
// but no large send does. The earlier losses are therefore no reason to give the peer up.
TEST_CASE("small_only__ends_with_the_send_that_was_large", "[F4]") {
  bool small_only = true;
  WorldConfig config = impatient(1);
  lose_large_while(small_only, config);
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(20));
  const std::string bytes(kMessage, 'a');
  std::string buffer(100, 'b');
  (void)world.receive(0, world.peer(0, 1), 7, buffer);
  const OperationId send = world.send(0, 1, 1, bytes);
  world.run_for(milliseconds(300));
  REQUIRE(world.cancel(0, send) == Status::ok);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(100)));
  REQUIRE(world.completion(0, send)->status == Status::cancelled);
  small_only = false;
  world.run_for(milliseconds(3000));
  CHECK(failure_of(world, 0) == nullptr);
}

// The losses of the last large send don't count against the next one, which gets the whole timeout.
TEST_CASE("small_only__begins_anew_with_the_next_large_send", "[F4]") {
  bool small_only = true;
  WorldConfig config = impatient(1);
  lose_large_while(small_only, config);
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(20));
  const std::string bytes(kMessage, 'a');
  std::string buffer(kMessage, 'b');
  (void)world.receive(1, world.peer(1, 0), 2, buffer);
  std::string other(100, 'b');
  (void)world.receive(0, world.peer(0, 1), 7, other);
  const OperationId first = world.send(0, 1, 1, bytes);
  world.run_for(milliseconds(200));
  REQUIRE(world.cancel(0, first) == Status::ok);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(100)));
  world.run_for(milliseconds(200));
  const OperationId second = world.send(0, 1, 2, bytes);
  world.run_for(milliseconds(300));  // longer than the timeout since the first send's losses began
  small_only = false;
  REQUIRE(world.run_until_completed(0, 2, milliseconds(5000)));
  CHECK(world.completion(0, second)->status == Status::ok);
  CHECK(failure_of(world, 0) == nullptr);
}

}  // namespace
}  // namespace hawser::test
