// SPDX-License-Identifier: Apache-2.0
// Claims: a message that a probe found is kept from all receives until it is received by its id.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

std::optional<MessageId> try_claim(World& world, std::uint32_t node, std::uint64_t tag,
                                   std::uint64_t mask = kWholeTag, Envelope* found = nullptr) {
  Envelope envelope;
  MessageId message = kNoMessage;
  const Status status = world.endpoint(node).claim(kAnyPeer, 0, tag, mask, envelope, message);
  if (status == Status::again) return std::nullopt;
  REQUIRE(status == Status::ok);
  if (found != nullptr) *found = envelope;
  return message;
}

MessageId claim(World& world, std::uint32_t node, std::uint64_t tag) {
  const auto message = try_claim(world, node, tag);
  REQUIRE(message.has_value());
  return *message;
}

TEST_CASE("claim__keeps_a_message_from_every_receive_but_its_own", "[M27]") {
  for (const std::size_t bytes : {0, 100, 60000, 3000000}) {
    for (const Level level : {Level::accepted, Level::delivered}) {
      INFO(bytes << " bytes");
      World world({});
      world.connect_all();
      Exchange exchange(world);
      CHECK_FALSE(try_claim(world, 1, 1).has_value());
      const auto first = exchange.send(0, 1, 1, bytes, {.level = level});
      const auto second = exchange.send(0, 1, 1, bytes, {.level = level});
      world.run_for(milliseconds(5));
      Envelope envelope;
      const auto message = try_claim(world, 1, 1, kWholeTag, &envelope);
      REQUIRE(message.has_value());
      CHECK(envelope.immediate == exchange.sent(first).serial);
      CHECK(envelope.bytes == bytes);
      CHECK(world.stats(1).messages_claimed == 1);
      const auto ordinary = exchange.receive(1, kAnyNode, 0, bytes, 0);
      world.run_for(milliseconds(20));
      exchange.collect();
      CHECK(exchange.received(ordinary).serial == exchange.sent(second).serial);
      const auto own = exchange.receive_claimed(1, *message, bytes);
      REQUIRE(exchange.run(milliseconds(50)));
      CHECK(exchange.received(own).serial == exchange.sent(first).serial);
      exchange.check_all_ok();
      exchange.check_quiet();
      proto::ReceiveRequest again;
      again.claimed = *message;
      CHECK(world.post(1, again) == Status::unknown_operation);
      CHECK(world.endpoint(1).put_back(world.now(), *message) == Status::unknown_operation);
    }
  }
}

TEST_CASE("claim__a_buffer_of_no_bytes_is_rid_of_the_message") {
  World world({});
  world.connect_all();
  Exchange exchange(world);
  const auto sent = exchange.send(0, 1, 1, 200000, {.level = Level::delivered});
  world.run_for(milliseconds(5));
  const auto receive = exchange.receive_claimed(1, claim(world, 1, 1), 0);
  REQUIRE(exchange.run(milliseconds(50)));
  CHECK(exchange.received(receive).completion->status == Status::truncated);
  CHECK(exchange.sent(sent).completion->status == Status::truncated);
  exchange.check_quiet();
}

// A message that is put back is in its old place: in front of later messages, behind earlier ones.
TEST_CASE("claim__put_back_restores_the_order", "[M27]") {
  World world({});
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t tag : {1, 2, 1, 1}) (void)exchange.send(0, 1, tag, 100);
  world.run_for(milliseconds(5));
  const MessageId first = claim(world, 1, 1);
  const MessageId second = claim(world, 1, 2);
  const MessageId third = claim(world, 1, 1);
  for (const MessageId message : {third, first, second}) {
    REQUIRE(world.endpoint(1).put_back(world.now(), message) == Status::ok);
  }
  for (int i = 0; i < 4; ++i) (void)exchange.receive(1, kAnyNode, 0, 100, 0);
  REQUIRE(exchange.run(milliseconds(10)));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(exchange.received(i).serial == exchange.sent(i).serial);
  }
  exchange.check_all_ok();
  exchange.check_quiet();
}

TEST_CASE("claim__put_back_gives_it_to_a_receive_posted_meanwhile") {
  World world({});
  world.connect_all();
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 500000);
  world.run_for(milliseconds(5));
  const MessageId message = claim(world, 1, 1);
  const auto receive = exchange.receive(1, 0, 1, 500000);
  world.run_for(milliseconds(5));
  exchange.collect();
  CHECK_FALSE(exchange.received(receive).completion.has_value());
  REQUIRE(world.endpoint(1).put_back(world.now(), message) == Status::ok);
  world.wake(1);
  REQUIRE(exchange.run(milliseconds(20)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

TEST_CASE("claim__comes_before_its_senders_cancel", "[M27]") {
  World world({});
  world.connect_all();
  Exchange exchange(world);
  const auto sent = exchange.send(0, 1, 1, 500000, {.level = Level::delivered});
  world.run_for(milliseconds(5));
  const MessageId message = claim(world, 1, 1);
  REQUIRE(world.cancel(0, exchange.sent(sent).operation) == Status::ok);
  world.run_for(milliseconds(5));
  CHECK(world.cancel(0, exchange.sent(sent).operation) == Status::too_late);
  (void)exchange.receive_claimed(1, message, 500000);
  REQUIRE(exchange.run(milliseconds(20)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

// A claimed message that has arrived completely outlives its session, even when there is a new one.
// The rest of an incomplete message can't come any more.
TEST_CASE("claim__ends_with_its_session_unless_all_is_here") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 50;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t tag : {1, 2}) (void)exchange.send(0, 1, tag, 1000);
  (void)exchange.send(0, 1, 3, 1000000);
  (void)exchange.receive(1, 0, 4, 100);  // so that node 1 notices the failure
  world.run_for(milliseconds(5));
  const MessageId whole = claim(world, 1, 1);
  const MessageId kept = claim(world, 1, 2);
  const MessageId part = claim(world, 1, 3);
  world.crash(0, true);
  exchange.forget(0);
  world.run_for(milliseconds(100));
  CHECK(world.stats(1).messages_claimed == 2);
  proto::ReceiveRequest request;
  request.claimed = part;
  CHECK(world.post(1, request) == Status::unknown_operation);
  const auto receive = exchange.receive_claimed(1, whole, 1000);
  world.run_for(milliseconds(1));
  exchange.collect();
  CHECK(exchange.received(receive).completion->status == Status::ok);
  world.reconnect(0, 1);
  world.reconnect(1, 0);
  world.run_for(milliseconds(20));
  CHECK(world.stats(1).messages_claimed == 1);
  const auto later = exchange.receive_claimed(1, kept, 1000);
  world.run_for(milliseconds(1));
  exchange.collect();
  CHECK(exchange.received(later).completion->status == Status::ok);
  CHECK(world.stats(1).messages_claimed == 0);
  CHECK(world.stats(1).unexpected_bytes_held == 0);
}

// There are as many claims as descriptors, and receives of other messages still find theirs.
TEST_CASE("claim__counts_among_the_messages_without_a_receive", "[M27]") {
  WorldConfig config;
  config.tunables.max_receive_messages = 16;
  config.tunables.max_operations = 128;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t i = 0; i < 40; ++i) (void)exchange.send(0, 1, 1, 100);
  std::vector<MessageId> claims;
  world.run_for(milliseconds(20));
  while (const auto message = try_claim(world, 1, 1)) {
    claims.push_back(*message);
    world.run_for(milliseconds(20));
  }
  CHECK(claims.size() <= 16 + config.tunables.max_peers);
  CHECK(claims.size() >= 16);
  for (const MessageId message : claims) (void)exchange.receive_claimed(1, message, 100);
  for (std::size_t i = claims.size(); i < 40; ++i) (void)exchange.receive(1, 0, 1, 100);
  REQUIRE(exchange.run(milliseconds(2000)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

TEST_CASE("claim__mixed_with_receives_and_cancels") {
  for_each_seed(30, [](proto::Random& random) {
    WorldConfig config;
    config.seed = random.next();
    config.faults = "delay=5us/60us,loss=0.05,duplicate=0.05,reorder=0.1";
    config.tunables.unexpected_bytes = 131072;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    std::vector<MessageId> claims;
    for (std::uint64_t i = 0; i < 150; ++i) {
      const auto sent = exchange.send(0, 1, i % 3, random.below(90000));
      if (random.chance(0.1)) (void)world.cancel(0, exchange.sent(sent).operation);
      if (random.chance(0.4)) (void)exchange.receive(1, 0, i % 3, 90000);
      if (random.chance(0.4)) {
        if (const auto message = try_claim(world, 1, random.below(3))) claims.push_back(*message);
      }
      if (!claims.empty() && random.chance(0.3)) {
        std::swap(claims[random.below(claims.size())], claims.back());
        const MessageId message = claims.back();
        claims.pop_back();
        if (random.chance(0.5)) {
          (void)exchange.receive_claimed(1, message, 90000);
        } else {
          REQUIRE(world.endpoint(1).put_back(world.now(), message) == Status::ok);
        }
      }
      world.run_for(microseconds(random.below(100)));
    }
    for (const MessageId message : claims) (void)exchange.receive_claimed(1, message, 90000);
    for (std::uint64_t i = 0; i < 450; ++i) (void)exchange.receive(1, 0, i % 3, 90000);
    REQUIRE(exchange.run_until(
        [&] {
          for (std::size_t i = 0; i < exchange.sends(); ++i) {
            if (!exchange.sent(i).completion) return false;
          }
          return true;
        },
        milliseconds(5000)));
    world.run_for(milliseconds(200));
    exchange.collect();
    for (std::size_t i = 0; i < exchange.sends(); ++i) {
      const Exchange::Sent& sent = exchange.sent(i);
      CHECK(sent.deliveries == (sent.completion->status == Status::cancelled ? 0u : 1u));
    }
    CHECK(world.stats(1).messages_unmatched == 0);
    CHECK(world.stats(1).unexpected_bytes_held == 0);
    CHECK(world.allocations() == 0);
  });
}

}  // namespace
}  // namespace hawser::test
