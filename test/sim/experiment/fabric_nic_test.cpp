// SPDX-License-Identifier: Apache-2.0
// A NIC in a port of the fabric keeps the contract of proto/nic.hpp: rings, reaping, views,
// lengths.
#include "sim/experiment/fabric_nic.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "sim/core/pool.hpp"
#include "sim/fabric/faults.hpp"

namespace hawser::experiment {
namespace {

using fabric::EventWheel;
using fabric::Instant;
using fabric::kGigabit;
using fabric::Network;
using fabric::Shape;
using proto::Queue;

constexpr std::uint32_t kHeader = 40;
constexpr std::uint32_t kPayload = 1000;
constexpr std::uint32_t kOverhead = 60;
constexpr std::int64_t kPacket = (kHeader + kPayload + kOverhead) * 80;  // ps at 100 Gb/s

NicConfig small() {
  NicConfig config;
  config.overhead_bytes = kOverhead;
  config.send_slots = 4;
  config.data_slots = 6;
  config.control_slots = 2;
  return config;
}

// Two NICs on a switch.
struct Pair {
  EventWheel events;
  Network network;
  sim::Pool pool{64};
  ViewSlots slots{NicConfig{}.max_datagram_bytes};
  int wakes = 0;
  FabricNic a, b;
  proto::RemoteHandle to_b{};

  explicit Pair(const Shape& shape = fabric::one_switch(2, 100 * kGigabit, fabric::microseconds(1)))
      : network(events, shape, 1, 128),
        a(events, network, 0, small(), pool, slots, [] {}),
        b(events, network, 1, small(), pool, slots, [this] { ++wakes; }) {
    REQUIRE(a.open_remote(b.address(), to_b) == Status::ok);
  }
  // Sends packets with consecutive numbers in their headers; returns how many the NIC accepted.
  std::size_t send(std::size_t count, Queue queue = Queue::data) {
    std::array<proto::TxPacket, 16> packets;
    for (std::size_t i = 0; i < count; ++i) {
      proto::PacketBuffer* buffer = nullptr;
      REQUIRE(pool.take({&buffer, 1}) == 1);
      std::memset(buffer->bytes, static_cast<int>(i + 1), kHeader);
      packets[i] = {.buffer = buffer, .header_bytes = kHeader, .payload_bytes = kPayload};
      packets[i].remote = to_b;
      packets[i].queue = queue;
      packets[i].cookie = 100 + i;
    }
    const std::size_t taken = a.tx_burst(std::span(packets).first(count));
    for (std::size_t i = taken; i < count; ++i) pool.give({&packets[i].buffer, 1});
    return taken;
  }
  std::vector<std::uint64_t> reap() {
    std::array<std::uint64_t, 16> cookies;
    const std::size_t count = a.reap(cookies);
    return {cookies.begin(), cookies.begin() + static_cast<std::ptrdiff_t>(count)};
  }
};
using Cookies = std::vector<std::uint64_t>;

TEST_CASE("fabric_nic__sends_are_reaped_when_they_have_left_and_a_full_ring_says_so") {
  Pair pair;
  CHECK(pair.a.next_reap() == fabric::kNever);
  CHECK(pair.send(3) == 3);
  CHECK(pair.pool.in_use() == 0);
  CHECK(pair.a.next_reap().ps == 3 * kPacket);  // there is room: when all have left
  CHECK(pair.send(2) == 1);
  CHECK(pair.a.next_reap().ps == 3 * kPacket);  // the ring is full: when half has left
  pair.events.run_until(Instant{kPacket - 1});
  CHECK(pair.reap().empty());
  pair.events.run_until(Instant{kPacket});
  CHECK(pair.reap() == Cookies{100});
  CHECK(pair.a.next_reap().ps == 4 * kPacket);
  pair.events.run_until(Instant{4 * kPacket});
  CHECK(pair.reap() == Cookies{101, 102, 100});
  CHECK(pair.a.next_reap() == fabric::kNever);
  // Packets that have not begun to leave go at the cable's current rate.
  const std::int64_t slow = 10;
  pair.network.set_rate(0, 100 * kGigabit / slow);
  CHECK(pair.send(2) == 2);
  CHECK(pair.a.next_reap().ps == (4 + 2 * slow) * kPacket);
  pair.network.set_rate(0, 100 * kGigabit);
  CHECK(pair.a.next_reap().ps == (4 + slow + 1) * kPacket);
  pair.events.run_until(Instant{(4 + slow) * kPacket});
  CHECK(pair.reap() == Cookies{100});
  pair.events.run_until(Instant{(4 + slow + 1) * kPacket});
  CHECK(pair.reap() == Cookies{101});
  // A dead cable takes all packets at once, and nothing arrives.
  pair.events.run();
  CHECK(pair.b.counters().received + pair.b.counters().overruns == 0);
  const int before = pair.wakes;
  pair.network.put_down(0);
  CHECK(pair.send(4) == 4);
  CHECK(pair.reap().size() == 4);
  pair.events.run();
  CHECK(pair.wakes == before);
}

TEST_CASE("fabric_nic__what_comes_waits_in_rings_of_fixed_size_and_keeps_its_length") {
  Pair pair;
  for (int i = 0; i < 2; ++i) {
    CHECK(pair.send(4) == 4);
    CHECK(pair.send(1, Queue::control) == 0);
    pair.events.run();
    CHECK(pair.reap().size() == 4);
  }
  CHECK(pair.send(3, Queue::control) == 3);
  pair.events.run();
  CHECK(pair.b.overruns() == 3);  // two of 8 in the data ring, one of 3 in the other
  CHECK(pair.wakes == 8);
  std::array<proto::RxPacket, 5> packets;
  CHECK(pair.b.rx_burst(Queue::data, packets) == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(packets[i].bytes == kHeader + kPayload);
    CHECK(packets[i].queue == Queue::data);
    CHECK_FALSE(packets[i].congestion_experienced);
    CHECK(packets[i].arrived > kEpoch);
    CHECK(packets[i].arrived <= local_time(pair.events.now()));
    CHECK((i == 0 || packets[i].arrived > packets[i - 1].arrived));
    CHECK(reinterpret_cast<std::uintptr_t>(packets[i].data) % 8 == 0);
    CHECK(packets[i].data[0] == static_cast<std::byte>(i % 4 + 1));
    CHECK(packets[i].data[kHeader - 1] == static_cast<std::byte>(i % 4 + 1));
  }
  std::array<proto::RxPacket, 4> urgent;
  CHECK(pair.b.rx_burst(Queue::control, urgent) == 2);
  CHECK(urgent[0].queue == Queue::control);
  CHECK(packets[4].data[0] == std::byte{1});  // views of a queue outlive polls of the other
  CHECK(pair.slots.made() == 7);
  CHECK(pair.b.rx_burst(Queue::data, packets) == 1);
  CHECK(pair.b.rx_burst(Queue::data, packets) == 0);
  pair.b.end_views();
  // Now other packets may have all of the slots.
  CHECK(pair.reap().size() == 3);
  CHECK(pair.send(4) == 4);
  pair.events.run();
  CHECK(pair.b.rx_burst(Queue::data, packets) == 4);
  CHECK(pair.slots.made() == 7);
  CHECK(pair.network.packets().out() == 0);
}

TEST_CASE("fabric_nic__marks_are_told_and_trimmed_packets_counted") {
  Shape shape = fabric::one_switch(2, 100 * kGigabit, fabric::microseconds(1));
  shape.queue.mark_min = shape.queue.mark_max = 0;  // mark if any packet is behind
  shape.queue.capacity = 3 * (kHeader + kPayload + kOverhead);
  shape.queue.trim_to = 100;
  Pair pair(shape);
  pair.network.set_rate(pair.network.wiring().to_port(1), kGigabit);
  CHECK(pair.send(4) == 4);
  pair.events.run();
  CHECK(pair.b.counters().trimmed == 1);
  std::array<proto::RxPacket, 8> packets;
  REQUIRE(pair.b.rx_burst(Queue::data, packets) == 3);
  CHECK(packets[0].congestion_experienced);
  CHECK(packets[1].congestion_experienced);
  CHECK_FALSE(packets[2].congestion_experienced);
}

TEST_CASE("fabric_nic__no_handle_leads_to_another_plane_or_another_kind_of_nic") {
  Shape shape = fabric::leaf_spine(2, 2, 2, 100 * kGigabit, fabric::microseconds(1));
  shape.nics = 2;
  shape.placement = fabric::Placement::planes;
  EventWheel events;
  Network network(events, shape, 1, 128);
  sim::Pool pool(8);
  ViewSlots slots(NicConfig{}.max_datagram_bytes);
  const auto nic = [&](std::uint32_t host, std::uint32_t n) {
    return std::make_unique<FabricNic>(events, network, network.wiring().port(host, n), small(),
                                       pool, slots, [] {});
  };
  const auto one = nic(0, 0);
  proto::RemoteHandle handle{};
  CHECK(one->open_remote(nic(1, 0)->address(), handle) == Status::ok);
  CHECK(one->open_remote(nic(1, 1)->address(), handle) == Status::invalid_argument);
  CHECK(one->open_remote(proto::NicAddress{}, handle) == Status::invalid_argument);
  proto::NicAddress beyond = one->address();
  beyond.bytes[3] = std::byte{1};
  CHECK(one->open_remote(beyond, handle) == Status::invalid_argument);
  CHECK(one->caps().link_bytes_per_s == 12'500'000'000);
}

// The driver reports its own port's link, and only the incoming direction.
TEST_CASE("fabric_nic__a_cable_that_goes_dark_and_has_light_again_is_told") {
  using Kind = fabric::Fault::Kind;
  Pair pair;
  const auto at = [](std::int64_t us) { return Instant{} + fabric::microseconds(us); };
  const fabric::Wiring& wiring = pair.network.wiring();
  fabric::Faults faults(
      pair.events, pair.network,
      {{.at = at(10), .kind = Kind::link_down, .target = wiring.to_port(1)},
       {.at = at(20), .kind = Kind::link_down, .target = wiring.to_port(1), .silent = true},
       {.at = at(30), .kind = Kind::link_up, .target = wiring.to_port(1)},
       {.at = at(40), .kind = Kind::link_up, .target = wiring.to_port(1), .silent = true},
       // The driver doesn't see faults of the outgoing direction.
       {.at = at(50), .kind = Kind::link_down, .target = wiring.from_port(1), .both_ways = false},
       {.at = at(60), .kind = Kind::link_up, .target = wiring.from_port(1), .both_ways = false},
       {.at = at(70), .kind = Kind::switch_down, .target = 0},
       {.at = at(80), .kind = Kind::switch_up, .target = 0},
       {.at = at(90), .kind = Kind::switch_down, .target = 0, .silent = true},
       {.at = at(95), .kind = Kind::switch_up, .target = 0, .silent = true}});
  std::array<proto::NicEvent, 8> news;
  const auto heard = [&](std::int64_t until) {
    pair.events.run_until(at(until));
    std::string said;
    const std::size_t count = pair.b.events(news);
    for (std::size_t i = 0; i < count; ++i) {
      said += news[i].kind == proto::NicEvent::Kind::up ? "up " : "down ";
    }
    return said;
  };
  CHECK(heard(9).empty());
  CHECK(pair.wakes == 0);
  CHECK(heard(10) == "down ");
  CHECK(pair.wakes == 1);
  CHECK(heard(39).empty());  // the silent fault is not over
  CHECK(heard(40) == "up ");
  CHECK(heard(69).empty());
  CHECK(heard(100) == "down up ");  // both events, in order
  CHECK(pair.a.events(std::span(news).first(1)) == 1);
  CHECK(news[0].kind == proto::NicEvent::Kind::down);
  CHECK(pair.a.events(news) == 1);
  CHECK(news[0].kind == proto::NicEvent::Kind::up);
  CHECK(pair.a.events(news) == 0);
}

}  // namespace
}  // namespace hawser::experiment
