// SPDX-License-Identifier: Apache-2.0
// Tag matching seen from outside: wildcards, MPI's order across lost envelopes, truncation,
// synchronous sends, probing and cancelling.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

TEST_CASE("matching__takes_masks_and_any_peer_into_account", "[M12]") {
  WorldConfig config;
  config.nodes = 3;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  // The receives are in the order of posting. Each message may match only one of them.
  const auto exact = exchange.receive(0, 1, 0x1234, 100);
  const auto low_bits_free = exchange.receive(0, 1, 0x5600, 100, ~std::uint64_t{0xff});
  const auto any_peer = exchange.receive(0, kAnyNode, 0x77, 100);
  const auto anything = exchange.receive(0, kAnyNode, 0, 100, 0);
  const auto other = exchange.send(2, 0, 0x1234, 10);  // the right tag, but from another peer
  REQUIRE(exchange.run_until([&] { return exchange.received(anything).serial.has_value(); },
                             milliseconds(100)));
  const auto a = exchange.send(1, 0, 0x56ab, 20);
  const auto b = exchange.send(2, 0, 0x77, 30);
  const auto c = exchange.send(1, 0, 0x1234, 40);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  CHECK(exchange.received(anything).serial == exchange.sent(other).serial);
  CHECK(exchange.received(low_bits_free).serial == exchange.sent(a).serial);
  CHECK(exchange.received(any_peer).serial == exchange.sent(b).serial);
  CHECK(exchange.received(exact).serial == exchange.sent(c).serial);
  CHECK(exchange.received(any_peer).completion->peer == world.peer(0, 2));
  exchange.check_quiet();
}

TEST_CASE("matching__keeps_contexts_apart") {
  World world({});
  world.connect_all();
  std::string first(8, ' ');
  std::string second(8, ' ');
  const auto post = [&](std::string& buffer, std::uint16_t channel) {
    proto::ReceiveRequest request;
    request.peer = world.peer(1, 0);
    request.channel = channel;
    request.tag = 5;
    request.data = reinterpret_cast<std::byte*>(buffer.data());
    request.bytes = buffer.size();
    REQUIRE(world.post(1, request) == Status::ok);
    return request.operation;
  };
  const OperationId other = post(first, 1);
  const OperationId wanted = post(second, 2);
  const std::string bytes = "12345678";
  proto::SendRequest request;
  request.peer = world.peer(0, 1);
  request.channel = 2;
  request.tag = 5;
  request.data = reinterpret_cast<const std::byte*>(bytes.data());
  request.bytes = bytes.size();
  REQUIRE(world.post(0, request) == Status::ok);
  REQUIRE(world.run_until_completed(1, 1, milliseconds(100)));
  CHECK(world.completion(1, wanted) != nullptr);
  CHECK(world.completion(1, wanted)->channel == 2);
  CHECK(world.completion(1, other) == nullptr);
  CHECK(second == bytes);
}

TEST_CASE("matching__follows_the_order_of_sending_whatever_is_lost", "[M11]") {
  for_each_seed(60, [](proto::Random& random) {
    WorldConfig config;
    config.nodes = 3;
    config.nics = 1 + static_cast<std::uint32_t>(random.below(3));
    config.seed = random.next();
    config.faults = "delay=5us/20us,loss=0.2,duplicate=0.05,reorder=0.1";
    config.tunables.unscheduled_bytes = random.below(3) * 8192;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    const auto receive = [&] {
      const std::uint64_t mask = random.chance(0.3) ? 0 : random.chance(0.3) ? 1 : kWholeTag;
      const auto from =
          random.chance(0.4) ? kAnyNode : 1 + static_cast<std::uint32_t>(random.below(2));
      (void)exchange.receive(0, from, random.below(3), 20000, mask);
    };
    for (int i = 0; i < 20; ++i) receive();
    for (int i = 0; i < 40; ++i) {
      const auto from = 1 + static_cast<std::uint32_t>(random.below(2));
      (void)exchange.send(from, 0, random.below(3), random.below(20000));
      if (random.chance(0.5)) world.run_for(microseconds(random.below(200)));
      if (random.chance(0.5)) receive();
    }
    // Fetch the messages that are left over.
    world.run_for(milliseconds(20));
    for (int i = 0; i < 40; ++i) (void)exchange.receive(0, kAnyNode, 0, 20000, 0);
    REQUIRE(exchange.run_until(
        [&] {
          for (std::size_t i = 0; i < exchange.sends(); ++i) {
            if (exchange.sent(i).deliveries == 0) return false;
          }
          return true;
        },
        milliseconds(5000)));
    exchange.check();
  });
}

TEST_CASE("matching__a_lost_envelope_holds_up_the_later_messages_of_its_peer_only", "[M11]") {
  // The first data packet from node 1 is lost, time and again, for 20 ms.
  WorldConfig config;
  config.nodes = 3;
  World* running = nullptr;
  proto::Time block_until{};
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
    if (running == nullptr || node != 1 || packet.direction != engine::Direction::tx) return {};
    if (!(running->now() < block_until)) return {};
    return engine::Fate{.drop = message_of(packet) == 0u};
  };
  World world(config);
  running = &world;
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  block_until = world.now() + milliseconds(20);
  const auto first = exchange.receive(0, 1, 0, 100, 0);
  const auto second = exchange.receive(0, 1, 0, 100, 0);
  const auto other = exchange.receive(0, 2, 0, 100, 0);
  (void)exchange.send(1, 0, 1, 50);
  (void)exchange.send(1, 0, 2, 60);
  (void)exchange.send(2, 0, 3, 70);
  world.run_for(milliseconds(10));
  exchange.collect();
  CHECK(exchange.received(other).serial == 3u);
  CHECK_FALSE(exchange.received(first).serial.has_value());
  CHECK_FALSE(exchange.received(second).serial.has_value());
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(exchange.received(first).serial == 1u);
  CHECK(exchange.received(second).serial == 2u);
  exchange.check_quiet();
}

TEST_CASE("matching__truncates_and_says_so_where_it_was_asked_for", "[M17]") {
  for (const std::size_t bytes : {100, 4096, 65536, 70000, 300000}) {
    for (const std::size_t room : {std::size_t{0}, std::size_t{1}, bytes / 2, bytes - 1}) {
      INFO(bytes << " bytes into " << room);
      World world({});
      world.connect_all();
      Exchange exchange(world);
      const auto accepted = exchange.send(0, 1, 1, bytes);
      const auto delivered = exchange.send(0, 1, 2, bytes, {.level = Level::delivered});
      const auto r1 = exchange.receive(1, 0, 1, room);
      const auto r2 = exchange.receive(1, 0, 2, room);
      REQUIRE(exchange.run(milliseconds(200)));
      CHECK(exchange.sent(accepted).completion->status == Status::ok);
      CHECK(exchange.sent(delivered).completion->status == Status::truncated);
      CHECK(exchange.received(r1).completion->status == Status::truncated);
      CHECK(exchange.received(r2).completion->status == Status::truncated);
      exchange.check_quiet();
    }
  }
}

TEST_CASE("matching__a_synchronous_send_waits_for_its_receive", "[M18]") {
  for (const std::size_t bytes : {0, 100, 65536, 500000}) {
    INFO(bytes << " bytes");
    World world({});
    world.connect_all();
    Exchange exchange(world);
    const auto delivered = exchange.send(0, 1, 1, bytes, {.level = Level::delivered});
    const auto accepted = exchange.send(0, 1, 2, std::min<std::size_t>(bytes, 60000));
    world.run_for(milliseconds(3000));
    exchange.collect();
    CHECK_FALSE(exchange.sent(delivered).completion.has_value());
    CHECK(exchange.sent(accepted).completion.has_value());
    (void)exchange.receive(1, 0, 1, bytes);
    (void)exchange.receive(1, 0, 2, bytes);
    const proto::Time posted = world.now();
    REQUIRE(exchange.run(milliseconds(2000)));
    CHECK((world.now() - posted).ns < milliseconds(20).ns);
    exchange.check_all_ok();
    exchange.check_quiet();
  }
}

TEST_CASE("matching__a_send_that_waits_for_ever_is_no_failure", "[M5]") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 1000;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 100, {.level = Level::delivered});
  (void)exchange.send(0, 1, 2, 1000000);
  world.run_for(milliseconds(600 * 1000));
  exchange.collect();
  CHECK_FALSE(exchange.sent(0).completion.has_value());
  (void)exchange.receive(1, 0, 1, 100);
  (void)exchange.receive(1, 0, 2, 1000000);
  REQUIRE(exchange.run(milliseconds(1000)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

TEST_CASE("matching__probe_finds_the_oldest_unmatched_message") {
  World world({});
  world.connect_all();
  Exchange exchange(world);
  Envelope found;
  const auto probe = [&](PeerId peer, std::uint64_t tag, std::uint64_t mask) {
    return world.endpoint(1).probe(peer, 0, tag, mask, found);
  };
  CHECK(probe(kAnyPeer, 0, 0) == Status::again);
  (void)exchange.send(0, 1, 5, 1000);
  (void)exchange.send(0, 1, 6, 100000);  // longer than the unscheduled bytes
  world.run_for(milliseconds(10));
  REQUIRE(probe(kAnyPeer, 0, 0) == Status::ok);
  CHECK(found.tag == 5);
  CHECK(found.bytes == 1000);
  CHECK(found.peer == world.peer(1, 0));
  CHECK(found.immediate == 1);
  REQUIRE(probe(world.peer(1, 0), 6, kWholeTag) == Status::ok);
  CHECK(found.bytes == 100000);
  CHECK(probe(kAnyPeer, 7, kWholeTag) == Status::again);
  CHECK(probe(PeerId{77}, 0, 0) == Status::unknown_peer);
  (void)exchange.receive(1, kAnyNode, 5, 1000);
  (void)exchange.receive(1, kAnyNode, 6, 100000);
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(probe(kAnyPeer, 0, 0) == Status::again);
  exchange.check_quiet();
}

TEST_CASE("matching__a_receive_can_be_cancelled_until_a_message_has_matched_it") {
  World world({});
  world.connect_all();
  Exchange exchange(world);
  const auto cancelled = exchange.receive(1, 0, 1, 1000000);
  const auto kept = exchange.receive(1, kAnyNode, 1, 1000000);
  const OperationId operation = exchange.received(cancelled).operation;
  REQUIRE(world.cancel(1, operation) == Status::ok);
  CHECK(world.cancel(1, operation) == Status::unknown_operation);
  CHECK(world.cancel(1, OperationId{12345}) == Status::unknown_operation);
  CHECK(world.cancel(1, kNoOperation) == Status::unknown_operation);
  const auto sent = exchange.send(0, 1, 1, 1000000);
  // The message has matched and is under way.
  REQUIRE(world.run_until([&] { return world.stats(1).data_bytes_received > 100000; },
                          milliseconds(100)));
  CHECK(world.cancel(1, exchange.received(kept).operation) == Status::too_late);
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(exchange.received(cancelled).completion->status == Status::cancelled);
  CHECK(exchange.received(cancelled).completion->peer == world.peer(1, 0));
  CHECK(exchange.received(kept).serial == exchange.sent(sent).serial);
  CHECK(world.cancel(1, exchange.received(kept).operation) == Status::unknown_operation);
  exchange.check_quiet();
}

}  // namespace
}  // namespace hawser::test
