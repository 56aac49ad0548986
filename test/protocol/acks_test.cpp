// SPDX-License-Identifier: Apache-2.0
// When acknowledgements of paths leave, and how far they reach.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::PacketType;

std::size_t path_acks_in(const FaultPacket& packet) {
  std::size_t count = 0;
  view_of(packet).blocks.visit([&](const proto::wire::PathAckView&) { ++count; });
  return count;
}

// Sends three packets of an unfinished message, so that nothing but their acknowledgement is due.
// Returns the time from the third packet to the first acknowledgement.
proto::Duration first_ack_after(std::uint64_t ack_every, bool lose_the_second) {
  World* running = nullptr;
  proto::Time last_sent{};
  proto::Time acked{};
  WorldConfig config;
  config.tunables.ack_every_packets = ack_every;
  config.tunables.max_ack_delay_us = 20000;
  config.tunables.unscheduled_bytes = 3 * 4096;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || running == nullptr) return {};
    const auto view = view_of(packet);
    if (node == 0 && view.type == PacketType::data) {
      last_sent = running->now();
      return Fate{.drop = lose_the_second && view.fragment->fragment == 1};
    }
    if (node == 1 && path_acks_in(packet) > 0 && acked == proto::Time{}) acked = running->now();
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  running = &world;
  const std::string bytes(1000000, 'a');
  (void)world.send(0, 1, 1, bytes);
  world.run_for(milliseconds(100));
  REQUIRE(acked != proto::Time{});
  return acked - last_sent;
}

// The residence that node 1 reports for a packet that it finds 4 ms after its last turn.
proto::Duration residence(bool stamped) {
  World* running = nullptr;
  std::uint32_t told = 0;
  WorldConfig config;
  config.tunables.ack_every_packets = 1;
  config.arrived = [&](std::span<proto::RxPacket> packets) {
    if (running == nullptr || !stamped) return;
    for (proto::RxPacket& packet : packets) packet.arrived = running->now();
  };
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || node != 1 || running == nullptr) return {};
    view_of(packet).blocks.visit(
        [&](const proto::wire::PathAckView& ack) { told = std::max(told, ack.residence_ns); });
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  running = &world;
  world.pause(1, true);
  const std::string bytes(10, 'a');
  (void)world.send(0, 1, 1, bytes);
  world.run_for(milliseconds(4));
  world.pause(1, false);
  world.run_for(milliseconds(1));
  return proto::Duration{told};
}

TEST_CASE("acks__residence_begins_where_the_nic_says_that_the_packet_came", "[B10]") {
  CHECK(residence(false).ns > milliseconds(2).ns);
  CHECK(residence(true).ns < microseconds(300).ns);
}

TEST_CASE("acks__wait_for_company_but_not_after_so_many_or_a_gap", "[A2]") {
  CHECK(first_ack_after(256, false).ns >= milliseconds(20).ns);
  CHECK(first_ack_after(256, false).ns < milliseconds(21).ns);
  CHECK(first_ack_after(3, false).ns < microseconds(50).ns);
  CHECK(first_ack_after(256, true).ns < microseconds(50).ns);
}

// 64 packets arrive over four NICs in one turn. One control packet acknowledges all of the paths.
TEST_CASE("acks__of_all_paths_leave_together_after_a_turn_that_polled_all", "[A3]") {
  std::vector<std::size_t> acks;
  WorldConfig config;
  config.nics = 4;
  config.tunables.unscheduled_bytes = 1 << 20;
  config.tunables.send_budget_packets = 1024;
  config.tunables.ack_every_packets = 1;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != engine::Direction::tx || node != 1) return {};
    if (const std::size_t count = path_acks_in(packet); count > 0) acks.push_back(count);
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  acks.clear();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 64 * 4096);
  REQUIRE(exchange.run(milliseconds(10)));
  REQUIRE_FALSE(acks.empty());
  CHECK(acks.front() == 4);
  CHECK(acks.size() < 8);
  exchange.check_all_ok();
}

// An acknowledgement reaches back 1024 numbers. No packet lies further from the oldest one that its
// sender still awaits.
TEST_CASE("acks__reach_all_that_is_in_flight_on_a_path", "[A5]") {
  for (const std::string faults : {"delay=5ms", "delay=5ms/1ms,loss=0.02"}) {
    std::uint16_t farthest = 0;
    WorldConfig config;
    config.faults = faults;
    config.ring_slots = 8192;
    config.tunables.fragment_bytes = 256;
    config.tunables.initial_window_packets = 1024;
    config.tunables.nic_receive_bytes = 64 << 20;
    config.tunables.delay_target_us = 1000000;
    config.hook = [&](std::uint32_t, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (packet.direction != engine::Direction::tx) return {};
      const auto view = view_of(packet);
      if (rule_of(view.type).sequenced) {
        farthest = std::max<std::uint16_t>(farthest, view.header->path_back);
      }
      return {};
    };
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    exchange.message(0, 1, 1, 3000000);
    REQUIRE(exchange.run(milliseconds(5000)));
    exchange.check_all_ok();
    CHECK(farthest <= 1023);
    CHECK(farthest > 900);
    exchange.check_quiet();
  }
}

// The packet with a message's status and its acknowledgements is lost. The message is small, so no
// later packet would bring them. The sender's probe has ACK_NOW. That alone makes the receiver
// repeat the final status, over both pairs of NICs. The sender neither asks about the message nor
// sends it again.
TEST_CASE("acks__what_is_asked_for_comes_twice_and_with_the_final_statuses", "[A4]") {
  World* running = nullptr;
  bool lost = false;
  std::array<int, 2> told{};  // control packets with the status after the loss, by NIC
  std::vector<proto::Time> told_at;
  proto::Time asked{};
  WorldConfig config;
  config.nics = 2;
  config.hook = [&](std::uint32_t node, std::uint32_t nic,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (running == nullptr || packet.direction != engine::Direction::tx) return {};
    const auto view = view_of(packet);
    if (node == 0 && view.type == PacketType::probe && asked == proto::Time{}) {
      asked = running->now();
      CHECK((view.header->flags & proto::wire::kFlagAckNow) != 0);
    }
    if (node != 1 || view.type != PacketType::control) return {};
    bool has_status = false;
    view.blocks.visit([&](const proto::wire::StatusView& status) {
      for (const auto& entry : status.entries) {
        has_status |= entry.status == proto::wire::MessageStatus::delivered;
      }
    });
    if (!has_status) return {};
    if (!lost) {
      lost = true;
      return Fate{.drop = true};
    }
    ++told[nic];
    told_at.push_back(running->now());
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  running = &world;
  Exchange exchange(world);
  exchange.message(0, 1, 1, 100, {.level = Level::delivered});
  REQUIRE(exchange.run(milliseconds(50)));
  exchange.check_all_ok();
  CHECK(lost);
  REQUIRE(asked != proto::Time{});
  CHECK(told[0] >= 1);
  CHECK(told[1] >= 1);
  REQUIRE_FALSE(told_at.empty());
  CHECK(told_at.front() - asked < microseconds(20));
  CHECK(world.stats(0).message_probes_sent == 0);
  CHECK(world.stats(0).fragments_retransmitted == 0);
  exchange.check_quiet();
}

}  // namespace
}  // namespace hawser::test
