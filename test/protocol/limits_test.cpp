// SPDX-License-Identifier: Apache-2.0
// Every limit is back-pressure: `again`, or a wait, never a loss or a hang.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/message/message_table.hpp"
#include "test/protocol/exchange.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::milliseconds;
using proto::Time;

// Moves `count` messages from node 0 to node 1, posting whenever the limits allow it.
void move_messages(World& world, Exchange& exchange, std::size_t count, std::size_t bytes,
                   proto::Duration limit) {
  std::size_t sends = 0;
  std::size_t receives = 0;
  const bool done = world.run_until(
      [&] {
        while (receives < count && exchange.try_receive(1, 0, receives, bytes)) ++receives;
        while (sends < count && exchange.try_send(0, 1, sends, bytes)) ++sends;
        return sends == count && receives == count && exchange.settled();
      },
      limit);
  INFO(sends << " sends and " << receives << " receives posted");
  REQUIRE(done);
  exchange.check_all_ok();
}

TEST_CASE("limits__thousands_of_small_messages_in_a_burst") {
  WorldConfig config;
  config.nics = 2;
  config.tunables.max_operations = 8192;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  move_messages(world, exchange, 5000, 16, milliseconds(1000));
  CHECK(world.stats(0).fragments_retransmitted == 0);
  CHECK(world.stats(0).message_probes_sent == 0);
  exchange.check_quiet();
}

TEST_CASE("limits__each_of_them_tiny") {
  struct Limit {
    std::string_view name;
    std::uint64_t value;
  };
  const Limit limits[] = {
      {"max_operations", 32},        {"max_messages_per_peer", 4}, {"max_receive_messages", 16},
      {"max_in_flight_packets", 64}, {"packet_buffers", 256},      {"max_path_slots", 1},
      {"poll_budget_packets", 8},    {"unexpected_bytes", 65536},  {"initial_window_packets", 1},
      {"grant_window_bytes", 65536}, {"ack_every_packets", 256},   {"fragment_bytes", 256},
      {"unscheduled_bytes", 0},      {"max_ack_delay_us", 20000},  {"timer_granularity_us", 10000},
      {"delay_target_us", 1}};
  for (const Limit& limit : limits) {
    for (const std::string faults :
         {"delay=5us", "delay=5us,loss=0.05,duplicate=0.02,reorder=0.1"}) {
      INFO(limit.name << " = " << limit.value << ", " << faults);
      WorldConfig config;
      config.nics = 2;
      config.faults = faults;
      REQUIRE(config.tunables.set(limit.name, limit.value) == Status::ok);
      World world(config);
      world.connect_all();
      Exchange exchange(world);
      move_messages(world, exchange, 100, 3000, milliseconds(5000));
      move_messages(world, exchange, 100, 70000, milliseconds(5000));
      exchange.check_quiet(milliseconds(1000));
    }
  }
}

TEST_CASE("limits__all_of_them_tiny") {
  for_each_seed(5, [](proto::Random& random) {
    WorldConfig config;
    config.nics = 2;
    config.seed = random.next();
    config.faults = "delay=5us,loss=0.05,duplicate=0.02,reorder=0.1,corrupt=0.01";
    Tunables& tunables = config.tunables;
    tunables.max_operations = 32;
    tunables.max_messages_per_peer = 4;
    tunables.max_receive_messages = 16;
    tunables.max_in_flight_packets = 64;
    tunables.packet_buffers = 256;
    tunables.poll_budget_packets = 8;
    tunables.unexpected_bytes = 65536;
    tunables.max_peers = 2;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    move_messages(world, exchange, 200, 20000, milliseconds(20000));
    exchange.check_quiet(milliseconds(1000));
  });
}

TEST_CASE("limits__again_says_which_calls_were_not_taken", "[M6]") {
  WorldConfig config;
  config.tunables.max_operations = 16;
  config.tunables.max_messages_per_peer = 4;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (std::uint64_t i = 0; i < 4; ++i)
    (void)exchange.send(0, 1, i, 10, {.level = Level::delivered});
  CHECK_FALSE(exchange.try_send(0, 1, 4, 10).has_value());
  for (std::uint64_t i = 0; i < 4; ++i) (void)exchange.receive(1, 0, i, 10);
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(exchange.try_send(0, 1, 4, 10).has_value());
  (void)exchange.receive(1, 0, 4, 10);
  REQUIRE(exchange.run(milliseconds(100)));
  for (std::uint64_t i = 0; i < 16; ++i) (void)exchange.receive(1, 0, 100 + i, 10);
  CHECK_FALSE(exchange.try_receive(1, 0, 200, 10).has_value());
  for (std::uint64_t i = 0; i < 16; ++i) {
    const auto sent = exchange.try_send(0, 1, 100 + i, 10);
    REQUIRE(sent.has_value());
    REQUIRE(exchange.run_until([&] { return exchange.sent(*sent).completion.has_value(); },
                               milliseconds(100)));
  }
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_quiet();
}

TEST_CASE("limits__a_message_that_waits_holds_up_none_that_come_after_it", "[M6]") {
  WorldConfig config;
  config.tunables.max_messages_per_peer = 64;
  config.faults = "delay=2us,loss=0.001";
  World world(config);
  world.connect_all();
  const std::string large(300000, 'a');  // waits for its receive, and for a grant
  (void)world.send(0, 1, 1, large);
  std::vector<std::uint32_t> out(64);
  std::uint32_t later = 0;
  // Posts `count` messages at once, each with its receive. Returns when they have ended or one was
  // refused.
  const auto pass = [&](std::uint32_t count) {
    std::vector<std::uint32_t> in(count);
    bool taken = true;
    const std::size_t sent = world.completions(0).size(), received = world.completions(1).size();
    std::uint32_t posted = 0;
    for (; taken && posted < count; posted += taken ? 1 : 0) {
      in[posted] = later + posted;
      proto::SendRequest send;
      send.peer = world.peer(0, 1);
      send.tag = 2;
      send.data = reinterpret_cast<const std::byte*>(&in[posted]);
      send.bytes = sizeof in[posted];
      taken = world.post(0, send) == Status::ok;
      if (!taken) break;
      proto::ReceiveRequest receive;
      receive.peer = world.peer(1, 0);
      receive.tag = 2;
      receive.data = reinterpret_cast<std::byte*>(&out[posted]);
      receive.bytes = sizeof out[posted];
      REQUIRE(world.post(1, receive) == Status::ok);
    }
    REQUIRE(world.run_until_completed(0, sent + posted, milliseconds(1000)));
    REQUIRE(world.run_until_completed(1, received + posted, milliseconds(1000)));
    REQUIRE(std::equal(in.begin(), in.begin() + posted, out.begin()));
    later += posted;
    return taken;
  };
  while (pass(63)) {
  }
  CHECK(later == proto::MessageTable::kSpan - 1);
  std::string buffer(large.size(), 'b');
  (void)world.receive(1, world.peer(1, 0), 1, buffer);
  REQUIRE(world.run_until_completed(0, later + 1, milliseconds(1000)));
  REQUIRE(world.run_until_completed(1, later + 1, milliseconds(1000)));
  CHECK(buffer == large);
  CHECK(pass(63));
  for (const std::uint32_t node : {0u, 1u}) {
    for (const Completion& completion : world.completions(node)) {
      if (completion.status != Status::ok) FAIL(to_string(completion.status));
    }
  }
}

// A peer floods an endpoint with messages that have no receive. The flood must not keep another
// peer's message from the receive that waits for it.
TEST_CASE("limits__a_flood_of_unexpected_messages_takes_no_descriptor_that_a_receive_owns",
          "[M8]") {
  WorldConfig config;
  config.nodes = 3;
  config.tunables.max_receive_messages = 16;
  config.tunables.max_operations = 64;
  config.tunables.max_peers = 4;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  const auto flood = [&] {
    const auto tag = exchange.sends();
    if (tag < 300) (void)exchange.try_send(1, 0, 1000 + tag, 10);
  };
  (void)world.run_until([&] { return (exchange.collect(), flood(), false); }, milliseconds(100));
  REQUIRE(world.drops(0, DropReason::no_descriptor) > 0);
  const auto wanted = exchange.receive(0, 2, 7, 100);
  const auto sent = exchange.send(2, 0, 7, 100);
  REQUIRE(exchange.run_until(
      [&] { return exchange.received(wanted).completion && exchange.sent(sent).completion; },
      milliseconds(50)));
  std::size_t posted = 0;
  REQUIRE(world.run_until(
      [&] {
        flood();
        if (posted < 299 && exchange.try_receive(0, kAnyNode, 0, 10, 0)) ++posted;
        exchange.collect();
        return exchange.sends() == 300 && posted == 299 && exchange.settled();
      },
      milliseconds(20000)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

// Messages behind a gap have taken all descriptors. The message that fills the gap still finds one.
TEST_CASE("limits__the_lowest_number_always_finds_a_descriptor", "[M8]") {
  for_each_seed(20, [](proto::Random& random) {
    WorldConfig config;
    config.nodes = 4;
    config.seed = random.next();
    config.faults = "delay=5us/100us,loss=0.3";
    config.tunables.max_receive_messages = 16;
    config.tunables.max_peers = 4;
    config.tunables.max_operations = 512;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 100; ++i) {
      for (std::uint32_t from = 1; from < 4; ++from) (void)exchange.send(from, 0, i, 100);
    }
    world.run_for(milliseconds(30));
    for (std::uint64_t i = 0; i < 100; ++i) {
      for (std::uint32_t from = 1; from < 4; ++from) (void)exchange.receive(0, from, i, 100);
    }
    REQUIRE(exchange.run(milliseconds(30000)));
    exchange.check_all_ok();
    exchange.check_quiet();
  });
}

// A peer that does not answer keeps its packets in flight until peer_timeout. They must not use up
// the limit of packets in flight, or one dead process would hold up all other peers.
TEST_CASE("limits__a_silent_peer_holds_up_no_other", "[A10]") {
  WorldConfig config;
  config.nodes = 3;
  config.nics = 2;
  config.tunables.max_in_flight_packets = 64;
  config.tunables.max_peers = 4;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.all_to_all(100);
  REQUIRE(exchange.run(milliseconds(100)));
  world.pause(2, true);
  for (std::uint64_t i = 0; i < 200; ++i) (void)exchange.send(0, 2, 1000 + i, 4000);
  world.run_for(milliseconds(20));
  REQUIRE(world.stats(0).packets_in_flight >= 64);
  const std::size_t first = exchange.sends();
  for (std::uint64_t i = 0; i < 50; ++i) exchange.message(0, 1, 2000 + i, 20000);
  REQUIRE(exchange.run_until(
      [&] {
        for (std::size_t i = first; i < exchange.sends(); ++i) {
          if (!exchange.sent(i).completion) return false;
        }
        return true;
      },
      milliseconds(50)));
  // The silent peer returns, and nothing is lost.
  world.pause(2, false);
  for (std::uint64_t i = 0; i < 200; ++i) (void)exchange.receive(2, 0, 1000 + i, 4000);
  REQUIRE(exchange.run(milliseconds(2000)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

// Packets that wait for silent peers must not take the turns of peers that answer, either.
TEST_CASE("limits__many_silent_peers_delay_no_other", "[A10]") {
  constexpr std::uint32_t kSilent = 6;
  WorldConfig config;
  config.nodes = 2 + kSilent;
  config.nics = 2;
  config.tunables.max_in_flight_packets = 64;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.all_to_all(100);
  REQUIRE(exchange.run(milliseconds(100)));
  const auto time_of_fifty = [&](std::uint64_t tag) {
    const Time begin = world.now();
    const std::size_t first = exchange.sends();
    for (std::uint64_t i = 0; i < 50; ++i) exchange.message(0, 1, tag + i, 20000);
    REQUIRE(exchange.run_until(
        [&] {
          for (std::size_t i = first; i < exchange.sends(); ++i) {
            if (!exchange.sent(i).completion) return false;
          }
          return true;
        },
        milliseconds(500)));
    return world.now() - begin;
  };
  const Duration calm = time_of_fifty(1000);
  for (std::uint32_t node = 2; node < config.nodes; ++node) {
    world.pause(node, true);
    for (std::uint64_t i = 0; i < 100; ++i) (void)exchange.send(0, node, 3000 + i, 4000);
  }
  world.run_for(milliseconds(40));
  REQUIRE(world.stats(0).packets_in_flight >= 64);
  const Duration beside = time_of_fifty(2000);
  INFO(calm.ns << " ns alone, " << beside.ns << " ns beside silent peers");
  CHECK(beside < calm * 2);
  for (std::uint32_t node = 2; node < config.nodes; ++node) {
    world.pause(node, false);
    for (std::uint64_t i = 0; i < 100; ++i) (void)exchange.receive(node, 0, 3000 + i, 4000);
  }
  REQUIRE(exchange.run(milliseconds(3000)));
  exchange.check_all_ok();
}

// All descriptors are taken, and both peers are short of them. The session of one peer ends in the
// middle of its messages. Their descriptors go to the other peer at once. Its next message but one
// uses the descriptor of the receive that waits for it.
TEST_CASE("limits__what_a_peer_leaves_behind_serves_the_others_at_once", "[M8][M9]") {
  WorldConfig config;
  config.nodes = 3;
  config.tunables.max_receive_messages = 16;
  config.tunables.max_peers = 4;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (int i = 0; i < 2; ++i) (void)exchange.send(2, 1, 9, 1000000);
  world.run_for(milliseconds(5));
  for (int i = 0; i < 14; ++i) (void)exchange.send(0, 1, 7, 1000);
  world.run_for(milliseconds(5));
  // One message uses the peer's reserve; the others are turned away.
  for (int i = 0; i < 2; ++i) (void)exchange.send(0, 1, 7, 1000);
  for (int i = 0; i < 2; ++i) (void)exchange.send(2, 1, 9, 1000000);
  const auto wanted = exchange.receive(1, 0, 8, 1000);
  (void)exchange.send(0, 1, 8, 1000);
  world.run_for(milliseconds(500));  // the receiver asks ever less often
  REQUIRE(world.drops(1, DropReason::no_descriptor) > 0);
  REQUIRE_FALSE(exchange.received(wanted).completion);
  world.disconnect(2, 1);
  CHECK(exchange.run_until([&] { return exchange.received(wanted).completion.has_value(); },
                           milliseconds(5)));
}

// Acknowledgements of so many paths don't fit into one packet, and requests need room beside them.
TEST_CASE("limits__sixteen_nics_a_side") {
  std::uint64_t requests = 0;
  for_each_seed(3, [&](proto::Random& random) {
    WorldConfig config;
    config.nics = 16;
    config.seed = random.next();
    config.faults = "delay=20us/100us,loss=0.05";
    config.tunables.ack_every_packets = 256;
    config.tunables.fragment_bytes = 512;
    config.tunables.initial_window_packets = 1024;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 4; ++i) exchange.message(0, 1, i, 4000000);
    REQUIRE(exchange.run(milliseconds(2000)));
    exchange.check_all_ok();
    exchange.check_quiet(milliseconds(500));
    requests += world.stats(1).requests_sent;
  });
  CHECK(requests > 0);
}

TEST_CASE("limits__sixteen_nodes_all_to_all") {
  for (const std::string faults :
       {"delay=5us", "delay=5us/10us,loss=0.02,duplicate=0.01,reorder=0.02"}) {
    INFO(faults);
    WorldConfig config;
    config.nodes = 16;
    config.nics = 2;
    config.faults = faults;
    config.tunables.max_operations = 256;
    config.tunables.max_receive_messages = 256;
    World world(config);
    Exchange exchange(world);
    for (std::uint32_t a = 0; a < 16; ++a) {
      for (std::uint32_t b = 0; b < 16; ++b) {
        if (a == b) continue;
        (void)exchange.receive(b, a, a, 100000);
        (void)exchange.send(a, b, a, 2000 + 78000 * ((a + b) % 2));
      }
    }
    REQUIRE(exchange.run(milliseconds(10000)));
    exchange.check_all_ok();
    exchange.check_quiet(milliseconds(500));
  }
}

// Small messages leave until every number of their path is in flight. All of them are lost, and so
// are the first probes.
TEST_CASE("limits__a_path_whose_numbers_are_all_in_flight_is_probed", "[L8][A5]") {
  for (const std::uint64_t blackout_ms : {1, 20, 300}) {
    INFO(blackout_ms << " ms");
    WorldConfig config;
    config.tunables.max_in_flight_packets = 4096;
    config.tunables.initial_window_packets = 128;
    config.ring_slots = 4096;
    World world(config);
    constexpr std::uint64_t kCount = 1100;
    std::vector<std::string> in(kCount + 1, std::string(8, '\0'));
    const std::string bytes(8, 'x');
    for (std::uint64_t i = 0; i <= kCount; ++i) {
      (void)world.receive(1, world.peer(1, 0), i, in[i]);
    }
    (void)world.send(0, 1, 0, bytes);
    REQUIRE(world.run_until_completed(1, 1, milliseconds(50)));
    world.apply(0, "loss=1");
    for (std::uint64_t i = 1; i <= kCount; ++i) (void)world.send(0, 1, i, bytes);
    world.run_for(milliseconds(blackout_ms));
    world.apply(0, "delay=5us,loss=0");
    REQUIRE(world.run_until_completed(1, kCount + 1, milliseconds(3000)));
    REQUIRE(world.run_until_completed(0, kCount + 1, milliseconds(3000)));
    for (const Completion& completion : world.completions(0)) {
      REQUIRE(completion.status == Status::ok);
    }
  }
}

// Each request makes the sender send a packet that is turned away again.
TEST_CASE("limits__what_was_turned_away_is_asked_for_ever_more_seldom", "[M9]") {
  WorldConfig config;
  config.tunables.max_receive_messages = 16;
  config.tunables.timer_granularity_us = 5;
  config.tunables.peer_timeout_ms = 1000;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (int i = 0; i < 18; ++i) (void)exchange.send(0, 1, 7, 1000);
  world.run_for(milliseconds(5000));
  CHECK(world.drops(1, DropReason::no_descriptor) > 0);
  CHECK(world.stats(1).requests_sent < 60);
  for (int i = 0; i < 18; ++i) (void)exchange.receive(1, 0, 7, 1000);
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
