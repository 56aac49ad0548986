// SPDX-License-Identifier: Apache-2.0
// A peer, or this endpoint, is away for a while: descheduled, in a debugger, computing. No path
// fails for that, and up to peer_timeout the peer doesn't either.
#include <catch2/catch.hpp>
#include <utility>

#include "test/protocol/exchange.hpp"
#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::milliseconds;

// 20 MB each way, with one side away in the middle.
void run_with_pause(std::uint32_t who, Duration pause, std::uint32_t nics, std::size_t bytes) {
  INFO("node " << who << " of two with " << nics << " NICs away for " << pause.ns / 1000000
               << " ms, messages of " << bytes << " bytes");
  WorldConfig config;
  config.nics = nics;
  config.faults = "delay=20us,rate=1000000000";
  config.tunables.peer_timeout_ms = 5000;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(2));
  Exchange exchange(world);
  const std::size_t count = std::min<std::size_t>(400, 20000000 / bytes);
  exchange.both_ways(count, bytes, bytes);
  world.run_for(proto::microseconds(700));
  CHECK_FALSE(exchange.settled());
  world.pause(who, true);
  world.run_for(pause);
  world.pause(who, false);
  const proto::Time back = world.now();
  REQUIRE(exchange.run(milliseconds(3000)));
  INFO("finished " << (world.now() - back).ns / 1000 << " us after the return");
  CHECK((world.now() - back).ns < milliseconds(150).ns);
  exchange.check_all_ok();
  for (const std::uint32_t node : {0, 1}) {
    const EndpointStats stats = world.stats(node);
    INFO("node " << node << ": " << stats.data_packets_sent << " sent, "
                 << stats.fragments_retransmitted << " again, " << stats.spurious_retransmits
                 << " spurious, " << stats.ptos << " PTOs, " << stats.requests_sent << " requests");
    CHECK(stats.evacuations == 0);
    CHECK(stats.paths_down == 0);
    // Packets that overran the ring of the absent node were really lost.
    CHECK(stats.spurious_retransmits * 100 <= stats.data_packets_sent);
  }
  exchange.check_quiet();
}

TEST_CASE("pause__of_20_ms_costs_next_to_nothing") {
  for (const std::uint32_t who : {0, 1}) {
    for (const std::uint32_t nics : {1, 4}) {
      run_with_pause(who, milliseconds(20), nics, 1000000);
      run_with_pause(who, milliseconds(20), nics, 20000);
    }
  }
}

TEST_CASE("pause__of_a_second_is_no_failure") {
  for (const std::uint32_t who : {0, 1}) {
    for (const std::uint32_t nics : {1, 4}) {
      run_with_pause(who, milliseconds(1000), nics, 1000000);
      run_with_pause(who, milliseconds(1000), nics, 20000);
    }
  }
}

TEST_CASE("pause__of_both_at_once_is_no_failure") {
  WorldConfig config;
  config.nics = 2;
  config.tunables.peer_timeout_ms = 1000;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  exchange.message(0, 1, 1, 5000000);
  world.run_for(proto::microseconds(100));
  for (int i = 0; i < 3; ++i) {
    world.pause(0, true);
    world.pause(1, true);
    world.run_for(milliseconds(1500));  // a closed laptop, for longer than peer_timeout
    world.pause(0, false);
    world.pause(1, false);
    world.run_for(milliseconds(1));
  }
  exchange.message(0, 1, 2, 1000);
  REQUIRE(exchange.run(milliseconds(500)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

void many_short_pauses(const std::string& faults, double most_spurious) {
  for_each_seed(10, [&](proto::Random& random) {
    WorldConfig config;
    config.nics = 4;
    config.seed = random.next();
    config.faults = faults;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    std::uint64_t tag = 0;
    for (int i = 0; i < 200; ++i) {
      while (tag < 4 + exchange.sends() && exchange.sends() < 400 && tag < 400) {
        exchange.message(0, 1, tag, 300000);
        exchange.message(1, 0, tag, 20000);
        ++tag;
        if (tag % 8 == 0) break;
      }
      // As measured with 8 ranks on 2 cores: gaps of some 100 us to 19 ms.
      const auto who = static_cast<std::uint32_t>(random.below(2));
      world.pause(who, true);
      world.run_for(proto::microseconds(100 + random.below(random.chance(0.1) ? 19000 : 1000)));
      world.pause(who, false);
      world.run_for(proto::microseconds(random.below(300)));
      exchange.collect();
    }
    REQUIRE(exchange.run(milliseconds(2000)));
    exchange.check_all_ok();
    for (const std::uint32_t node : {0, 1}) {
      const EndpointStats stats = world.stats(node);
      INFO("node " << node << ": " << stats.data_packets_sent << " sent, "
                   << stats.fragments_retransmitted << " again, " << stats.spurious_retransmits
                   << " spurious; lost by gap " << stats.lost_by_gap << ", by request "
                   << stats.lost_by_request << ", requests sent " << stats.requests_sent << " ptos "
                   << stats.ptos << ", evacuations " << stats.evacuations << ", duplicates "
                   << stats.duplicate_fragments);
      CHECK(stats.evacuations == 0);
      CHECK(stats.paths_down == 0);
      CHECK(static_cast<double>(stats.spurious_retransmits) <=
            most_spurious * static_cast<double>(stats.data_packets_sent));
    }
    exchange.check_quiet();
  });
}

// Where packets of a path keep their order, next to nothing is sent twice: only packets that a
// receiver requested just before it was away.
TEST_CASE("pause__of_many_short_ones_moves_no_path", "[L7]") {
  many_short_pauses("delay=20us,rate=1000000000", 0.005);
}

// Where packets overtake each other, each path learns it once.
TEST_CASE("pause__of_many_short_ones_under_reordering_moves_no_path") {
  many_short_pauses("delay=20us/10us,rate=1000000000", 0.05);
}

// The absence that counts is the one during which the other end was silent, although an earlier one
// was longer.
TEST_CASE("pause__a_long_absence_hides_no_shorter_one_after_it") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 1000;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  const auto is_away = [&](std::uint32_t node, std::uint64_t ms) {
    world.pause(node, true);
    world.run_for(milliseconds(ms));
    world.pause(node, false);
  };
  is_away(0, 600);
  (void)exchange.receive(0, 1, 1, 100);
  world.run_for(milliseconds(300));  // they hear each other
  world.pause(1, true);
  world.run_for(milliseconds(300));
  is_away(0, 400);
  world.run_for(milliseconds(400));
  world.pause(1, false);
  (void)exchange.send(1, 0, 1, 100);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

// Timers as long as the absence would outlast patience when the next packet is lost.
TEST_CASE("pause__is_not_the_measure_of_a_path_that_it_is_the_first_sample_of", "[L10]") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 3200;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  world.pause(1, true);
  exchange.message(0, 1, 1, 100);
  world.run_for(milliseconds(1000));
  world.pause(1, false);
  REQUIRE(exchange.run(milliseconds(10)));
  exchange.check_all_ok();
  for (const PathStats& path : world.peer_stats(0, 1).paths) CHECK(path.srtt_ns <= 100'000'000);
}

// Sixteen packets are in flight when an end goes away, and each has an acknowledgement of its own.
// All of them show the same absence. The next packet is lost: timers as long as the absence would
// find that out late.
void lose_after_pause(std::uint32_t who, std::uint64_t budget) {
  INFO("node " << who << " was away, and takes " << budget << " packets in a turn");
  bool lose = false;
  WorldConfig config;
  config.tunables.ack_every_packets = 1;
  config.tunables.poll_budget_packets = budget;
  config.hook = [&](std::uint32_t node, std::uint32_t,
                    const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
    if (node != 0 || packet.direction != engine::Direction::tx) return {};
    if (!message_of(packet) || !std::exchange(lose, false)) return {};
    return engine::Fate{.drop = true};
  };
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  std::uint64_t tag = 0;
  for (; tag < 20; ++tag) {
    exchange.message(0, 1, tag, 100);
    REQUIRE(exchange.run(milliseconds(10)));
  }
  if (who == 1) world.pause(1, true);
  for (; tag < 36; ++tag) {
    exchange.message(0, 1, tag, 100);
    world.run_for(proto::nanoseconds(500));
  }
  world.pause(who, true);
  world.run_for(milliseconds(500));
  world.pause(who, false);
  REQUIRE(exchange.run(milliseconds(100)));
  lose = true;
  const proto::Time sent = world.now();
  exchange.message(0, 1, tag, 100);
  REQUIRE(exchange.run(milliseconds(2000)));
  CHECK_FALSE(lose);
  CHECK(world.now() - sent < milliseconds(5));
  exchange.check_all_ok();
}

TEST_CASE("pause__counts_once_however_many_answers_show_it", "[L10]") {
  for (const std::uint32_t who : {0u, 1u}) {
    for (const std::uint64_t budget : {8u, 128u}) lose_after_pause(who, budget);
  }
}

// Node 0 waits for a message of node 1, whose packets no longer arrive.
struct Unheard {
  Unheard() {
    world.connect_all();
    world.run_for(milliseconds(5));
    (void)exchange.receive(0, 1, 1, 100);
    world.apply(1, 0, "blackhole=both");
  }
  void be_away(std::uint64_t ms) {
    world.pause(0, true);
    world.run_for(milliseconds(ms));
    world.pause(0, false);
  }
  // Present for so short a time that nobody could answer.
  void glimpse() { world.run_for(proto::microseconds(config().tunables.late_wakeup_us / 8)); }
  [[nodiscard]] std::uint64_t failures() { return world.stats(0).peer_failures; }

  static WorldConfig config() {
    WorldConfig config;
    config.tunables.peer_timeout_ms = 1000;
    return config;
  }
  World world{config()};
  Exchange exchange{world};
};

// Node 0 hears nothing of the other node while it is away itself. That time doesn't count as
// silence.
TEST_CASE("pause__is_no_silence_of_the_other", "[F1]") {
  Unheard scene;
  scene.world.run_for(milliseconds(100));
  scene.be_away(800);
  scene.world.run_for(milliseconds(600));  // it was to probe after 250, and was absent for 650
  CHECK(scene.failures() == 0);
  scene.world.run_for(milliseconds(200));
  CHECK(scene.failures() == 1);
}

TEST_CASE("pause__a_glimpse_between_two_long_ones_counts_as_no_presence", "[F1][L23]") {
  Unheard scene;
  for (int i = 0; i < 2; ++i) {
    scene.glimpse();
    scene.be_away(800);
  }
  scene.world.run_for(milliseconds(600));  // it was to probe after 250, and was absent for 1350
  CHECK(scene.failures() == 0);
  scene.world.run_for(milliseconds(300));
  CHECK(scene.failures() == 1);
}

// A program that polls now and then is present for a glimpse each time. It learns of a death, too.
TEST_CASE("pause__whoever_comes_only_for_glimpses_notices_a_death", "[F1][L23]") {
  const std::uint64_t ms = GENERATE(150, 400, 800);
  INFO("a glimpse each " << ms << " ms");
  Unheard scene;
  for (std::uint64_t since = 0; since < 6000; since += ms) {
    scene.glimpse();
    scene.be_away(ms);
  }
  CHECK(scene.failures() == 1);
}

// The whole host stands still in the middle of a turn of node 0, for longer than peer_timeout. When
// it goes on, its rings hold packets that it has not read yet.
void stand_still_in_a_turn(std::uint32_t nics, std::uint32_t before_nic, int polls) {
  INFO(nics << " NICs; before NIC " << before_nic << " is polled, after " << polls << " turns");
  World* running = nullptr;
  int left = -1;  // polls until the pause; -1: no pause
  WorldConfig config;
  config.nics = nics;
  config.faults = "delay=20us,rate=1000000000";
  config.tunables.peer_timeout_ms = 1000;
  config.before_poll = [&](std::uint32_t node, std::uint32_t nic) {
    if (left < 0 || node != 0 || nic != before_nic || left-- > 0) return;
    for (const std::uint32_t i : {0u, 1u}) running->pause(i, true);
    running->run_for(milliseconds(1500));
    for (const std::uint32_t i : {0u, 1u}) running->pause(i, false);
  };
  World world(config);
  running = &world;
  world.connect_all();
  Exchange exchange(world);
  exchange.both_ways(40, 100000, 100000);
  world.run_for(proto::microseconds(300));
  REQUIRE_FALSE(exchange.settled());
  left = polls;
  REQUIRE(exchange.run(milliseconds(3000)));
  CHECK(left < 0);
  exchange.check_all_ok();
  for (const std::uint32_t node : {0u, 1u}) {
    CHECK(world.stats(node).peer_failures == 0);
    CHECK(world.stats(node).paths_down == 0);
  }
  exchange.check_quiet();
}

TEST_CASE("pause__of_the_whole_host_in_the_middle_of_a_turn_is_no_failure", "[F1][L12]") {
  for (const std::uint32_t nics : {1u, 2u}) {
    for (std::uint32_t before_nic = 0; before_nic < nics; ++before_nic) {
      for (int polls = 0; polls < 12; ++polls) stand_still_in_a_turn(nics, before_nic, polls);
    }
  }
}

TEST_CASE("pause__beyond_peer_timeout_fails_both_sides_alike") {
  for (const std::uint32_t who : {0, 1}) {
    WorldConfig config;
    config.nics = 2;
    config.faults = "delay=20us,rate=1000000000";
    config.tunables.peer_timeout_ms = 500;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    exchange.message(0, 1, 1, 50000000);
    world.run_for(milliseconds(2));
    world.pause(who, true);
    world.run_for(milliseconds(2000));
    world.pause(who, false);
    REQUIRE(exchange.run(milliseconds(1500)));
    INFO(who << " was away");
    const Status sent = exchange.sent(0).completion->status;
    const Status received = exchange.received(0).completion->status;
    CHECK(is_peer_failure(sent));
    CHECK(is_peer_failure(received));
    CHECK((who == 0 ? received : sent) == Status::peer_timeout);
    exchange.check_quiet();
  }
}

}  // namespace
}  // namespace hawser::test
