// SPDX-License-Identifier: Apache-2.0
// The layers of loss detection: what each one does, and when.
#include <catch2/catch.hpp>
#include <utility>

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

// A world of two nodes in which one fragment of node 0's messages is late.
struct OneLate {
  World* running = nullptr;
  std::uint32_t fragment = 20;
  Duration late = microseconds(60);
  WorldConfig config;
  OneLate() {
    config.tunables.initial_window_packets = 128;
    config.tunables.unscheduled_bytes = 64 * 4096;
    config.tunables.recovery_request = 0;
    config.tunables.ack_every_packets = 1;
    config.hook = [this](std::uint32_t node, std::uint32_t,
                         const FaultPacket& packet) -> std::optional<Fate> {
      if (running == nullptr || node != 0 || packet.direction != Direction::tx) return {};
      const auto view = view_of(packet);
      if (view.type != PacketType::data || view.fragment->fragment != fragment) return {};
      if ((view.header->flags & proto::wire::kFlagRetransmit) != 0) return {};
      return Fate{.delay = late};
    };
  }
  void begin(World& world) {
    world.connect_all();
    world.run_for(milliseconds(50));
    running = &world;
  }
};

void send_64(World& world, bool paused) {
  Exchange exchange(world);
  exchange.ignore_what_was();
  exchange.message(0, 1, 1, 64 * 4096);
  if (paused) {
    world.run_for(microseconds(1));
    world.pause(0, true);
    world.run_for(milliseconds(2));
    world.pause(0, false);
  }
  REQUIRE(exchange.run(milliseconds(200)));
  exchange.check_all_ok();
}

// A packet is overtaken and declared lost, and then it arrives. From that moment on the order of
// arrival proves nothing on that path: the sender waits for the next packets that are as late.
TEST_CASE("loss__a_spurious_retransmit_turns_the_rule_of_order_off", "[L2]") {
  OneLate scene;
  World world(scene.config);
  scene.begin(world);
  send_64(world, false);
  world.run_for(milliseconds(5));
  CHECK(world.stats(0).lost_by_gap == 1);
  CHECK(world.stats(0).spurious_retransmits == 1);
  for (int i = 0; i < 10; ++i) {
    send_64(world, false);
    world.run_for(milliseconds(5));
  }
  CHECK(world.stats(0).lost_by_gap == 1);
  CHECK(world.stats(0).spurious_retransmits == 1);
}

// One acknowledgement seems to show a gap and the next one closes it. Both lie in the ring, and
// nothing is declared lost in between.
TEST_CASE("loss__is_judged_when_a_turn_has_received_all_that_was_there", "[L3]") {
  OneLate scene;
  World world(scene.config);
  scene.begin(world);
  send_64(world, true);
  CHECK(world.stats(0).packets_lost == 0);
  CHECK(world.stats(0).fragments_retransmitted == 0);
}

// The fragments from `from` to before `to` of 100 are lost, and so are the receiver's control
// packets. Returns the times of its requests, counted from the last fragment that arrived.
std::vector<Duration> requests_after(std::uint32_t from, std::uint32_t to, bool gate,
                                     std::uint16_t lanes = 1) {
  World* running = nullptr;
  Time last{};
  std::vector<Time> asked;
  WorldConfig config;
  config.entropies = lanes;
  config.tunables.unscheduled_bytes = 100 * 4096;
  config.tunables.initial_window_packets = 256;
  config.tunables.timer_granularity_us = 2000;
  config.tunables.recovery_pto = 0;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (running == nullptr) return {};
    if (node == 1 && packet.direction == Direction::rx) {
      if (packet.queue == proto::Queue::data) last = running->now();
      return {};
    }
    if (packet.direction != Direction::tx) return {};
    const auto view = view_of(packet);
    if (node == 0 && view.type == PacketType::data) {
      return Fate{.drop = view.fragment->fragment >= from && view.fragment->fragment < to};
    }
    if (node == 0) return {};
    view.blocks.visit([&](const proto::wire::RequestView&) { asked.push_back(running->now()); });
    return Fate{.drop = true};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(100));
  running = &world;
  const std::string bytes(100 * 4096, 'a');
  std::string buffer = bytes;
  proto::SendOptions options;
  if (gate) options.hint = {.group = 1, .members = 1, .step = 1};
  (void)world.receive(1, world.peer(1, 0), 1, buffer);
  (void)world.send(0, 1, 1, bytes, options);
  world.run_for(milliseconds(40));
  REQUIRE(asked.size() >= 2);
  std::vector<Duration> after;
  for (const Time at : asked) after.push_back(at - last);
  return after;
}

// With a response time of some 20 us and a granularity of 2 ms the intervals are 8, 2, 1 and 0.5
// ms.
TEST_CASE("loss__what_is_missing_is_asked_for_by_its_level_and_ever_more_seldom", "[L4][L5]") {
  struct Case {
    const char* level;
    std::uint32_t from;
    std::uint32_t to;
    bool gate;
    Duration interval;
  };
  for (const Case& c : {Case{"BULK", 10, 100, false, microseconds(8000)},
                        Case{"TAIL, not all sent", 80, 100, false, microseconds(2000)},
                        Case{"TAIL, all sent", 50, 51, false, microseconds(1000)},
                        Case{"GATE", 50, 51, true, microseconds(500)}}) {
    const std::vector<Duration> asked = requests_after(c.from, c.to, c.gate);
    INFO(c.level << ": asked after " << asked[0].ns / 1000 << " and " << asked[1].ns / 1000
                 << " us");
    CHECK(asked[0] >= c.interval);
    CHECK(asked[0] < c.interval + microseconds(250));
    CHECK(asked[1] - asked[0] >= c.interval * 2);
    CHECK(asked[1] - asked[0] < c.interval * 2 + microseconds(500));
  }
}

// Over several lanes that hardly differ: some 25 us instead of the 2 ms.
TEST_CASE("loss__what_is_missing_at_the_end_is_asked_for_by_what_lanes_differ", "[L17]") {
  for (const bool gate : {false, true}) {
    const std::vector<Duration> asked = requests_after(50, 51, gate, 4);
    CAPTURE(gate, asked[0].ns);
    CHECK(asked[0] >= microseconds(gate ? 2 : 4));
    CHECK(asked[0] < microseconds(100));
  }
  CHECK(requests_after(80, 100, false, 4)[0] >= microseconds(2000));  // not all fragments were sent
}

// Three fragments are lost, and so are their retransmits. The receiver requests them, and the next
// retransmit of one of them arrives. With `twice` the retransmit before it arrives late as well.
// Returns how long the receiver then waits before it requests the other two, which never arrive.
Duration request_after_answer(bool twice) {
  World* running = nullptr;
  int requests = 0;
  Time answered{};
  Time asked{};
  WorldConfig config;
  config.tunables.unscheduled_bytes = 100 * 4096;
  config.tunables.initial_window_packets = 256;
  config.tunables.timer_granularity_us = 2000;
  config.tunables.recovery_pto = 0;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (running == nullptr || packet.direction != Direction::tx) return {};
    const auto view = view_of(packet);
    if (node == 0 && view.type == PacketType::data && view.fragment->fragment >= 50 &&
        view.fragment->fragment < 53) {
      const bool again = (view.header->flags & proto::wire::kFlagRetransmit) != 0;
      if (!again || view.fragment->fragment > 50) return Fate{.drop = true};
      if (requests == 0) return Fate{.drop = !twice, .delay = microseconds(2500)};
      answered = running->now();
      return {};
    }
    if (node == 1) {
      view.blocks.visit([&](const proto::wire::RequestView&) {
        ++requests;
        if (answered != Time{} && asked == Time{}) asked = running->now();
      });
    }
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(100));
  running = &world;
  const std::string bytes(100 * 4096, 'a');
  std::string buffer = bytes;
  (void)world.receive(1, world.peer(1, 0), 1, buffer);
  (void)world.send(0, 1, 1, bytes);
  world.run_for(milliseconds(40));
  REQUIRE(answered != Time{});
  REQUIRE(asked != Time{});
  return asked - answered;
}

TEST_CASE("loss__a_request_that_came_too_early_makes_the_next_one_wait_longer", "[L6]") {
  const Duration once = request_after_answer(false);
  const Duration twice = request_after_answer(true);
  INFO("next request after " << once.ns / 1000 << " us, or " << twice.ns / 1000 << " us");
  // The wait starts again when the second copy arrives, some 0.5 ms after the first, and is half as
  // long again.
  CHECK(twice.ns * 10 > once.ns * 17);
  CHECK(twice.ns * 10 < once.ns * 22);
}

// Nobody answers. The sender's own timer sends probes, the first two without payload, each after
// twice the time. Nothing is declared lost.
TEST_CASE("loss__probe_timeouts_double_and_the_first_two_probes_are_empty", "[L8]") {
  World* running = nullptr;
  std::vector<Time> at;
  std::vector<std::size_t> payload;
  WorldConfig config;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (running == nullptr || node != 0 || packet.direction != Direction::tx) return {};
    if (view_of(packet).type == PacketType::probe) {
      at.push_back(running->now());
      payload.push_back(packet.payload.size());
      CHECK((view_of(packet).header->flags & proto::wire::kFlagAckNow) != 0);
    }
    return Fate{.drop = true};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  running = &world;
  const Time sent = world.now();
  const std::string bytes(40000, 'a');
  (void)world.send(0, 1, 1, bytes);
  world.run_for(milliseconds(60));
  REQUIRE(at.size() >= 5);
  CHECK(payload[0] == 0);
  CHECK(payload[1] == 0);
  for (std::size_t i = 2; i < payload.size(); ++i) CHECK(payload[i] == 4096);
  const Duration first = at[0] - sent;
  CHECK(first >= microseconds(200));  // the granularity
  for (std::size_t i = 1; i < 5; ++i) {
    INFO("probe " << i << " after " << (at[i] - at[i - 1]).ns / 1000 << " us");
    CHECK(at[i] - at[i - 1] >= first * (std::int64_t{1} << i) - microseconds(50));
    CHECK(at[i] - at[i - 1] <= first * (std::int64_t{1} << i) + microseconds(500));
  }
  CHECK(world.stats(0).packets_lost == 0);
}

// The second one of two probes that leave together is always lost, as in a ring with room for one
// packet. Its path waits for an answer then. The timeout of that path must not send two more.
TEST_CASE("loss__two_paths_don_t_probe_each_other_without_end", "[L8]") {
  World* running = nullptr;
  bool lost = false;
  Time probed{};
  int probes = 0;
  WorldConfig config;
  config.nics = 2;
  config.tunables.recovery_early = 0;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (running == nullptr || node != 0 || packet.direction != Direction::tx) return {};
    const PacketType type = view_of(packet).type;
    if (type == PacketType::data && !std::exchange(lost, true)) return Fate{.drop = true};
    if (type != PacketType::probe) return {};
    ++probes;
    if (std::exchange(probed, running->now()) == running->now()) return Fate{.drop = true};
    return {};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(50));
  running = &world;
  Exchange exchange(world);
  exchange.message(0, 1, 1, 100);
  REQUIRE(exchange.run(milliseconds(20)));
  exchange.check_all_ok();
  world.run_for(milliseconds(200));
  INFO(probes << " probes");
  CHECK(lost);
  CHECK(probes >= 2);
  CHECK(probes <= 4);
}

// A peer that is away for 3 ms of every 4 looks slow to the timers, but not to the congestion
// window.
TEST_CASE("loss__timers_see_absences_and_the_window_does_not", "[L9][L11]") {
  WorldConfig config;
  config.faults = "delay=20us";
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(20));
  Exchange exchange(world);
  for (std::uint64_t i = 0; i < 60; ++i) {
    exchange.message(0, 1, i, 30000);
    world.pause(1, true);
    world.run_for(milliseconds(3));
    world.pause(1, false);
    world.run_for(milliseconds(1));
  }
  REQUIRE(exchange.run(milliseconds(100)));
  const PeerStats stats = world.peer_stats(0, 1);
  REQUIRE(stats.paths.size() == 1);
  INFO("SRTT " << stats.paths[0].srtt_ns / 1000 << " us, window " << stats.paths[0].window_bytes);
  CHECK(stats.paths[0].srtt_ns > 2000000);
  CHECK(stats.paths[0].min_fabric_delay_ns < 200000);
  CHECK(stats.paths[0].window_bytes >= 32 * 4096);
  exchange.check_all_ok();
}

}  // namespace
}  // namespace hawser::test
