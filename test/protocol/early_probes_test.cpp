// SPDX-License-Identifier: Apache-2.0
// Early probes: how the sender of lone packets learns that one of them, or its acknowledgement, was
// lost (docs/internals/protocol.md §9).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;
using proto::wire::PacketType;

// Acknowledgements take 300 us, and the probe timeout is 2.3 ms: early probes are due after 600 and
// 1200 us.
constexpr Duration kAnswer = microseconds(300);
constexpr Duration kTimeout = microseconds(2300);

// A connection from node 0 to node 1. Packets of node 0 are lost while `lose` says so.
struct Scene {
  WorldConfig config;
  World* running = nullptr;
  std::function<bool(const proto::wire::PacketView&)> lose = [](const auto&) { return false; };
  std::vector<Duration> probes;  // since the last mark
  std::vector<std::size_t> payload;
  Time mark{};
  std::uint64_t next_tag = 1;

  Scene() {
    config.faults = "delay=150us";
    config.tunables.timer_granularity_us = 2000;
    config.hook = [this](std::uint32_t node, std::uint32_t,
                         const FaultPacket& packet) -> std::optional<Fate> {
      if (running == nullptr || node != 0 || packet.direction != Direction::tx) return {};
      const auto view = view_of(packet);
      if (view.type == PacketType::probe) {
        probes.push_back(running->now() - mark);
        payload.push_back(packet.payload.size());
      }
      if (!lose(view)) return {};
      return Fate{.drop = true};
    };
  }
  void lose_all() {
    lose = [](const auto&) { return true; };
  }
  void lose_nothing() {
    lose = [](const auto&) { return false; };
  }
  // Connects, and exchanges `messages` messages that are acknowledged.
  void begin(World& world, Exchange& exchange, int messages = 20) {
    running = &world;
    world.connect_all();
    world.run_for(milliseconds(20));
    answer(world, exchange, messages);
  }
  void answer(World& world, Exchange& exchange, int messages, std::size_t bytes = 100) {
    for (int i = 0; i < messages; ++i) {
      exchange.message(0, 1, next_tag++, bytes);
      REQUIRE(exchange.run(milliseconds(500)));
      world.run_for(microseconds(500));
    }
  }
  // Sends one message, and records probes from then on.
  void send(World& world, Exchange& exchange, std::size_t bytes = 100) {
    probes.clear();
    payload.clear();
    mark = world.now();
    exchange.message(0, 1, next_tag++, bytes);
  }
  [[nodiscard]] bool probed_at(std::size_t i, Duration at, Duration within) const {
    return i < probes.size() && probes[i] >= at - within && probes[i] <= at + within;
  }
};

std::string told(const std::vector<Duration>& probes) {
  std::string text = "probes after";
  for (const Duration at : probes) text += " " + std::to_string(at.ns / 1000);
  return text + " us";
}

std::uint64_t srtt_us(World& world) { return world.peer_stats(0, 1).paths[0].srtt_ns / 1000; }

void delay_acknowledgements(Scene& scene) {
  scene.config.tunables.max_ack_delay_us = 1500;
  scene.config.tunables.ack_every_packets = 256;
  scene.config.tunables.unscheduled_bytes = 16384;
}

// Sends a message whose first part waits for its receive.
void have_acknowledged_late(Scene& scene, World& world, Exchange& exchange) {
  (void)exchange.send(0, 1, scene.next_tag, 40000);
  world.run_for(milliseconds(4));
  (void)exchange.receive(1, 0, scene.next_tag++, 40000);
  REQUIRE(exchange.run(milliseconds(10)));
  world.run_for(milliseconds(4));
}

// Early probes come after twice and four times the time of an acknowledgement. Then the timeout
// comes as if there were no early probes. Early probes have no payload. They count neither as
// timeouts nor as unanswered, and declare nothing lost.
TEST_CASE("early_probes__come_twice_before_the_timeout_and_count_as_none", "[L21]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  REQUIRE(scene.probes.empty());
  scene.lose_all();
  scene.send(world, exchange, 3000);
  world.run_for(kTimeout - microseconds(100));
  INFO(told(scene.probes));
  CHECK(scene.probes.size() == 2);
  CHECK(scene.probed_at(0, kAnswer * 2, microseconds(10)));
  CHECK(scene.probed_at(1, kAnswer * 4, microseconds(10)));
  CHECK(world.stats(0).ptos == 0);
  world.run_for(milliseconds(40));
  REQUIRE(scene.probes.size() > 4);
  // The first timeout, and the second after twice that time. Both probes have no payload.
  CHECK(scene.probed_at(2, kTimeout, microseconds(50)));
  CHECK(scene.probed_at(3, kTimeout * 3, microseconds(100)));
  CHECK(scene.probed_at(4, kTimeout * 7, microseconds(200)));
  for (std::size_t i = 0; i < scene.payload.size(); ++i) {
    CHECK(scene.payload[i] == (i < 4 ? 0 : 4096));
  }
  CHECK(world.stats(0).ptos == scene.probes.size() - 2);
  CHECK(world.stats(0).packets_lost == 0);
  scene.lose_nothing();
  REQUIRE(exchange.run(milliseconds(200)));
  exchange.check_all_ok();
}

// A lone packet is retransmitted as soon as the first probe is acknowledged.
TEST_CASE("early_probes__have_a_lone_packet_sent_again", "[L21]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  int left = 1;
  scene.lose = [&](const auto& view) { return view.type == PacketType::data && left-- > 0; };
  scene.send(world, exchange);
  REQUIRE(exchange.run(kAnswer * 4 + microseconds(20)));
  CHECK(scene.probes.size() == 1);
  CHECK(world.stats(0).packets_lost == 1);
  exchange.check_all_ok();
}

// Where acknowledgements are faster than the jitter of hosts, early probes wait for at least a
// tenth of the granularity.
TEST_CASE("early_probes__come_no_sooner_than_a_tenth_of_the_granularity", "[L21]") {
  Scene scene;
  scene.config.faults = "delay=5us";
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(milliseconds(1));
  INFO(told(scene.probes));
  CHECK(scene.probes.size() == 2);
  CHECK(scene.probed_at(0, microseconds(200), microseconds(10)));
  CHECK(scene.probed_at(1, microseconds(400), microseconds(10)));
}

// If the timeout comes before the second early probe, there is none, not after the timeout either.
TEST_CASE("early_probes__come_only_before_the_timeout", "[L21]") {
  Scene scene;
  scene.config.tunables.timer_granularity_us = 500;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(microseconds(2300));
  INFO(told(scene.probes));
  CHECK(scene.probes.size() == 2);
  CHECK(scene.probed_at(0, kAnswer * 2, microseconds(10)));
  CHECK(scene.probed_at(1, microseconds(800), microseconds(50)));
  CHECK(world.stats(0).ptos == 1);
}

// A host that is away gets two early probes, whatever is sent to it meanwhile. Its next
// acknowledgement allows two again.
TEST_CASE("early_probes__are_two_until_an_acknowledgement", "[L21]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(microseconds(1500));
  CHECK(scene.probes.size() == 2);
  for (int i = 0; i < 4; ++i) {
    exchange.message(0, 1, scene.next_tag++, 100);
    world.run_for(microseconds(1500));
  }
  INFO(told(scene.probes));
  CHECK(scene.probes.size() == 2);
  scene.lose_nothing();
  REQUIRE(exchange.run(milliseconds(200)));
  exchange.check_all_ok();
  scene.answer(world, exchange, 20);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(microseconds(1500));
  CHECK(scene.probes.size() == 2);
}

// The acknowledgement comes after an early probe has been sent. There is nothing left to ask for
// early, although that probe is lost and acknowledgements take longer from now on.
TEST_CASE("early_probes__follow_no_early_probe", "[L21]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  scene.lose = [](const auto& view) { return view.type == PacketType::probe; };
  world.apply(0, "delay=600us");  // the acknowledgement comes after 750 us
  scene.send(world, exchange);
  world.run_for(microseconds(2000));
  INFO(told(scene.probes));
  CHECK(scene.probes.size() == 1);
  CHECK(exchange.settled());
}

// The early probe is acknowledged, but the packet that was lost before it is not old enough to be
// declared lost. The gap rule does that later, and no more early probes leave meanwhile.
TEST_CASE("early_probes__leave_the_rest_to_the_gap_rule", "[L21]") {
  Scene scene;
  delay_acknowledgements(scene);
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  for (int i = 0; i < 8; ++i) have_acknowledged_late(scene, world, exchange);
  REQUIRE(srtt_us(world) * 9 / 8 > 920);  // the acknowledgement comes after 900 us
  int left = 1;
  scene.lose = [&](const auto& view) { return view.type == PacketType::data && left-- > 0; };
  scene.send(world, exchange);
  REQUIRE(exchange.run(milliseconds(10)));
  INFO(told(scene.probes));
  CHECK(world.stats(0).packets_lost == 1);
  CHECK(world.stats(0).ptos == 0);
  CHECK(scene.probes.size() == 1);
  exchange.check_all_ok();
}

// The probe comes at the timeout, as it did before early probes existed.
TEST_CASE("early_probes__are_none_where_they_are_switched_off", "[L21]") {
  Scene scene;
  scene.config.tunables.recovery_early = 0;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(milliseconds(4));
  INFO(told(scene.probes));
  CHECK(scene.probes.size() == 1);
  CHECK(scene.probed_at(0, kTimeout, microseconds(50)));
}

// With several lanes the timeout itself comes early (L16), and counts.
TEST_CASE("early_probes__are_none_where_there_are_several_lanes", "[L21]") {
  Scene scene;
  scene.config.entropies = 4;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  const EndpointStats before = world.stats(0);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(milliseconds(20));
  INFO(told(scene.probes));
  CHECK(scene.probes.size() > 1);
  CHECK(world.stats(0).ptos - before.ptos == scene.probes.size());
}

// Before the first acknowledgement the sender has no response time to go by.
TEST_CASE("early_probes__are_none_before_an_answer", "[L21]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange, 0);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(milliseconds(20));
  INFO(told(scene.probes));
  CHECK(scene.probes.size() > 1);
  CHECK(world.stats(0).ptos == scene.probes.size());
}

// The window keeps data back. The packet in flight is not the end of a message, so the receiver may
// delay its acknowledgement.
TEST_CASE("early_probes__are_none_before_the_end_of_a_message", "[L21]") {
  Scene scene;
  scene.config.tunables.initial_window_packets = 4;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange, 3);
  scene.lose_all();
  scene.send(world, exchange, 60000);
  world.run_for(microseconds(1900));
  INFO(told(scene.probes));
  CHECK(scene.probes.empty());
}

// Path 1 is suspect, and NIC 0 goes away. Data goes over path 1 all the same, and the path's own
// probes suffice.
TEST_CASE("early_probes__are_none_on_a_path_that_is_not_up", "[L21]") {
  World* running = nullptr;
  bool lose_path_1 = false;
  std::uint64_t probes = 0;
  std::uint64_t passed = 0;
  WorldConfig config;
  config.nics = 2;
  config.faults = "delay=20us";
  config.tunables.recovery_request = 0;
  config.tunables.timer_granularity_us = 2000;
  config.tunables.initial_window_packets = 4;
  config.hook = [&](std::uint32_t node, std::uint32_t nic,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (running == nullptr || node != 0 || nic != 1 || packet.direction != Direction::tx) return {};
    if (!lose_path_1) return {};
    const PacketType type = view_of(packet).type;
    if (type == PacketType::probe) ++probes;
    if (type == PacketType::data || type == PacketType::granted) ++passed;
    return Fate{.drop = true};
  };
  World world(config);
  running = &world;
  world.connect_all();
  world.run_for(milliseconds(20));
  Exchange exchange(world);
  std::uint64_t tag = 0;
  const auto is_suspected = [&] {
    const auto paths = world.peer_stats(0, 1).paths;
    return std::ranges::any_of(
        paths, [](const PathStats& path) { return path.state == PathState::suspect; });
  };
  for (; tag < 40; ++tag) {
    exchange.message(0, 1, tag, 100);
    REQUIRE(exchange.run(milliseconds(10)));
  }
  // The end of this message leaves long after the part on path 1, so no early probe asks there.
  lose_path_1 = true;
  exchange.message(0, 1, tag++, 2000000);
  REQUIRE(world.run_until(is_suspected, milliseconds(20)));
  REQUIRE(is_suspected());
  world.run_for(microseconds(10));  // the path's own probe has left
  world.apply(0, 0, "kill:event");
  probes = passed = 0;
  exchange.message(0, 1, tag, 100);
  world.run_for(microseconds(600));
  CHECK(passed > 0);
  CHECK(probes == 0);
}

// A lost packet is not a slow one: the probe's own acknowledgement gives the response time.
TEST_CASE("early_probes__of_lost_packets_do_not_raise_the_response_time", "[L22]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  const std::uint64_t before = srtt_us(world);
  for (int i = 0; i < 10; ++i) {
    int left = 1;
    scene.lose = [&](const auto& view) { return view.type == PacketType::data && left-- > 0; };
    scene.send(world, exchange);
    REQUIRE(exchange.run(milliseconds(10)));
    INFO(i << ": " << told(scene.probes));
    CHECK(scene.probes.size() == 1);
    CHECK(scene.probed_at(0, kAnswer * 2, microseconds(10)));
  }
  CHECK(world.stats(0).packets_lost == 10);
  CHECK(srtt_us(world) <= before + 10);
}

// A host that acknowledges more slowly than before looks slow, although the probes that it got
// meanwhile were acknowledged sooner after they left. After few messages it gets no more early
// probes.
TEST_CASE("early_probes__stop_where_answers_have_become_slow", "[L22]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  for (int i = 0; i < 20; ++i) {
    if (i == 10) scene.probes.clear();
    world.pause(1, true);
    exchange.message(0, 1, scene.next_tag++, 100);
    world.run_for(microseconds(1800));
    world.pause(1, false);
    REQUIRE(exchange.run(milliseconds(10)));
    world.run_for(milliseconds(2));
  }
  INFO(told(scene.probes));
  CHECK(scene.probes.empty());
  CHECK(srtt_us(world) > 1400);
}

// Part of a message waits for its receive. Its acknowledgement comes after max_ack_delay, which
// tells nothing about when the acknowledgement of a message's end is late.
TEST_CASE("early_probes__learn_nothing_from_delayed_acknowledgements", "[L20]") {
  Scene scene;
  delay_acknowledgements(scene);
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  for (int i = 0; i < 4; ++i) have_acknowledged_late(scene, world, exchange);
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(microseconds(1300));
  INFO(told(scene.probes));
  CHECK(scene.probed_at(0, kAnswer * 2, microseconds(10)));
}

// The receiver acknowledges the end of a message at once, so its response time counts.
TEST_CASE("early_probes__learn_from_the_end_of_a_message_however_long_it_took", "[L20]") {
  Scene scene;
  World world(scene.config);
  Exchange exchange(world);
  scene.begin(world, exchange);
  for (int i = 0; i < 6; ++i) {
    world.pause(1, true);
    exchange.message(0, 1, scene.next_tag++, 100);
    world.run_for(microseconds(550));
    world.pause(1, false);
    REQUIRE(exchange.run(milliseconds(10)));
    world.run_for(milliseconds(2));
  }
  scene.lose_all();
  scene.send(world, exchange);
  world.run_for(microseconds(2000));
  INFO(told(scene.probes));
  CHECK(scene.probed_at(0, microseconds(2 * 690), microseconds(60)));
}

}  // namespace
}  // namespace hawser::test
