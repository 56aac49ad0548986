// SPDX-License-Identifier: Apache-2.0
// Scenes of busy hosts, as lists of events. A host that wakes late, runs seldom, or is away in the
// middle of a turn looks slow, and must not be taken for dead. The order in which a turn reads its
// rings must not look like loss.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"
#include "test/protocol/timeline.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::PacketType;

// Neither end took a living path or peer for dead, or a slow packet for lost.
void check_calm(World& world) {
  for (std::uint32_t node = 0; node < world.nodes(); ++node) {
    const EndpointStats stats = world.stats(node);
    INFO("node " << node << ": " << stats.data_packets_sent << " sent, " << stats.packets_lost
                 << " lost, " << stats.fragments_retransmitted << " again, "
                 << stats.spurious_retransmits << " spurious, " << stats.ptos << " PTOs, "
                 << stats.requests_sent << " requests, " << stats.late_turns << " late turns");
    CHECK(stats.evacuations == 0);
    CHECK(stats.paths_down == 0);
    CHECK(stats.peer_failures == 0);
    CHECK(stats.spurious_retransmits == 0);
  }
}

// (6) The last packet of a message is lost. The endpoint that should notice blocks until its timer
// is due, and always wakes 5 ms late. Each of its turns is therefore late. A timer that was put off
// each time would never expire, so a timer is put off once per arming.
TEST_CASE("scenario_6__the_last_packet_is_lost_and_who_should_find_out_always_wakes_late",
          "[L12]") {
  for (const std::uint32_t late : {0u, 1u}) {
    INFO("node " << late << " wakes late; it is the only one that looks for loss");
    World* running = nullptr;
    int lost = 0;
    proto::Time lost_at{};
    WorldConfig config;
    config.tunables.recovery_pto = late == 0 ? 1 : 0;
    config.tunables.recovery_request = late == 0 ? 0 : 1;
    config.hook = [&](std::uint32_t node, std::uint32_t,
                      const FaultPacket& packet) -> std::optional<Fate> {
      if (node != 0 || packet.direction != engine::Direction::tx || lost > 0) return {};
      const auto view = view_of(packet);
      if (view.type != PacketType::data || view.fragment->fragment != 9) return {};
      ++lost;
      lost_at = running->now();
      return Fate{.drop = true};
    };
    World world(config);
    running = &world;
    world.connect_all();
    Exchange exchange(world);
    std::size_t received = 0;
    play(world, {{milliseconds(0), [&] { world.set_lateness(late, milliseconds(5)); }},
                 {milliseconds(40), [&] { received = exchange.receive(1, 0, 1, 40000); }},
                 {milliseconds(50), [&] { (void)exchange.send(0, 1, 1, 40000); }}});
    REQUIRE(exchange.run(milliseconds(1000)));
    REQUIRE(lost == 1);
    // A response time, its timer, and one postponement: each takes some of the endpoint's 5 ms.
    INFO("found and repaired after " << (world.now() - lost_at).ns / 1000 << " us");
    CHECK((world.now() - lost_at).ns < milliseconds(60).ns);
    CHECK(exchange.received(received).completion->status == Status::ok);
    exchange.check_all_ok();
    CHECK(world.stats(late).late_turns >= 3);
    CHECK(world.stats(0).fragments_retransmitted == 1);
    CHECK(world.stats(0).packets_lost == 1);
    check_calm(world);
    world.set_lateness(late, Duration{});
    world.wake(late);
    exchange.check_quiet();
  }
}

// (7) A peer runs for 2 ms and is away for 10, again and again, while both sides stream over four
// NICs.
TEST_CASE("scenario_7__a_peer_that_runs_for_2_ms_in_every_12") {
  for (const std::size_t bytes : {std::size_t{1000000}, std::size_t{20000}}) {
    INFO("messages of " << bytes << " bytes");
    WorldConfig config;
    config.nics = 4;
    config.faults = "delay=20us,rate=1000000000";
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    const std::size_t count = std::min<std::size_t>(400, 20000000 / bytes);
    exchange.both_ways(count, bytes, bytes);
    int periods = 0;
    while (!exchange.settled()) {
      REQUIRE(++periods < 100);
      play(world, {{milliseconds(0), [&] { world.pause(1, true); }},
                   {milliseconds(10), [&] { world.pause(1, false); }},
                   {milliseconds(12), [] {}}});
    }
    INFO(periods << " periods of 12 ms for " << count * bytes << " bytes each way");
    // About a ring's worth is in flight in each direction when the peer leaves and when it returns.
    CHECK(periods <= 10);
    exchange.check_all_ok();
    check_calm(world);
    exchange.check_quiet();
  }
}

// (8) A turn reads the control queue first: a grant, and the cancel of the message behind them. It
// does so before 60 data packets of the same path that were sent earlier. Control packets have no
// path numbers. Nothing was therefore overtaken, nothing is missing, and nothing is requested.
TEST_CASE("scenario_8__control_is_read_before_60_data_packets_of_the_same_path") {
  World* running = nullptr;
  bool watching = false;
  std::string sent;   // by node 0, in order: d for data, c for control
  std::string heard;  // by node 1
  const auto name = [](const FaultPacket& packet) {
    return packet.queue == proto::Queue::data ? 'd' : 'c';
  };
  WorldConfig config;
  config.tunables.unscheduled_bytes = 60 * 4096;
  config.tunables.initial_window_packets = 128;
  config.tunables.unexpected_bytes = 4 << 20;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (!watching) return {};
    if (node == 0 && packet.direction == engine::Direction::tx) sent += name(packet);
    if (node == 1 && packet.direction == engine::Direction::rx) heard += name(packet);
    return {};
  };
  World world(config);
  running = &world;
  world.connect_all();
  Exchange exchange(world);
  std::size_t cancelled = 0;
  play(world, {{milliseconds(5), [&] { (void)exchange.send(1, 0, 7, 2000000); }},
               {milliseconds(10),
                [&] {
                  (void)exchange.receive(1, 0, 1, 60 * 4096);
                  world.pause(1, true);
                  watching = true;
                  (void)exchange.send(0, 1, 1, 60 * 4096);
                }},
               {microseconds(10100),
                [&] {
                  REQUIRE(sent == std::string(60, 'd'));
                  (void)exchange.receive(0, 1, 7, 2000000);  // a grant leaves
                  cancelled = exchange.send(0, 1, 2, 100);
                  REQUIRE(running->cancel(0, exchange.sent(cancelled).operation) == Status::ok);
                }},
               {microseconds(10300), [&] { world.pause(1, false); }},
               {microseconds(10302), [&] { watching = false; }}});
  const std::size_t controls = static_cast<std::size_t>(std::ranges::count(sent, 'c'));
  INFO("sent " << sent << ", heard " << heard);
  REQUIRE(controls >= 2);
  REQUIRE(heard.substr(0, controls) == std::string(controls, 'c'));
  REQUIRE(std::ranges::count(heard, 'd') >= 60);
  REQUIRE(exchange.run(milliseconds(20)));
  for (const std::uint32_t node : {0u, 1u}) {
    CHECK(world.stats(node).requests_sent == 0);
    CHECK(world.stats(node).packets_lost == 0);
    CHECK(world.stats(node).duplicate_fragments == 0);
  }
  CHECK(exchange.sent(cancelled).completion->status == Status::cancelled);
  check_calm(world);
  exchange.check_quiet();
}

// (9) The receiver is away between polling NIC 0 and NIC 1, for far longer than a probe timeout. On
// its return it finds packets of path 1, but none of path 0. Its acknowledgement shows path 0
// unanswered since. That is no silence until a later turn, which has polled NIC 0 since, shows the
// same.
TEST_CASE("scenario_9__a_peer_is_away_between_polling_nic_0_and_nic_1", "[P2]") {
  World* running = nullptr;
  bool away = false;
  proto::Time next_absence{INT64_MAX};
  int absences = 0;
  WorldConfig config;
  config.nics = 2;
  config.faults = "delay=20us,rate=1000000000";
  config.before_poll = [&](std::uint32_t node, std::uint32_t nic) {
    if (running == nullptr || node != 1 || nic != 1 || away) return;
    if (running->now() < next_absence) return;
    away = true;
    ++absences;
    running->pause(1, true);
    running->run_for(milliseconds(8));
    running->pause(1, false);
    next_absence = running->now() + milliseconds(15);
    away = false;
  };
  World world(config);
  running = &world;
  world.connect_all();
  world.run_for(milliseconds(20));
  Exchange exchange(world);
  next_absence = world.now() + milliseconds(5);
  for (std::uint64_t i = 0; i < 3000; ++i) {  // a trickle, which no window stops for long
    exchange.message(0, 1, i, 4096);
    world.run_for(microseconds(50));
    exchange.collect();
  }
  next_absence = proto::kNever;
  REQUIRE(exchange.run(milliseconds(100)));
  CHECK(absences >= 5);
  exchange.check_all_ok();
  check_calm(world);
  exchange.check_quiet();
}

}  // namespace
}  // namespace hawser::test
