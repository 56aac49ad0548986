// SPDX-License-Identifier: Apache-2.0
// A path's packets go over all entropies of its NIC in turn, its lanes. These tests show what that
// does to loss detection and to acknowledgements.
#include <catch2/catch.hpp>

#include <array>
#include <map>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::Queue;
using proto::wire::PacketType;

constexpr std::uint16_t kLanes = 4;
constexpr std::size_t kBytes = 256 * 4096;

WorldConfig lanes_world(std::uint16_t entropies) {
  WorldConfig config;
  config.entropies = entropies;
  config.tunables.initial_window_packets = 64;
  config.tunables.unscheduled_bytes = kBytes;
  return config;
}

bool is_data(const FaultPacket& packet) {
  const PacketType type = view_of(packet).type;
  return type == PacketType::data || type == PacketType::granted;
}

void exchange_messages(World& world, std::size_t count) {
  Exchange exchange(world);
  exchange.ignore_what_was();
  for (std::size_t i = 0; i < count; ++i) exchange.message(0, 1, 1, kBytes);
  REQUIRE(exchange.run(milliseconds(2000)));
  exchange.check_all_ok();
}

TEST_CASE("lanes__a_path_goes_over_all_entropies_in_turn_and_so_do_acknowledgements", "[P18]") {
  std::map<std::uint32_t, std::uint16_t> by_number;  // of node 0's data packets
  std::array<std::size_t, kLanes> control{};         // of node 1's control packets
  // The NIC has six entropies, of which a path uses four.
  WorldConfig config = lanes_world(kLanes + 2);
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx) return {};
    if (node == 0 && is_data(packet)) {
      by_number[view_of(packet).header->path_number] = packet.entropy;
    }
    if (node == 1 && packet.queue == Queue::control) {
      REQUIRE(packet.entropy < kLanes);
      ++control[packet.entropy];
    }
    return {};
  };
  World world(config);
  world.connect_all();
  exchange_messages(world, 2);
  REQUIRE(by_number.size() >= 512);
  const std::uint32_t first = by_number.begin()->first;
  const std::uint16_t offset = by_number.begin()->second;
  for (const auto& [number, entropy] : by_number) {
    CHECK(entropy == (number - first + offset) % kLanes);
  }
  for (const std::size_t count : control) CHECK(count > 0);
}

// Packets of one lane take far longer. Without lanes that is reordering, which costs retransmits
// before the sender knows it. With lanes the sender has learned the lanes' differences from the
// first message.
EndpointStats with_a_slow_quarter(std::uint16_t entropies) {
  WorldConfig config = lanes_world(entropies);
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx || node != 0 || !is_data(packet)) return {};
    const bool slow = view_of(packet).header->path_number % kLanes == 1;
    return Fate{.delay = microseconds(slow ? 60 : 5)};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  exchange_messages(world, 1);
  world.run_for(milliseconds(5));
  const EndpointStats before = world.stats(0);
  exchange_messages(world, 4);
  EndpointStats after = world.stats(0);
  after.packets_lost -= before.packets_lost;
  return after;
}

TEST_CASE("lanes__order_says_nothing_between_two_of_them", "[L14][L15]") {
  const EndpointStats one = with_a_slow_quarter(1);
  CHECK(one.spurious_retransmits > 0);
  const EndpointStats four = with_a_slow_quarter(kLanes);
  CHECK(four.packets_lost == 0);
}

// The time from the loss of fragment `which` of 256 until its retransmit. The granularity is 20 ms,
// so its timers play no part. `asked`: with the receiver's requests and without probes; else the
// reverse.
proto::Duration repaired_after(std::uint16_t entropies, std::uint32_t which, bool asked = false,
                               bool early = true) {
  World* running = nullptr;
  proto::Time lost{};
  proto::Time again{};
  WorldConfig config = lanes_world(entropies);
  config.tunables.recovery_request = asked ? 1 : 0;
  config.tunables.recovery_pto = asked ? 0 : 1;
  config.tunables.recovery_early = early ? 1 : 0;
  config.tunables.timer_granularity_us = 20000;
  config.tunables.ack_every_packets = 1;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx || node != 0 || !is_data(packet)) return {};
    const auto view = view_of(packet);
    if (view.fragment->fragment != which) return {};
    if (lost == proto::Time{}) {
      lost = running->now();
      return Fate{.drop = true};
    }
    again = running->now();
    return {};
  };
  World world(config);
  running = &world;
  world.connect_all();
  world.run_for(milliseconds(50));
  exchange_messages(world, 1);
  REQUIRE(again != proto::Time{});
  CHECK(world.stats(0).packets_lost == 1);
  CHECK(world.stats(0).spurious_retransmits == 0);
  return again - lost;
}

// The lost packet is 255 packets, and more than a round trip, before the last one.
TEST_CASE("lanes__a_loss_is_known_when_what_left_so_much_later_has_arrived", "[L15]") {
  CHECK(repaired_after(1, 0) < milliseconds(1));
  CHECK(repaired_after(kLanes, 0) < milliseconds(1));
}

// All was sent, and a packet is later than lanes differ. The receiver requests it, and its sender
// believes the request.
TEST_CASE("lanes__what_is_missing_at_the_end_is_asked_for_soon", "[L7]") {
  CHECK(repaired_after(kLanes, 254, true) < milliseconds(1));
}

// Only the probe follows the last packet, and it is early. With one lane it comes after the
// granularity, or after a tenth of it where early probes are on (L21).
TEST_CASE("lanes__the_loss_of_the_last_packet_is_known_by_an_early_probe", "[L16][L21]") {
  CHECK(repaired_after(1, 255, false, false) > milliseconds(15));
  CHECK(repaired_after(1, 255) > milliseconds(2));
  CHECK(repaired_after(1, 255) < milliseconds(3));
  CHECK(repaired_after(kLanes, 255) < milliseconds(1));
  CHECK(repaired_after(kLanes, 255, false, false) < milliseconds(1));
}

// The packet with a message's DELIVERED is lost, and the sender has no timer that would ask within
// 20 ms. The next message's answer repeats the status.
TEST_CASE("lanes__a_status_is_told_once_more_in_the_next_control_packet", "[A8]") {
  WorldConfig config = lanes_world(kLanes);
  config.tunables.timer_granularity_us = 20000;
  config.tunables.recovery_pto = 0;
  bool begun = false;
  Loss loss{.which = [&](std::uint32_t node, const FaultPacket& packet) {
    return begun && node == 1 && has_status(packet, proto::wire::MessageStatus::delivered);
  }};
  config.hook = [&](std::uint32_t node, std::uint32_t nic, const FaultPacket& packet) {
    return loss(node, nic, packet);
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  begun = true;
  Exchange exchange(world);
  exchange.ignore_what_was();
  proto::SendOptions options;
  options.level = Level::delivered;
  for (const std::uint64_t tag : {1, 2, 3}) {
    (void)exchange.receive(1, 0, tag, 100);
    (void)exchange.send(0, 1, tag, 100, options);
    world.run_for(microseconds(500));
  }
  CHECK(loss.lost == 1);
  REQUIRE(exchange.run(milliseconds(5)));
  exchange.check_all_ok();
}

// The number of packets that each lane carries if packets on lane `busy` arrive marked.
std::array<std::size_t, kLanes> by_lane(std::uint16_t busy) {
  std::map<std::uint32_t, std::uint16_t> lanes;
  std::array<std::size_t, kLanes> carried{};
  WorldConfig config = lanes_world(kLanes);
  config.faults = "delay=20us,rate=1000000000";
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx || node != 0 || !is_data(packet)) return {};
    lanes[view_of(packet).header->path_number] = packet.entropy;
    ++carried[packet.entropy];
    return {};
  };
  config.arrived = [&](std::span<proto::RxPacket> packets) {
    for (proto::RxPacket& packet : packets) {
      proto::wire::PacketView view;
      const std::span bytes(packet.data, packet.bytes);
      if (proto::wire::parse(bytes, packet.queue, true, view) ||
          (view.type != PacketType::data && view.type != PacketType::granted)) {
        continue;
      }
      packet.congestion_experienced = lanes.at(view.header->path_number) == busy;
    }
  };
  World world(config);
  world.connect_all();
  exchange_messages(world, 4);
  return carried;
}

TEST_CASE("lanes__those_of_marked_packets_are_passed_over_once", "[P19]") {
  const std::array<std::size_t, kLanes> even = by_lane(kLanes);
  for (const std::size_t count : even) {  // lanes with early acknowledgements carry more
    CHECK(count * 8 > 7 * 4 * 256 / kLanes);
    CHECK(count * 8 < 9 * 4 * 256 / kLanes);
  }
  const std::array<std::size_t, kLanes> uneven = by_lane(1);
  for (const std::size_t other : {0u, 2u, 3u}) {
    CHECK(uneven[1] * 4 < uneven[other] * 3);
    CHECK(uneven[1] * 4 > uneven[other]);
  }
}

// The number of control packets that the receiver of one message sends.
std::uint64_t control_packets_in(const WorldConfig& config) {
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  const std::uint64_t before = world.stats(1).control_packets_sent;
  exchange_messages(world, 1);
  return world.stats(1).control_packets_sent - before;
}

std::uint64_t control_packets(std::uint16_t entropies) {
  WorldConfig config = lanes_world(entropies);
  config.tunables.ack_every_packets = 256;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx || node != 0 || !is_data(packet)) return {};
    const bool slow = view_of(packet).header->path_number % 2 == 1;
    return Fate{.delay = microseconds(slow ? 6 : 5)};
  };
  return control_packets_in(config);
}

TEST_CASE("lanes__that_one_overtakes_another_is_not_told_at_once", "[A6]") {
  CHECK(control_packets(kLanes) * 2 < control_packets(1));
}

// The number of acknowledgements of one message, with a window of 64 packets.
std::uint64_t acks_of_a_message(std::uint16_t entropies) {
  WorldConfig config = lanes_world(entropies);
  config.faults = "delay=20us,rate=1000000000";
  config.tunables.ack_every_packets = 256;
  return control_packets_in(config);
}

TEST_CASE("lanes__are_acknowledged_a_few_times_in_a_window", "[A7]") {
  CHECK(acks_of_a_message(kLanes) >= 2 * acks_of_a_message(1));
  CHECK(acks_of_a_message(kLanes) <= 64);
}

// One route through the fabric is dead for good, for data and for control, and neither end is told.
TEST_CASE("lanes__one_that_is_dead_costs_retransmits_and_nothing_else", "[P18]") {
  const auto dead = GENERATE(std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{3});
  WorldConfig config = lanes_world(kLanes);
  config.hook = [&](std::uint32_t, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction != Direction::tx) return {};
    return Fate{.drop = packet.entropy == dead};
  };
  World world(config);
  world.connect_all();
  exchange_messages(world, 4);
  CHECK(world.stats(0).fragments_retransmitted > 0);
  for (std::uint32_t node = 0; node < 2; ++node) {
    for (const Event& event : world.events(node)) CHECK(event.kind != Event::Kind::path_down);
  }
}

}  // namespace
}  // namespace hawser::test
