// SPDX-License-Identifier: Apache-2.0
// The core of the simulator: order of events, links to the nanosecond, routes, and endpoints that
// talk over it. Each run is the same.
#include <array>
#include <catch2/catch.hpp>

#include "sim/core/host.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::nanoseconds;
using proto::Time;
using sim::EventQueue;
using sim::Fabric;
using sim::Frame;
using sim::LinkConfig;

constexpr Time kStart{1'000'000'000};

struct Recorder final : sim::Actor {
  std::vector<std::pair<std::int64_t, std::uint64_t>> seen;
  void on_event(Time now, std::uint64_t what) override { seen.emplace_back(now.ns, what); }
};

TEST_CASE("events__come_in_the_order_of_time_and_then_of_making") {
  EventQueue events(Time{100});
  Recorder recorder;
  proto::Random random(7);
  std::vector<std::pair<std::int64_t, std::uint64_t>> expected;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const auto at = static_cast<std::int64_t>(random.below(300));
    events.at(Time{at}, recorder, i);
    expected.emplace_back(std::max<std::int64_t>(at, 100), i);
  }
  std::ranges::stable_sort(expected, {}, [](const auto& one) { return one.first; });
  while (!events.empty()) events.step();
  CHECK(recorder.seen == expected);
  CHECK(events.done() == 5000);
}

struct Sink final : sim::PortOwner {
  explicit Sink(Fabric& of, EventQueue& with) : fabric(of), events(with) {}
  Fabric& fabric;
  EventQueue& events;
  std::vector<std::int64_t> arrivals;  // since the start
  std::vector<bool> marked;
  void on_frame(std::uint32_t id) override {
    arrivals.push_back((events.now() - kStart).ns);
    marked.push_back(fabric.frames().at(id).congestion_experienced);
    fabric.frames().give(id);
  }
};

void send(Fabric& fabric, std::uint32_t from, std::uint32_t to, std::size_t bytes,
          std::uint16_t entropy = 0) {
  const std::uint32_t id = fabric.frames().take();
  Frame& frame = fabric.frames().at(id);
  const std::vector<std::byte> data(bytes, std::byte{1});
  frame.fill(data, {});
  frame.from = from;
  frame.to = to;
  frame.entropy = entropy;
  fabric.send(id);
}

TEST_CASE("fabric__frames_are_as_late_as_rates_and_latencies_make_them") {
  EventQueue events(kStart);
  Fabric fabric(events, 1);
  const std::uint32_t at = fabric.add_switch();
  // 1000 bytes take 100 ns on the way up and 333.3 ns on the way down.
  const LinkConfig fast{.bytes_per_s = 10'000'000'000, .latency = nanoseconds(500)};
  const LinkConfig slow{.bytes_per_s = 3'000'000'000, .latency = nanoseconds(500)};
  const std::uint32_t a = fabric.add_port(at, fast);
  const std::uint32_t b = fabric.add_port(at, slow);
  fabric.finish();
  Sink sink(fabric, events);
  fabric.plug(b, &sink);
  for (int i = 0; i < 4; ++i) send(fabric, a, b, 1000);
  while (!events.empty()) events.step();
  CHECK(sink.arrivals == std::vector<std::int64_t>{1433, 1766, 2099, 2433});
  CHECK(fabric.frames().out() == 0);
}

// Packets that wait when the slowness ends go at the full rate from then on.
TEST_CASE("link__what_was_slow_is_so_until_a_moment") {
  constexpr std::uint32_t kFrame = 1000;
  sim::Link link({.bytes_per_s = 1'000'000'000, .latency = {}}, 1);
  const Time start{};
  link.faults.slowdown = 1000;
  link.faults.slow_until = start + microseconds(1500);
  CHECK(link.pass(start, kFrame).departs == start + microseconds(1000));
  // Half of it goes at the slow rate, in 500 us; the other half at the full rate.
  const Time second = link.pass(start, kFrame).departs;
  CHECK(second == start + Duration{1'500'500});
  CHECK(link.pass(start, kFrame).departs == second + microseconds(1));
  CHECK(link.waiting_bytes(start) == 3 * kFrame);
  CHECK(link.waiting_bytes(start + microseconds(1000)) == 2 * kFrame);
  CHECK(link.waiting_bytes(start + microseconds(1500)) == kFrame + kFrame / 2);
}

TEST_CASE("fabric__a_full_queue_drops_and_a_long_one_marks") {
  EventQueue events(kStart);
  Fabric fabric(events, 1);
  const std::uint32_t at = fabric.add_switch();
  LinkConfig cable{.bytes_per_s = 1'000'000'000, .latency = nanoseconds(0), .queue_bytes = 100000};
  const std::uint32_t a = fabric.add_port(at, cable);
  cable.bytes_per_s = 100'000'000;
  cable.queue_bytes = 10000;
  cable.mark_bytes = 4000;
  const std::uint32_t b = fabric.add_port(at, cable);
  fabric.finish();
  Sink sink(fabric, events);
  fabric.plug(b, &sink);
  for (int i = 0; i < 20; ++i) send(fabric, a, b, 1000);
  while (!events.empty()) events.step();
  // One packet leaves while ten arrive.
  CHECK(sink.arrivals.size() == 11);
  CHECK(fabric.totals().queue_drops == 9);
  CHECK(std::ranges::count(sink.marked, true) == static_cast<int>(fabric.totals().marked));
  CHECK(fabric.totals().marked > 3);
}

// 0 and 1 are leaves; 2, 3 and 4 are spines.
TEST_CASE("fabric__flows_are_spread_over_equal_ways_and_keep_theirs") {
  EventQueue events(kStart);
  Fabric fabric(events, 3);
  for (int i = 0; i < 5; ++i) (void)fabric.add_switch();
  const LinkConfig cable;
  const std::uint32_t a = fabric.add_port(0, cable);
  const std::uint32_t b = fabric.add_port(1, cable);
  for (std::uint32_t leaf = 0; leaf < 2; ++leaf) {
    for (std::uint32_t spine = 2; spine < 5; ++spine) (void)fabric.join(leaf, spine, cable);
  }
  fabric.finish();
  Sink sink(fabric, events);
  fabric.plug(b, &sink);
  const auto used = [&] {
    std::array<std::uint64_t, 3> frames{};
    for (std::uint32_t i = 0; i < 3; ++i) frames[i] = fabric.cable(i, false).counters().frames;
    return frames;
  };
  for (int i = 0; i < 30; ++i) send(fabric, a, b, 100, 5);
  while (!events.empty()) events.step();
  CHECK(std::ranges::count(used(), 30u) == 1);
  for (std::uint16_t entropy = 0; entropy < 300; ++entropy) send(fabric, a, b, 100, entropy);
  while (!events.empty()) events.step();
  for (const std::uint64_t frames : used()) CHECK(frames > 70);
  CHECK(sink.arrivals.size() == 330);
  fabric.close_way(a, b);
  send(fabric, a, b, 100);
  while (!events.empty()) events.step();
  CHECK(sink.arrivals.size() == 330);
  CHECK(fabric.lost_on_closed_ways() == 1);
}

// Two hosts of two NICs, with loss.
struct Pair {
  EventQueue events{kStart};
  Fabric fabric;
  sim::AddressBook book;
  std::array<std::unique_ptr<sim::Host>, 2> hosts;
  std::array<PeerId, 2> peers{kAnyPeer, kAnyPeer};
  std::array<std::uint64_t, 2> completed{};

  explicit Pair(std::uint64_t seed, double loss) : fabric(events, seed) {
    const std::uint32_t at = fabric.add_switch();
    for (std::uint32_t i = 0; i < 4; ++i) (void)fabric.add_port(at, {});
    fabric.finish();
    for (std::uint32_t i = 0; i < 4; ++i) fabric.to_port(i).faults.loss = loss;
    for (std::uint32_t i = 0; i < 2; ++i) {
      sim::HostConfig config;
      config.endpoint.tunables.max_peers = 4;
      config.endpoint.tunables.max_operations = 256;
      config.endpoint.tunables.max_receive_messages = 256;
      config.endpoint.tunables.max_in_flight_packets = 1024;
      config.endpoint.tunables.packet_buffers = 1024;
      config.endpoint.tunables.unexpected_bytes = 1 << 20;
      config.endpoint.endpoint_id = i + 1;
      config.endpoint.epoch = 1;
      config.endpoint.seed = seed + i;
      config.ports = {2 * i, 2 * i + 1};
      config.clock = milliseconds(i * 777);
      hosts[i] = std::make_unique<sim::Host>(events, fabric, book, config, [this, i] {
        std::array<Completion, 64> done;
        completed[i] += hosts[i]->endpoint().poll_completions(done);
      });
    }
    std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::size_t bytes = hosts[1 - i]->endpoint().write_address(blob);
      REQUIRE(hosts[i]->endpoint().connect(hosts[i]->now(), std::span(blob).first(bytes),
                                           peers[i]) == Status::ok);
      hosts[i]->wake();
    }
  }
  void run_until(const std::function<bool()>& done, Duration limit) {
    const Time end = events.now() + limit;
    while (!done() && events.next() <= end) events.step();
  }
};

std::pair<std::uint64_t, std::uint64_t> transfer(std::uint64_t seed) {
  Pair pair(seed, 0.02);
  std::vector<std::byte> from(3'000'000);
  std::vector<std::byte> to(from.size());
  proto::Random random(seed);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random.next());
  proto::SendRequest send;
  send.operation = OperationId{1};
  send.peer = pair.peers[0];
  send.data = from.data();
  send.bytes = from.size();
  REQUIRE(pair.hosts[0]->endpoint().send(pair.hosts[0]->now(), send) == Status::ok);
  proto::ReceiveRequest receive;
  receive.operation = OperationId{1};
  receive.data = to.data();
  receive.bytes = to.size();
  REQUIRE(pair.hosts[1]->endpoint().receive(pair.hosts[1]->now(), receive) == Status::ok);
  for (auto& host : pair.hosts) host->wake();
  pair.run_until([&] { return pair.completed[0] == 1 && pair.completed[1] == 1; },
                 milliseconds(1000));
  CHECK(pair.completed[0] == 1);
  CHECK(pair.completed[1] == 1);
  CHECK((from == to));
  CHECK(pair.fabric.totals().lost > 5);
  return {pair.fabric.digest(), pair.events.done()};
}

TEST_CASE("host__messages_arrive_and_a_seed_is_a_run") {
  const auto first = transfer(1);
  CHECK(transfer(1) == first);
  CHECK(transfer(2).first != first.first);
}

// A packet that comes after the host has looked at its NICs wakes nobody.
TEST_CASE("host__what_came_while_it_stood_is_found_before_it_sleeps") {
  using Place = sim::Host::Place;
  const auto never = [] { return false; };
  for (const Place place : {Place::before_looking, Place::between_halves, Place::before_sending}) {
    INFO("place " << static_cast<int>(place));
    Pair pair(1, 0);
    const std::array<std::byte, 100> from{};
    std::array<std::byte, 100> to{};
    proto::ReceiveRequest receive;
    receive.operation = OperationId{1};
    receive.data = to.data();
    receive.bytes = to.size();
    REQUIRE(pair.hosts[1]->endpoint().receive(pair.hosts[1]->now(), receive) == Status::ok);
    pair.hosts[1]->wake();
    pair.run_until(never, milliseconds(50));
    pair.hosts[1]->stand(place);
    pair.hosts[1]->wake();
    pair.run_until([&] { return pair.hosts[1]->stands(); }, milliseconds(1));
    REQUIRE(pair.hosts[1]->stands());
    proto::SendRequest send;
    send.operation = OperationId{1};
    send.peer = pair.peers[0];
    send.data = from.data();
    send.bytes = from.size();
    REQUIRE(pair.hosts[0]->endpoint().send(pair.hosts[0]->now(), send) == Status::ok);
    pair.hosts[0]->wake();
    pair.run_until(never, microseconds(100));
    pair.hosts[0]->pause(true);  // nothing more comes from it
    pair.run_until(never, microseconds(100));
    pair.hosts[1]->go_on();
    pair.run_until([&] { return pair.completed[1] == 1; }, milliseconds(1));
    CHECK(pair.completed[1] == 1);
  }
}

}  // namespace
}  // namespace hawser::test
