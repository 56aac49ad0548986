// SPDX-License-Identifier: Apache-2.0
// Scenes of messages, as lists of events: lost statuses, full stores, scarce descriptors, NICs that
// hold on to buffers, forged and late packets.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/injector.hpp"
#include "test/protocol/packets.hpp"
#include "test/protocol/timeline.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::MessageStatus;
using proto::wire::PacketType;

bool completed(World& world, std::uint32_t node, OperationId operation) {
  return world.completion(node, operation) != nullptr;
}

// (1) Envelope 7 is lost. 8 gets NO_ROOM, and its sender's timers stop. 7 is retransmitted and
// matched, and then 8 completes as well.
TEST_CASE("scenario_1__an_envelope_is_lost_in_front_of_one_that_found_no_room", "[M3]") {
  Loss loss{[](std::uint32_t node, const FaultPacket& packet) {
              return node == 0 && message_of(packet) == 7u;
            },
            12};
  WorldConfig config;
  config.tunables.unexpected_bytes = 65536;
  config.hook = std::ref(loss);
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  std::size_t seventh = 0;
  play(world, {{microseconds(0),
                [&] {  // 0 to 6: they fill the store
                  for (std::uint64_t i = 0; i < 7; ++i) (void)exchange.send(0, 1, i, 9000);
                }},
               {milliseconds(10), [&] { seventh = exchange.send(0, 1, 7, 20000); }},
               {milliseconds(10), [&] { (void)exchange.send(0, 1, 8, 50000); }},
               {milliseconds(12),
                [&] {
                  CHECK(world.stats(1).no_room_answers > 0);
                  CHECK_FALSE(exchange.sent(seventh).completion.has_value());
                  (void)exchange.receive(1, 0, 7, 20000);
                  (void)exchange.receive(1, 0, 8, 50000);
                }},
               {milliseconds(13), [&] {
                  for (std::uint64_t i = 0; i < 7; ++i) (void)exchange.receive(1, 0, i, 9000);
                }}});
  REQUIRE(exchange.run(milliseconds(2000)));
  CHECK(loss.lost == 12);
  exchange.check_all_ok();
  exchange.check_quiet();
}

// (2) A synchronous send is accepted and later delivered, and the first packet of either status is
// lost.
TEST_CASE("scenario_2__both_statuses_of_a_synchronous_send_are_lost", "[M2][M7]") {
  MessageStatus next = MessageStatus::accepted;
  Loss loss{[&next](std::uint32_t node, const FaultPacket& packet) {
              if (node != 1 || !has_status(packet, next)) return false;
              next = MessageStatus::delivered;
              return true;
            },
            2};
  WorldConfig config;
  config.hook = std::ref(loss);
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  std::size_t sent = 0;
  std::size_t received = 0;
  play(world, {{milliseconds(5),
                [&] { sent = exchange.send(0, 1, 1, 3000, {.level = Level::delivered}); }},
               {milliseconds(6), [&] {
                  CHECK(loss.lost == 1);  // ACCEPTED, which wouldn't have been enough
                  received = exchange.receive(1, 0, 1, 3000);
                }}});
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(loss.lost == 2);
  exchange.check_all_ok();
  CHECK(exchange.received(received).serial == exchange.sent(sent).serial);
  CHECK(world.stats(0).fragments_retransmitted == 0);  // the sender asks only for the status
  CHECK(world.stats(0).ptos + world.stats(0).message_probes_sent > 0);
  exchange.check_quiet();
}

// (3) The sender posts one more send than the window of envelopes holds, all without a receive.
// Then the receive of the last one comes first. NO_ROOM counts as an answer, so the other sends
// don't keep the last one out.
TEST_CASE("scenario_3__the_receive_of_the_last_of_very_many_sends_comes_first", "[M9]") {
  constexpr std::uint64_t kSends = 2001;
  WorldConfig config;
  config.tunables.max_messages_per_peer = kSends;
  config.tunables.max_operations = 4096;
  config.tunables.unexpected_bytes = 65536;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  std::size_t first_receive = 0;
  play(world,
       {{microseconds(0),
         [&] {
           for (std::uint64_t i = 0; i < kSends; ++i) {
             (void)exchange.send(0, 1, i, 100, {.level = Level::delivered});
           }
         }},
        {milliseconds(200), [&] { first_receive = exchange.receive(1, 0, kSends - 1, 100); }},
        {milliseconds(250), [&] {
           exchange.collect();
           CHECK(exchange.received(first_receive).completion.has_value());
           for (std::uint64_t i = 0; i + 1 < kSends; ++i) (void)exchange.receive(1, 0, i, 100);
         }}});
  REQUIRE(exchange.run(milliseconds(3000)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

// (4) An unexpected message of one peer takes all the store's room and all unscheduled bytes. The
// awaited message comes second, from the same peer and from another.
TEST_CASE("scenario_4__an_unexpected_message_eats_the_room_of_the_awaited_one", "[M13]") {
  for (const std::uint32_t from : {1u, 2u}) {
    INFO("the awaited one is from node " << from);
    WorldConfig config;
    config.nodes = 3;
    config.tunables.unexpected_bytes = 65536;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    std::size_t awaited = 0;
    std::size_t unexpected = 0;
    play(world, {{microseconds(0), [&] { awaited = exchange.receive(0, from, 2, 4000000); }},
                 {microseconds(0), [&] { unexpected = exchange.send(1, 0, 1, 5000000); }},
                 {milliseconds(2), [&] { (void)exchange.send(from, 0, 2, 4000000); }},
                 {milliseconds(30), [&] {
                    exchange.collect();
                    CHECK(exchange.received(awaited).completion.has_value());
                    CHECK_FALSE(exchange.sent(unexpected).completion.has_value());
                    CHECK(world.stats(0).unexpected_bytes_held == 65536);
                    (void)exchange.receive(0, 1, 1, 5000000);
                  }}});
    REQUIRE(exchange.run(milliseconds(200)));
    exchange.check_all_ok();
    exchange.check_quiet();
  }
}

// (5) One peer floods the endpoint. An awaited message of another peer has a low number and is lost
// again and again. Later messages of that peer have the last descriptors.
TEST_CASE("scenario_5__a_flood_while_an_awaited_low_number_has_no_descriptor", "[M8][M9]") {
  Loss loss{[](std::uint32_t node, const FaultPacket& packet) {
              return node == 2 && message_of(packet) == 0u;
            },
            8};
  WorldConfig config;
  config.nodes = 3;
  config.tunables.max_receive_messages = 16;
  config.tunables.max_peers = 4;
  config.tunables.max_operations = 128;
  config.hook = std::ref(loss);
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  std::size_t awaited = 0;
  play(world, {{milliseconds(5),
                [&] {  // message 0 is lost, the others lie behind it
                  for (std::uint64_t i = 0; i < 10; ++i) (void)exchange.send(2, 0, i, 100);
                }},
               {milliseconds(5),
                [&] {
                  for (std::uint64_t i = 0; i < 60; ++i) (void)exchange.send(1, 0, 100 + i, 100);
                }},
               {milliseconds(8), [&] {
                  CHECK(world.drops(0, DropReason::no_descriptor) > 0);
                  awaited = exchange.receive(0, 2, 0, 100);
                }}});
  REQUIRE(exchange.run_until([&] { return exchange.received(awaited).completion.has_value(); },
                             milliseconds(3000)));
  CHECK(loss.lost == 8);
  for (std::uint64_t i = 1; i < 10; ++i) (void)exchange.receive(0, 2, i, 100);
  for (std::uint64_t i = 0; i < 60; ++i) (void)exchange.receive(0, 1, 100 + i, 100);
  REQUIRE(exchange.run(milliseconds(5000)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

// The same without a way out: the store is full of messages that nobody receives, and the awaited
// message is behind more of them. After peer_timeout the receive fails with store_full; the sends
// are not affected.
TEST_CASE("store_full__ends_a_receive_whose_message_cannot_come_in", "[M10]") {
  WorldConfig config;
  config.nodes = 3;
  config.tunables.max_receive_messages = 16;
  config.tunables.max_operations = 128;
  config.tunables.max_peers = 4;
  config.tunables.peer_timeout_ms = 200;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  std::size_t awaited = 0;
  std::size_t of_any = 0;
  std::size_t of_other = 0;
  std::size_t late = 0;
  const auto status = [&](std::size_t i) {
    exchange.collect();
    const auto& completion = exchange.received(i).completion;
    return completion ? std::optional<Status>(completion->status) : std::nullopt;
  };
  std::vector<Happening> scene = {
      {milliseconds(5),
       [&] {
         for (std::uint64_t i = 0; i < 40; ++i) (void)exchange.send(1, 0, 1, 100);
         (void)exchange.send(1, 0, 2, 100);
       }},
      {milliseconds(10),
       [&] {
         awaited = exchange.receive(0, 1, 2, 100);
         of_any = exchange.receive(0, kAnyNode, 2, 100);
         of_other = exchange.receive(0, 2, 2, 100);
       }},
      {milliseconds(150),
       [&] {
         CHECK_FALSE(status(awaited));
         late = exchange.receive(0, 1, 2, 100);
       }},
      {milliseconds(260),
       [&] {
         CHECK(status(awaited) == Status::store_full);
         CHECK(status(of_any) == Status::store_full);
         CHECK_FALSE(status(of_other));  // no message of that peer was turned away
         CHECK_FALSE(status(late));      // it has not waited long enough
       }},
      {milliseconds(300),
       [&] {  // the program makes room, and the late receive gets its message
         for (std::uint64_t i = 0; i < 40; ++i) (void)exchange.receive(0, 1, 1, 100);
       }},
      {milliseconds(600), [&] {
         CHECK(status(late) == Status::ok);
         CHECK_FALSE(status(of_other));
         (void)exchange.send(2, 0, 2, 100);
       }}};
  play(world, scene);
  REQUIRE(exchange.run(milliseconds(200)));
  for (std::size_t i = 0; i < exchange.sends(); ++i) {
    CHECK(exchange.sent(i).completion->status == Status::ok);
  }
  CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
  exchange.check_quiet();
}

// A program that keeps receiving from a full store gets no store_full, however long one receive
// waits.
TEST_CASE("store_full__says_nothing_while_the_store_moves", "[M10]") {
  WorldConfig config;
  config.tunables.max_receive_messages = 16;
  config.tunables.max_operations = 256;
  config.tunables.peer_timeout_ms = 100;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t i = 0; i < 60; ++i) (void)exchange.send(0, 1, 1, 100);
  (void)exchange.send(0, 1, 2, 100);
  const auto awaited = exchange.receive(1, 0, 2, 100);
  for (std::uint64_t i = 0; i < 60; ++i) {
    world.run_for(milliseconds(50));
    (void)exchange.receive(1, 0, 1, 100);
  }
  REQUIRE(exchange.run(milliseconds(1000)));
  CHECK(exchange.received(awaited).completion->status == Status::ok);
  exchange.check_all_ok();
  exchange.check_quiet();
}

// (11) The session fails while a NIC holds on to a send's buffers. The status comes at once, and
// numbers and window go on in a new session. The program gets its bytes back when the NIC releases
// them.
TEST_CASE("scenario_11__a_failure_while_a_nic_holds_on_to_a_send", "[M25][M26][I2]") {
  WorldConfig config;
  config.nics = 2;
  config.tunables.peer_timeout_ms = 50;
  config.tunables.max_messages_per_peer = 4;
  World world(config);
  world.connect_all();
  Exchange before(world);
  Exchange after(world);
  std::size_t all_left = 0;
  std::size_t some_left = 0;
  std::size_t none_left = 0;
  std::vector<std::size_t> received;
  play(world,
       {{milliseconds(5),
         [&] {
           world.apply(0, 1, "late-reap=400ms");
           all_left = before.send(0, 1, 1, 40000, {.level = Level::delivered});
           some_left = before.send(0, 1, 2, 9000000, {.level = Level::delivered});
         }},
        {milliseconds(8), [&] { world.crash(1, true); }},
        {milliseconds(8),
         [&] { none_left = before.send(0, 1, 3, 100000000, {.level = Level::delivered}); }},
        {milliseconds(80),
         [&] {
           before.collect();
           for (const std::size_t i : {all_left, some_left}) {
             const auto& completion = before.sent(i).completion;
             REQUIRE(completion.has_value());
             CHECK(completion->status == Status::peer_timeout);
             CHECK_FALSE(completion->released);
           }
           CHECK(before.sent(all_left).completion->outcome_unknown);
           CHECK_FALSE(before.sent(some_left).completion->outcome_unknown);
           CHECK_FALSE(before.sent(none_left).completion->outcome_unknown);
           CHECK(world.stats(0).sends_unreleased >= 2);
           CHECK(world.cancel(0, before.sent(all_left).operation) == Status::unknown_operation);
           world.apply(0, 1, "late-reap=0");
           world.reconnect(0, 1);
         }},
        {milliseconds(85),
         [&] {
           // Three windows of messages: no message number waits for a NIC. (The completions do.)
           for (int i = 0; i < 12; ++i) {
             received.push_back(after.receive(1, kAnyNode, 1, 20000));
           }
         }},
        {milliseconds(120), [&] {
           const auto send = [&] {
             while (after.sends() < 12 && after.try_send(0, 1, 1, 20000)) {
             }
             after.collect();
             return std::ranges::all_of(
                 received, [&](std::size_t i) { return after.received(i).completion.has_value(); });
           };
           REQUIRE(world.run_until(send, milliseconds(50)));
           CHECK(world.stats(0).sends_unreleased >= 2);
         }}});
  // The bytes are checked once more when they come back: nothing may have used them.
  REQUIRE(before.run(milliseconds(500)));
  REQUIRE(after.run(milliseconds(500)));
  after.check_all_ok();
  CHECK(before.sent(all_left).completion->released);
  CHECK(before.sent(all_left).completion->outcome_unknown);
  CHECK(world.stats(0).sends_unreleased == 0);
}

// (13) A duplicate of a fragment arrives on another path during the copy of the first. The receiver
// claims the fragment's bit before the copy, and drops claimed fragments before it writes. A
// duplicate can't touch what the buffer gets after the claim, however long the copy takes.
TEST_CASE("scenario_13__a_duplicate_of_a_claimed_fragment_writes_nothing", "[M15]") {
  std::vector<Datagram> recorded;
  WorldConfig config;
  config.nics = 2;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (node != 0 || packet.direction != engine::Direction::tx) return {};
    const auto view = view_of(packet);
    if (view.type != PacketType::data || view.fragment->message != 0) return {};
    if (view.fragment->fragment == 0) {
      recorded.emplace_back(packet.queue, packet.header, packet.payload);
    }
    // The last fragment is lost for a while, so that the message stays open.
    return view.fragment->fragment == 3 && recorded.size() < 2 ? std::optional(Fate{.drop = true})
                                                               : std::nullopt;
  };
  World world(config);
  Injector injector(world);
  world.connect_all();
  world.run_for(milliseconds(5));
  std::string buffer(16384, ' ');
  const std::string bytes = pattern(1, 16384);
  const OperationId receive = world.receive(1, world.peer(1, 0), 1, buffer);
  (void)world.send(0, 1, 1, bytes);
  world.run_for(microseconds(50));
  REQUIRE(recorded.size() == 1);
  REQUIRE(buffer.substr(0, 4096) == bytes.substr(0, 4096));
  // Simulate a copy that has not ended yet: other bytes are in place, which the duplicate must not
  // touch.
  std::fill_n(buffer.begin(), 4096, 'c');
  Datagram again = recorded.front();
  again.header().path_number += 100;  // a retransmit has a path number of its own
  again.seal();
  const std::uint64_t duplicates = world.stats(1).duplicate_fragments;
  injector.send(1, 1, again);
  world.run_for(microseconds(50));
  CHECK(world.stats(1).duplicate_fragments == duplicates + 1);
  CHECK(buffer.substr(0, 4096) == std::string(4096, 'c'));
  recorded.emplace_back();
  REQUIRE(world.run_until([&] { return completed(world, 1, receive); }, milliseconds(100)));
  CHECK(buffer.substr(0, 4096) == std::string(4096, 'c'));
  CHECK(buffer.substr(4096) == bytes.substr(4096));
}

// (17) A sender with a grant for all its bytes is away for long. Others are served meanwhile, and
// the sender goes on where it was.
TEST_CASE("scenario_17__a_granted_sender_is_stopped_for_long") {
  WorldConfig config;
  config.nodes = 3;
  config.nics = 2;
  config.faults = "delay=5us,rate=1000000000";
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  std::size_t slow = 0;
  std::size_t quick = 0;
  play(world, {{milliseconds(5),
                [&] {
                  (void)exchange.receive(0, 1, 1, 30000000);
                  slow = exchange.send(1, 0, 1, 30000000);
                }},
               {milliseconds(8), [&] { world.pause(1, true); }},
               {milliseconds(10),
                [&] {
                  (void)exchange.receive(0, 2, 1, 10000000);
                  quick = exchange.send(2, 0, 1, 10000000);
                }},
               {milliseconds(200),
                [&] {
                  exchange.collect();
                  CHECK(exchange.sent(quick).completion.has_value());
                  CHECK_FALSE(exchange.sent(slow).completion.has_value());
                }},
               {milliseconds(5000), [&] {
                  world.pause(1, false);
                  world.wake(1);
                }}});
  REQUIRE(exchange.run(milliseconds(200)));
  exchange.check_all_ok();
  CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
  exchange.check_quiet();
}

// (20) A message ends while some of its granted fragments are in flight, and the next message gets
// its receive slot. The slot's generation has changed, so the fragments hit nothing.
TEST_CASE("scenario_20__a_slot_is_reused_while_a_late_fragment_of_its_old_message_flies", "[M29]") {
  std::vector<std::uint32_t> slots;  // as granted, message by message
  std::vector<std::uint32_t> generations;
  int delayed = 0;
  WorldConfig config;
  config.faults = "delay=5us,rate=200000000";
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx) return {};
    const auto view = view_of(packet);
    view.blocks.visit([&](const proto::wire::GrantBlock& grant) {
      if (node == 1 && grant.message == slots.size()) {
        slots.push_back(grant.rx_slot);
        generations.push_back(grant.rx_generation);
      }
    });
    if (node != 0 || view.type != PacketType::granted || view.fragment->message != 0 ||
        view.fragment->fragment < 600 || view.fragment->fragment % 40 != 0 || delayed == 8) {
      return {};
    }
    ++delayed;
    return Fate{.delay = milliseconds(15)};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  for (std::uint64_t tag : {1, 2}) {
    (void)exchange.send(0, 1, tag, 4000000);
  }
  (void)exchange.receive(1, 0, 1, 4000000);
  REQUIRE(exchange.run_until([&] { return exchange.received(0).completion.has_value(); },
                             milliseconds(100)));
  (void)exchange.send(0, 1, 3, 4000000);  // takes the slot that has just become free
  (void)exchange.receive(1, 0, 3, 4000000);
  (void)exchange.receive(1, 0, 2, 4000000);
  REQUIRE(exchange.run(milliseconds(300)));
  exchange.check_all_ok();
  exchange.check_quiet();
  REQUIRE(slots.size() == 3);
  CHECK(slots[0] == slots[2]);
  CHECK(generations[0] != generations[2]);
  CHECK(delayed == 8);
  CHECK(world.drops(1, DropReason::old_path_number) == 0);
  CHECK(world.drops(1, DropReason::below_floor) + world.drops(1, DropReason::bad_slot) >= 8);
}

}  // namespace
}  // namespace hawser::test
