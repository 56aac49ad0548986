// SPDX-License-Identifier: Apache-2.0
// The queue of a link: capacity, marks, classes, trimming.
#include "test/sim/fabric/scene.hpp"

namespace hawser::fabric {
namespace {

// A switch whose cable to port 1 is ten times slower than the cables to the switch; packets of 1000
// bytes.
constexpr std::uint32_t kBytes = 1000;
constexpr std::int64_t kSlow = 800'000;  // ps a packet takes at 10 Gb/s

struct Bottleneck {
  EventWheel events;
  Network network;
  Sink sink{network};
  explicit Bottleneck(const QueueSettings& queue) : network(events, shape(queue), 3) {
    network.set_rate(network.wiring().to_port(1), 10 * kGigabit);
  }
  static Shape shape(const QueueSettings& queue) {
    Shape shape = one_switch(3, 1000 * kGigabit, nanoseconds(100));
    shape.queue = queue;
    return shape;
  }
  const LinkCounters& counters() const {
    return network.link(network.wiring().to_port(1)).counters();
  }
  std::vector<std::uint32_t> order() const {
    std::vector<std::uint32_t> numbers;
    for (const auto& [time, number] : sink.came) numbers.push_back(number);
    return numbers;
  }
};

TEST_CASE("queue__holds_its_capacity_with_the_packet_that_is_being_sent") {
  Bottleneck scene({.capacity = 5 * kBytes + 999});
  for (std::uint32_t i = 0; i < 9; ++i) scene.sink.send(0, 1, kBytes, i);
  scene.events.run();
  CHECK(scene.order() == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  CHECK(scene.counters().dropped == 4);
  CHECK(scene.counters().packets == 5);
  CHECK(scene.counters().bytes == 5 * kBytes);
  // Room comes back packet by packet, as each one has left.
  const Instant start = scene.events.now();
  for (std::uint32_t i = 10; i < 15; ++i) scene.sink.send(0, 1, kBytes, i);
  scene.events.run_until(start + picoseconds(8'000 + 100'000 + kSlow - 1 - 8'000));
  scene.sink.send(0, 1, kBytes, 15);  // arrives as the first one leaves
  scene.sink.send(0, 1, kBytes, 16);  // and 8 ns later, before the second one leaves
  scene.events.run();
  CHECK(scene.counters().packets == 11);
  CHECK(scene.counters().dropped == 5);
  CHECK(scene.sink.came.back().second == 15);
}

TEST_CASE("queue__a_packet_is_marked_by_what_it_leaves_behind") {
  Bottleneck scene({.mark_min = 10 * kBytes, .mark_max = 10 * kBytes});
  for (std::uint32_t i = 0; i < 30; ++i) scene.sink.send(0, 1, kBytes, i);
  scene.events.run();
  // Packet i leaves 29 - i packets behind, so the first 19 leave more than 10.
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 19; ++i) expected.push_back(i);
  CHECK(scene.sink.marked == expected);
  CHECK(scene.counters().marked == 19);
}

// The queue holds the windows' packets, less those on cables. The thresholds are such that this
// length is marked with probability 0.3, or 0.8. Each acknowledged packet releases the next one,
// which keeps the length constant.
TEST_CASE("queue__marks_rise_linearly_between_the_thresholds") {
  constexpr std::uint32_t kPackets = 20'000;
  constexpr std::uint32_t kStanding = 4 * 40 - 1;  // one is being sent, or on a cable
  const auto fraction = [](std::uint32_t least, std::uint32_t most) {
    Shape shape = one_switch(5, 1000 * kGigabit, picoseconds(0));
    shape.queue.mark_min = least * kSizes.most;
    shape.queue.mark_max = most * kSizes.most;
    Scene scene(shape);
    scene.network.set_rate(scene.wiring().to_port(4), 10 * kGigabit);
    for (std::uint32_t from = 0; from < 4; ++from) {
      (void)scene.flows.add(
          {.from = from, .to = 4, .bytes = std::uint64_t{kPayload} * kPackets, .window = 40});
    }
    scene.run();
    std::uint32_t marked = 0;
    for (std::uint32_t flow = 0; flow < 4; ++flow) marked += scene.flows.state(flow).marked;
    CHECK(marked == scene.counters(scene.wiring().to_port(4)).marked);
    return marked / (4.0 * kPackets);
  };
  CHECK(fraction(kStanding + 1, 1000) == 0);
  CHECK(fraction(10, 50) > 0.995);
  // 80,000 draws: three standard deviations are 0.005, and the queue's beginning and end add 0.002.
  CHECK(fraction(kStanding - 30, kStanding + 70) == Approx(0.30).margin(0.008));
  CHECK(fraction(kStanding - 80, kStanding + 20) == Approx(0.80).margin(0.008));
}

TEST_CASE("queue__what_is_urgent_goes_first_but_stops_nothing") {
  Bottleneck scene({});
  for (std::uint32_t i = 0; i < 4; ++i) scene.sink.send(0, 1, kBytes, i);
  for (std::uint32_t i = 10; i < 12; ++i) scene.sink.send(2, 1, kBytes, i, 0, true);
  scene.events.run();
  CHECK(scene.order() == std::vector<std::uint32_t>{0, 10, 11, 1, 2, 3});
  // The packets leave without a gap.
  for (std::size_t i = 1; i < scene.sink.came.size(); ++i) {
    CHECK(scene.sink.came[i].first - scene.sink.came[i - 1].first == kSlow);
  }
}

// The order holds when urgent packets come while others of them wait, and when only those wait.
TEST_CASE("queue__urgent_packets_keep_their_order_among_themselves") {
  Bottleneck scene({});
  scene.sink.send(0, 1, kBytes, 0);
  for (std::uint32_t i = 10; i < 13; ++i) scene.sink.send(2, 1, kBytes, i, 0, true);
  scene.events.run_until(Instant{1'500'000});  // 10 is being sent
  scene.sink.send(0, 1, kBytes, 1);
  scene.sink.send(2, 1, kBytes, 13, 0, true);
  scene.events.run_until(Instant{4'500'000});  // all but the last are gone
  scene.sink.send(2, 1, kBytes, 14, 0, true);
  scene.events.run();
  CHECK(scene.order() == std::vector<std::uint32_t>{0, 10, 11, 12, 13, 1, 14});
}

TEST_CASE("queue__what_does_not_fit_is_trimmed_and_goes_first") {
  Bottleneck scene({.capacity = 3 * kBytes, .trim_to = 64});
  for (std::uint32_t i = 0; i < 6; ++i) scene.sink.send(0, 1, kBytes, i);
  scene.events.run();
  CHECK(scene.order() == std::vector<std::uint32_t>{0, 3, 4, 5, 1, 2});
  CHECK(scene.sink.trimmed == std::vector<std::uint32_t>{3, 4, 5});
  CHECK(scene.counters().trimmed == 3);
  CHECK(scene.counters().dropped == 0);
  CHECK(scene.counters().bytes == 3 * kBytes + 3 * 64);
  CHECK(scene.sink.came[1].first - scene.sink.came[0].first == 64 * 800);
}

TEST_CASE("queue__headers_that_do_not_fit_either_are_dropped") {
  Bottleneck scene({.capacity = 1000, .trim_to = 400});
  for (std::uint32_t i = 0; i < 6; ++i) scene.sink.send(0, 1, kBytes, i);
  scene.events.run();
  CHECK(scene.order() == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(scene.counters().trimmed == 5);
  CHECK(scene.counters().dropped == 3);
}

// Four windows of 50 go into a queue of 20 at once. Trimmed packets are acknowledged, so all flows
// go on, and the wire carries the trimmed headers too.
TEST_CASE("queue__an_incast_with_trimming_loses_payload_but_no_packet") {
  Shape shape = one_switch(5, 100 * kGigabit, microseconds(1));
  shape.queue.capacity = 20 * kSizes.most;
  shape.queue.trim_to = 64;
  Scene scene(shape);
  for (std::uint32_t from = 0; from < 4; ++from) {
    (void)scene.flows.add(
        {.from = from, .to = 4, .bytes = std::uint64_t{kPayload} * 500, .window = 50});
  }
  scene.run();
  std::uint32_t trimmed = 0;
  for (std::uint32_t flow = 0; flow < 4; ++flow) {
    const FlowState& state = scene.flows.state(flow);
    CHECK(state.arrived + state.trimmed == 500);
    CHECK(state.finished != kNever);
    trimmed += state.trimmed;
  }
  CHECK(trimmed > 500);
  CHECK(scene.network.totals().trimmed == trimmed);
  CHECK(scene.network.totals().dropped == 0);
}

}  // namespace
}  // namespace hawser::fabric
