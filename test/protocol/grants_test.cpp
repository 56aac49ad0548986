// SPDX-License-Identifier: Apache-2.0
// Grants: which message gets room first. A sender that stands still costs the others nothing.
// Nothing wedges, whatever is lost and whichever peer goes away.
#include <array>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "proto/wire/packet.hpp"
#include "test/protocol/exchange.hpp"
#include "test/protocol/message_scene.hpp"
#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;

// `senders` nodes and a receiver, node 0, whose link takes 1 GB/s.
WorldConfig many_to_one(std::uint32_t senders) {
  WorldConfig config;
  config.nodes = 1 + senders;
  config.faults = "delay=20us,rate=1000000000";
  config.tunables.max_peers = 128;
  return config;
}

void narrow(World& world) {
  world.apply(0, 0, "rx.rate=1000000000");
  world.connect_all();
  world.run_for(milliseconds(20));
}

// When each of the receives completed, in us after `begin`.
std::vector<std::int64_t> finishing_times(World& world, Exchange& exchange) {
  const Time begin = world.now();
  std::vector<std::int64_t> times(exchange.receives(), -1);
  const auto done = [&] {
    exchange.collect();
    bool all = true;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (times[i] < 0 && exchange.received(i).completion) {
        times[i] = (world.now() - begin).ns / 1000;
      }
      all &= times[i] >= 0;
    }
    return all;
  };
  REQUIRE(world.run_until(done, milliseconds(2000)));
  return times;
}

constexpr std::size_t kLong = 2 << 20;

// Six nodes send 2 MiB each. A group waits for the last one's message, and the one before has a
// priority.
TEST_CASE("grants__go_first_to_what_a_group_waits_for_then_by_priority", "[G4]") {
  World world(many_to_one(6));
  narrow(world);
  Exchange exchange(world);
  for (std::uint32_t i = 1; i <= 6; ++i) {
    (void)exchange.receive(0, i, 1, kLong);
    proto::SendOptions options;
    if (i == 5) options.hint.priority = 3;
    if (i == 6) options.hint = {.group = 9, .members = 1};
    (void)exchange.send(i, 0, 1, kLong, options);
  }
  const auto times = finishing_times(world, exchange);
  CAPTURE(times);
  for (std::size_t i = 1; i < 4; ++i) {  // the oldest message always gets a share
    CHECK(times[5] < times[i]);
    CHECK(times[4] < times[i]);
  }
  CHECK(times[5] <= times[4]);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

// While a message is being received, it becomes the one for which its group waits.
TEST_CASE("grants__turn_to_a_message_when_its_group_has_come_so_far", "[G4]") {
  World world(many_to_one(6));
  narrow(world);
  Exchange exchange(world);
  for (std::uint32_t i = 1; i <= 6; ++i) {
    (void)exchange.receive(0, i, 1, kLong);
    proto::SendOptions options;
    if (i == 6) options.hint = {.group = 9, .members = 8};
    (void)exchange.send(i, 0, 1, kLong, options);
  }
  for (std::uint64_t k = 2; k <= 8; ++k) {  // the rest of the group is short
    exchange.message(5, 0, k, 100, {.hint = {.group = 9, .members = 8}});
  }
  const auto times = finishing_times(world, exchange);
  CAPTURE(times);
  for (std::size_t i = 1; i < 5; ++i) CHECK(times[5] < times[i]);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

// Messages with a priority come without end. The oldest message, which has none, is served all the
// same.
TEST_CASE("grants__leave_an_eighth_to_the_oldest_message", "[G4]") {
  World world(many_to_one(4));
  narrow(world);
  Exchange exchange(world);
  const std::size_t oldest = exchange.receive(0, 1, 1, kLong);
  (void)exchange.send(1, 0, 1, kLong);
  std::array<std::size_t, 4> last{};
  std::uint64_t tag = 1;
  const auto oldest_done = [&] {
    exchange.collect();
    for (std::uint32_t i = 2; i <= 4; ++i) {
      if (tag > 3 && !exchange.received(last[i - 1]).completion) continue;
      ++tag;
      last[i - 1] = exchange.receive(0, i, tag, kLong);
      (void)exchange.send(i, 0, tag, kLong, {.hint = {.priority = 5}});
    }
    return exchange.received(oldest).completion.has_value();
  };
  const Time begin = world.now();
  REQUIRE(world.run_until(oldest_done, milliseconds(100)));
  CHECK(world.now() - begin > milliseconds(3));   // the oldest message was not alone
  CHECK(world.now() - begin < milliseconds(40));  // 2 MiB at an eighth of the rate: 17 ms
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
}

// One of the senders is a hundred times slower than the link. It has its share of the budget, and
// the others are hardly slower than without it. If it got room whenever its turn came, the others
// would take more than twice as long.
TEST_CASE("grants__are_not_hoarded_by_a_slow_sender", "[G5]") {
  const auto time_of_others = [](bool with_slow) {
    World world(many_to_one(4));
    narrow(world);
    world.apply(1, 0, "rate=10000000");
    Exchange exchange(world);
    if (with_slow) {
      exchange.message(1, 0, 1, kLong);
    }
    const Time begin = world.now();
    const std::size_t first = exchange.receives();
    for (std::uint32_t i = 2; i <= 4; ++i) exchange.message(i, 0, 1, 4 * kLong);
    const auto done = [&] {
      exchange.collect();
      for (std::size_t i = first; i < exchange.receives(); ++i) {
        if (!exchange.received(i).completion) return false;
      }
      return true;
    };
    REQUIRE(world.run_until(done, milliseconds(500)));
    const Duration time = world.now() - begin;
    REQUIRE(exchange.run(milliseconds(1000)));
    exchange.check_all_ok();
    return time;
  };
  const Duration without = time_of_others(false);
  const Duration with = time_of_others(true);
  CAPTURE(without.ns, with.ns);
  CHECK(static_cast<double>(with.ns) < 1.15 * static_cast<double>(without.ns));
}

// (17) The senders that hold grants for the whole budget stop. The others lose two response times,
// and the stopped ones go on where they were.
TEST_CASE("grants__of_senders_that_stop_are_given_to_others", "[G6]") {
  const auto time_of_other = [](std::uint32_t stopped) {
    World world(many_to_one(9));
    narrow(world);
    Exchange exchange(world);
    for (std::uint32_t i = 1; i <= stopped; ++i) exchange.message(i, 0, 1, kLong);
    world.run_for(milliseconds(4));
    for (std::uint32_t i = 1; i <= stopped; ++i) world.pause(i, true);
    world.run_for(microseconds(100));
    const Time begin = world.now();
    const std::size_t other = exchange.receive(0, 9, 1, 8 * kLong);
    (void)exchange.send(9, 0, 1, 8 * kLong);
    REQUIRE(exchange.run_until([&] { return exchange.received(other).completion.has_value(); },
                               milliseconds(200)));
    const Duration time = world.now() - begin;
    for (std::uint32_t i = 1; i <= stopped; ++i) world.pause(i, false);
    REQUIRE(exchange.run(milliseconds(500)));
    exchange.check_all_ok();
    exchange.check_quiet();
    return time;
  };
  const Duration alone = time_of_other(0);
  const Duration beside = time_of_other(8);
  CAPTURE(alone.ns, beside.ns);
  CHECK(beside - alone < milliseconds(8));
}

// The last fragment of a message shows as well as any other that its sender is back.
TEST_CASE("grants__of_a_sender_that_is_back_are_not_given_one_by_one", "[G6]") {
  MessageScene scene;
  constexpr std::uint64_t kBytes = 3 * MessageScene::kFragment;  // the last one needs a grant
  std::array<std::string, 3> buffers;
  const auto receive = [&](std::uint32_t message) {
    buffers[message].resize(kBytes);
    (void)scene.world().receive(0, scene.id, message, buffers[message]);
  };
  receive(0);
  for (const std::uint32_t message : {0u, 1u, 2u}) {
    for (const std::uint32_t fragment : {0u, 1u}) scene.data(message, fragment, kBytes);
    scene.settle();
  }
  REQUIRE(scene.heard(0).find("grant 2-3") != std::string::npos);
  const auto grant = scene.grant();
  scene.world().run_for(milliseconds(500));  // the sender stands still, and counts for nothing
  receive(1);
  receive(2);
  scene.settle();
  REQUIRE(scene.heard(1).find("grant") == std::string::npos);

  scene.granted(0, 2, kBytes, grant.rx_slot, grant.rx_generation);
  scene.settle();
  std::set<std::uint32_t> granted;
  for (Datagram& datagram : scene.peer.datagrams()) {
    proto::wire::PacketView view;
    REQUIRE(!proto::wire::parse(datagram.datagram(), datagram.queue, true, view));
    view.blocks.visit([&](const proto::wire::GrantBlock& block) { granted.insert(block.message); });
  }
  CHECK(granted == std::set<std::uint32_t>{1, 2});
}

// Senders that have to wait for their first grant ask, and the answer shows that the receiver knows
// them.
TEST_CASE("grants__who_asks_before_its_turn_hears_pending", "[M28]") {
  std::size_t pending = 0;
  WorldConfig config = many_to_one(8);
  config.tunables.grant_start_bytes = 4096;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (node == 0 && packet.direction == Direction::tx) {
      view_of(packet).blocks.visit([&](proto::wire::StatusView view) {
        for (std::size_t i = 0; i < view.entries.size(); ++i) {
          pending += view.entries[i].status == proto::wire::MessageStatus::pending ? 1 : 0;
        }
      });
    }
    return {};
  };
  World world(config);
  narrow(world);
  Exchange exchange(world);
  for (std::uint32_t i = 1; i <= 8; ++i) {
    exchange.message(i, 0, 1, kLong,
                     {.hint = {.priority = i < 8 ? std::uint8_t{1} : std::uint8_t{0}}});
  }
  world.run_for(milliseconds(10));
  CHECK(pending > 0);
  CHECK(world.stats(8).messages_sent == 0);
  REQUIRE(exchange.run(milliseconds(1000)));
  exchange.check_all_ok();
}

// ---- it does not wedge

// All grants, or all data, are lost for a while.
TEST_CASE("grants__outlive_the_loss_of_all_grants_or_of_all_data", "[M28][G7]") {
  for (const bool data : {false, true}) {
    for (const std::uint64_t requests : {0, 1}) {
      bool losing = true;
      WorldConfig config = many_to_one(8);
      config.tunables.recovery_request = requests;
      config.hook = [&](std::uint32_t node, std::uint32_t,
                        const FaultPacket& packet) -> std::optional<Fate> {
        if (!losing || packet.direction != Direction::tx) return {};
        const bool hit = data ? node != 0 && packet.queue == proto::Queue::data &&
                                    view_of(packet).type == proto::wire::PacketType::granted
                              : node == 0 && carries<proto::wire::GrantBlock>(packet);
        if (hit) return Fate{.drop = true};
        return {};
      };
      World world(config);
      world.connect_all();
      world.run_for(milliseconds(20));
      Exchange exchange(world);
      for (std::uint32_t i = 1; i <= 8; ++i) exchange.message(i, 0, 1, kLong);
      world.run_for(milliseconds(300));
      losing = false;
      REQUIRE(exchange.run(milliseconds(3000)));
      exchange.check_all_ok();
      exchange.check_quiet();
    }
  }
}

// A message's last grant is lost, and neither end has a timer that would notice within 20 ms.
TEST_CASE("grants__the_last_one_of_a_message_is_said_once_more", "[G8]") {
  WorldConfig config = many_to_one(1);
  config.tunables.timer_granularity_us = 20000;
  config.tunables.recovery_request = 0;
  std::uint32_t lost = 0;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (node != 0 || packet.direction != Direction::tx) return {};
    bool last = false;
    view_of(packet).blocks.visit(
        [&](const proto::wire::GrantBlock& grant) { last |= grant.up_to == kLong / 4096; });
    if (!last || lost > 0) return {};
    ++lost;
    return Fate{.drop = true};
  };
  World world(config);
  narrow(world);
  Exchange exchange(world);
  (void)exchange.receive(0, 1, 1, kLong);
  (void)exchange.send(1, 0, 1, kLong);
  const auto times = finishing_times(world, exchange);
  CHECK(lost == 1);
  CHECK(times[0] < 10000);  // us; the bytes take 2100
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

TEST_CASE("grants__of_a_sender_that_dies_come_back", "[G6]") {
  WorldConfig config = many_to_one(6);
  config.tunables.peer_timeout_ms = 200;
  World world(config);
  narrow(world);
  Exchange exchange(world);
  for (std::uint32_t i = 1; i <= 6; ++i) exchange.message(i, 0, 1, 2 * kLong);
  world.run_for(milliseconds(5));
  for (std::uint32_t i = 1; i <= 4; ++i) {
    world.crash(i, false);
    exchange.forget(i);
  }
  REQUIRE(exchange.run(milliseconds(2000)));
  for (std::size_t i = 0; i < exchange.receives(); ++i) {
    CHECK((exchange.received(i).completion->status == Status::ok) == (i >= 4));
  }
  // The budget counts none of it any more: one more message goes at the full rate.
  const Time begin = world.now();
  exchange.message(6, 0, 2, 8 * kLong);
  REQUIRE(exchange.run(milliseconds(2000)));
  CHECK(world.now() - begin < milliseconds(25));  // 16.8 MB at 1 GB/s
}

TEST_CASE("grants__to_forty_peers_at_once_and_a_receiver_that_pauses", "[G7]") {
  WorldConfig config = many_to_one(40);
  config.tunables.max_peers = 64;
  World world(config);
  narrow(world);
  Exchange exchange(world);
  for (std::uint32_t i = 1; i <= 40; ++i) exchange.message(i, 0, 1, 300000);
  for (int i = 0; i < 5; ++i) {
    world.run_for(milliseconds(1));
    world.pause(0, true);
    world.run_for(milliseconds(7));
    world.pause(0, false);
  }
  REQUIRE(exchange.run(milliseconds(3000)));
  exchange.check_all_ok();
}

// All unscheduled fragments have arrived when the rest is granted, in one turn, and nothing more
// comes.
TEST_CASE("grants__are_followed_by_questions_if_nothing_comes", "[L5]") {
  bool silent = false;
  WorldConfig config;
  config.tunables.ack_every_packets = 256;  // the unscheduled fragments are one burst
  config.tunables.initial_window_packets = 64;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx) return {};
    silent |= node == 1 && carries<proto::wire::GrantBlock>(packet);
    if (!silent || node != 0) return {};
    return Fate{.drop = true};
  };
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 1 << 20);
  world.run_for(milliseconds(30));
  CHECK(silent);
  CHECK(world.stats(1).requests_sent > 0);
}

// A message one byte longer than the unscheduled bytes, with tunables at their limits.
TEST_CASE("grants__work_at_the_ends_of_their_tunables", "[G3][G7]") {
  struct Ends {
    std::uint64_t start, unscheduled, window, fragment;
  };
  const Ends all[] = {{4096, 65536, 8 << 20, 4096}, {4096, 0, 65536, 256},
                      {1 << 30, 0, 1 << 30, 8192},  {4096, 4096, 65536, 8192},
                      {4096, 256, 65536, 256},      {524288, 65536, 65536, 4096}};
  for (const Ends& ends : all) {
    for (const std::string faults : {"delay=5us", "delay=5us,loss=0.05,reorder=0.1"}) {
      INFO("start " << ends.start << ", unscheduled " << ends.unscheduled << ", window "
                    << ends.window << ", fragment " << ends.fragment << ", " << faults);
      WorldConfig config;
      config.nodes = 3;
      config.faults = faults;
      config.tunables.grant_start_bytes = ends.start;
      config.tunables.unscheduled_bytes = ends.unscheduled;
      config.tunables.grant_window_bytes = ends.window;
      config.tunables.fragment_bytes = ends.fragment;
      World world(config);
      world.connect_all();
      Exchange exchange(world);
      for (std::uint64_t k = 0; k < 8; ++k) {
        for (const std::uint32_t i : {1u, 2u}) {
          const std::size_t bytes = ends.unscheduled + 1 + k * k * 3000;
          (void)exchange.send(i, 0, k, bytes);
          if (k % 3 == 1) world.run_for(microseconds(200));
          (void)exchange.receive(0, i, k, bytes);
        }
      }
      REQUIRE(exchange.run(milliseconds(3000)));
      exchange.check_all_ok();
      exchange.check_quiet();
      CHECK(world.allocations() == 0);
    }
  }
}

}  // namespace
}  // namespace hawser::test
