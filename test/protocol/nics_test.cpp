// SPDX-License-Identifier: Apache-2.0
// NICs die, loudly or silently, one or all but one, in both directions or in one, and come back.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::Time;

// Four links of 1 GB/s each, 20 us long.
WorldConfig four_nics() {
  WorldConfig config;
  config.nics = 4;
  config.faults = "delay=20us,rate=1000000000";
  config.tunables.initial_window_packets = 128;
  config.tunables.grant_start_bytes = 1 << 20;  // much in flight, more than the links need
  return config;
}

std::vector<NicStats> nic_stats(World& world, std::uint32_t node) {
  std::vector<NicStats> stats(world.nics(node));
  world.endpoint(node).nic_stats(stats);
  return stats;
}

std::size_t paths_in(World& world, std::uint32_t node, std::uint32_t other, PathState state) {
  const PeerStats stats = world.peer_stats(node, other);
  return static_cast<std::size_t>(std::ranges::count_if(
      stats.paths, [&](const PathStats& path) { return path.state == state; }));
}

// Keeps `depth` messages of `bytes` from node 0 to node 1 under way, and records the pauses between
// their completions.
class Stream {
 public:
  Stream(World& world, Exchange& exchange, std::size_t bytes, std::size_t depth)
      : world_(world), exchange_(exchange), bytes_(bytes), depth_(depth), last_(world.now()) {}

  bool run_for(Duration time) {
    const Time end = world_.now() + time;
    return !world_.run_until([&] { return step(), false; }, end - world_.now());
  }
  bool run_until(const std::function<bool()>& done, Duration limit) {
    return world_.run_until([&] { return step(), done(); }, limit);
  }
  void step() {
    exchange_.collect();
    for (; finished_ < posted_ && exchange_.received(finished_).completion; ++finished_) {
      longest_ = std::max(longest_, world_.now() - last_);
      last_ = world_.now();
    }
    for (; posted_ < finished_ + depth_; ++posted_) exchange_.message(0, 1, posted_, bytes_);
  }
  // The longest pause between two completions since the last call.
  Duration take_longest() {
    const Duration longest = std::max(longest_, world_.now() - last_);
    longest_ = Duration{};
    last_ = world_.now();
    return longest;
  }
  [[nodiscard]] std::size_t finished() const { return finished_; }

 private:
  World& world_;
  Exchange& exchange_;
  std::size_t bytes_;
  std::size_t depth_;
  std::size_t posted_ = 0;
  std::size_t finished_ = 0;
  Time last_;
  Duration longest_{};
};

TEST_CASE("nics__one_of_four_dies_silently_with_100_fragments_in_flight", "[I1]") {
  for (const std::uint32_t victim_node : {0, 1}) {
    INFO("at node " << victim_node);
    World world(four_nics());
    world.connect_all();
    Exchange exchange(world);
    Stream stream(world, exchange, 1000000, 8);
    REQUIRE(stream.run_until([&] { return nic_stats(world, 0)[2].bytes_in_flight >= 100 * 4096; },
                             milliseconds(50)));
    (void)stream.take_longest();
    world.apply(victim_node, 2, "kill");
    const Time killed = world.now();
    const std::uint64_t evacuated_before = world.stats(0).lost_by_evacuation;
    REQUIRE(stream.run_until([&] { return world.stats(0).evacuations > 0; }, milliseconds(20)));
    const Duration detection = world.now() - killed;
    INFO("evacuated after " << detection.ns / 1000 << " us");
    CHECK(detection.ns < milliseconds(2).ns);
    CHECK(world.stats(0).lost_by_evacuation - evacuated_before >= 100);
    stream.run_for(milliseconds(20));
    const Duration stall = stream.take_longest();
    INFO("longest stall " << stall.ns / 1000 << " us");
    CHECK(stall.ns < milliseconds(3).ns);
    CHECK(world.stats(0).evacuations <= 2);
    REQUIRE(exchange.run(milliseconds(100)));
    exchange.check_all_ok();
    // The dead NIC's partner at node 0, if it is alive itself, goes on with another NIC of node 1.
    CHECK(paths_in(world, 0, 1, PathState::up) == (victim_node == 0 ? 3 : 4));
    CHECK(world.stats(0).spurious_retransmits == 0);
  }
}

TEST_CASE("nics__the_driver_tells_of_a_death_and_the_peer_hears_of_it") {
  World world(four_nics());
  world.connect_all();
  Exchange exchange(world);
  Stream stream(world, exchange, 1000000, 8);
  stream.run_for(milliseconds(5));
  world.apply(1, 2, "kill:event");
  // The paths at node 0 are down after about one way of the fabric, without any silence.
  REQUIRE(stream.run_until([&] { return world.stats(0).paths_down > 0; }, milliseconds(10)));
  CHECK(world.stats(1).paths_down == 0);  // node 1 sends next to nothing, and not on that NIC
  CHECK(paths_in(world, 0, 1, PathState::up) == 3);
  CHECK(world.stats(0).evacuations == 0);
  CHECK(world.stats(1).evacuations == 0);
  const auto is_nic_down = [](const Event& event) {
    return event.kind == Event::Kind::nic_down && event.nic == 2;
  };
  CHECK(std::ranges::count_if(world.events(1), is_nic_down) == 1);
  stream.run_for(milliseconds(10));
  CHECK(stream.take_longest().ns < milliseconds(2).ns);
  // The NIC comes back.
  world.apply(1, 2, "revive:event");
  REQUIRE(stream.run_until([&] { return world.stats(0).paths_returned == 1; }, milliseconds(20)));
  CHECK(paths_in(world, 0, 1, PathState::up) == 4);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

TEST_CASE("nics__a_nic_that_returns_carries_traffic_again") {
  World world(four_nics());
  world.connect_all();
  Exchange exchange(world);
  Stream stream(world, exchange, 1000000, 8);
  stream.run_for(milliseconds(5));
  world.apply(1, 3, "kill");
  stream.run_for(milliseconds(100));
  CHECK(world.stats(0).paths_down > 0);
  world.apply(1, 3, "revive");
  REQUIRE(stream.run_until([&] { return world.stats(0).paths_returned > 0; }, milliseconds(600)));
  const std::uint64_t all_before = world.stats(0).data_bytes_sent;
  const std::uint64_t own_before = nic_stats(world, 0)[3].bytes_sent;
  stream.run_for(milliseconds(20));
  const auto all = static_cast<double>(world.stats(0).data_bytes_sent - all_before);
  const auto own = static_cast<double>(nic_stats(world, 0)[3].bytes_sent - own_before);
  CHECK(own > 0.15 * all);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  exchange.check_quiet();
  CHECK(paths_in(world, 0, 1, PathState::up) == 4);
  CHECK(std::ranges::count_if(world.events(0), [](const Event& event) {
          return event.kind == Event::Kind::path_up && event.reason == Reason::proven &&
                 event.nic == 3 && event.remote_nic == 3;
        }) == 1);
}

TEST_CASE("nics__three_of_four_die_at_different_moments_and_return") {
  for (const std::string word : {"kill", "kill:event"}) {
    for (const bool both_sides : {false, true}) {
      INFO(word << (both_sides ? " at both sides" : " at one side"));
      World world(four_nics());
      world.connect_all();
      Exchange exchange(world);
      Stream stream(world, exchange, 1000000, 8);
      const auto apply = [&](std::uint32_t nic, const std::string& faults) {
        world.apply(0, nic, faults);
        if (both_sides) world.apply(1, nic, faults);
      };
      stream.run_for(milliseconds(5));
      for (const std::uint32_t nic : {1, 3, 0}) {
        apply(nic, word);
        stream.run_for(milliseconds(7));
        INFO("NIC " << nic);
        CHECK(stream.take_longest().ns < milliseconds(5).ns);
      }
      CHECK(paths_in(world, 0, 1, PathState::up) == 1);
      const std::size_t before = stream.finished();
      stream.run_for(milliseconds(50));
      CHECK(stream.finished() >
            before + 30);  // 50 MB in the 50 ms of one link, less the cost of starting
      const std::string back = word == "kill" ? "revive" : "revive:event";
      for (const std::uint32_t nic : {0, 1, 3}) {
        apply(nic, back);
        stream.run_for(milliseconds(3));
      }
      REQUIRE(stream.run_until([&] { return paths_in(world, 0, 1, PathState::up) == 4; },
                               milliseconds(1000)));
      REQUIRE(exchange.run(milliseconds(100)));
      exchange.check_all_ok();
      exchange.check_quiet();
      CHECK(world.stats(0).paths_returned == 3);
    }
  }
}

TEST_CASE("nics__all_of_one_side_but_one_are_dead_from_the_start") {
  for (std::uint32_t alive = 0; alive < 4; ++alive) {
    for (const std::uint32_t node : {0, 1}) {
      INFO("NIC " << alive << " of node " << node << " lives");
      World world(four_nics());
      for (std::uint32_t nic = 0; nic < 4; ++nic) {
        if (nic != alive) world.apply(node, nic, "kill");
      }
      Exchange exchange(world);
      exchange.both_ways(4, 1000000, 10);
      REQUIRE(exchange.run(milliseconds(1000)));
      exchange.check_all_ok();
    }
  }
}

// Opposite NICs die. The endpoints must find paths that were not bound at first.
TEST_CASE("nics__living_nics_that_were_not_paired_find_each_other", "[P7]") {
  for (const Duration between : {Duration{}, milliseconds(1), milliseconds(100)}) {
    for (const bool after_handshake : {true, false}) {
      INFO("the second dies " << between.ns / 1000 << " us after the first, "
                              << (after_handshake ? "after" : "before") << " the handshake");
      WorldConfig config;
      config.nics = 2;
      config.faults = "delay=20us,rate=1000000000";
      World world(config);
      Exchange exchange(world);
      if (after_handshake) {
        world.connect_all();
        world.run_for(milliseconds(5));
      }
      exchange.both_ways(20, 1000000, 100000);
      if (after_handshake) world.run_for(microseconds(200));
      world.apply(0, 1, "kill");
      world.run_for(between);
      world.apply(1, 0, "kill");
      REQUIRE(exchange.run(milliseconds(500)));
      exchange.check_all_ok();
      world.run_for(milliseconds(50));
      exchange.check();
    }
  }
}

// Each probe of a dead path leaves a record for a late acknowledgement. When these take up all
// records, living paths take them back.
TEST_CASE("nics__probes_of_dead_paths_leave_records_for_the_living", "[P17]") {
  WorldConfig config;
  config.nics = 4;
  config.tunables.max_peers = 2;
  config.tunables.max_in_flight_packets = 64;
  config.tunables.path_probe_min_us = 100;
  config.tunables.path_probe_max_us = 1000;
  World world(config);
  world.connect_all();
  Exchange exchange(world);
  for (const std::uint32_t nic : {1, 2, 3}) world.apply(0, nic, "kill");
  for (int i = 0; i < 100 && world.stats(0).paths_down < 3; ++i) {
    exchange.both_ways(1, 1000000, 1000);
    REQUIRE(exchange.run(milliseconds(500)));
  }
  REQUIRE(world.stats(0).paths_down >= 3);
  world.run_for(milliseconds(2000));
  exchange.both_ways(1, 1000000, 1000);
  CHECK(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

// One pair of sixty-four is left. The endpoints find it before their patience ends.
TEST_CASE("nics__the_last_pair_is_found_whichever_it_is", "[P7][P17]") {
  for (const auto& [ours, theirs] : {std::pair{2u, 5u}, {7u, 0u}, {0u, 7u}}) {
    INFO(ours << " and " << theirs);
    WorldConfig config;
    config.nics = 8;
    World world(config);
    world.connect_all();
    world.run_for(milliseconds(5));
    Exchange exchange(world);
    exchange.both_ways(2, 100000, 1000);
    for (std::uint32_t nic = 0; nic < 8; ++nic) {
      if (nic != ours) world.apply(0, nic, "kill");
      if (nic != theirs) world.apply(1, nic, "kill");
    }
    REQUIRE(exchange.run(milliseconds(3000)));
    exchange.check_all_ok();
  }
}

// The only remaining NIC was away, and the announcement of its return was lost. Node 1 alone has
// something to send.
TEST_CASE("nics__the_last_pair_is_found_though_it_was_said_to_be_away", "[P7][P17]") {
  WorldConfig config;
  config.nics = 3;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  world.apply(0, 0, "kill:event");
  world.run_for(milliseconds(2));
  for (const std::uint32_t nic : {1u, 2u}) world.apply(0, nic, "kill");
  for (const std::uint32_t nic : {0u, 2u}) world.apply(1, nic, "kill");
  world.apply(0, 0, "revive:event");
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  (void)exchange.send(1, 0, 7, 1000);
  const auto wanted = exchange.receive(0, 1, 7, 1000);
  CHECK(exchange.run_until([&] { return exchange.received(wanted).completion.has_value(); },
                           milliseconds(1500)));
}

// The driver took a NIC away and gave it back. It is the only living NIC at node 0, and its partner
// is dead. Its path goes DOWN and looks for another partner, as any such path does.
TEST_CASE("nics__one_that_comes_back_to_a_dead_partner_finds_another", "[P7]") {
  WorldConfig config;
  config.nics = 2;
  config.tunables.peer_timeout_ms = 1000;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  world.apply(0, 1, "kill");
  world.apply(1, 0, "kill");
  world.apply(0, 0, "kill:event");
  world.run_for(milliseconds(1));
  world.apply(0, 0, "revive:event");
  Exchange exchange(world);
  exchange.both_ways(2, 1000, 1000);
  REQUIRE(exchange.run(milliseconds(900)));
  exchange.check_all_ok();
}

TEST_CASE("nics__a_black_hole_in_one_direction_is_gone_round", "[A4]") {
  for (const std::uint32_t nics : {2, 4}) {
    for (const std::uint32_t node : {0, 1}) {
      for (const std::string way : {"blackhole=tx", "blackhole=rx", "blackhole=both"}) {
        INFO(nics << " NICs, " << way << " at node " << node);
        WorldConfig config = four_nics();
        config.nics = nics;
        World world(config);
        world.connect_all();
        Exchange exchange(world);
        Stream stream(world, exchange, 1000000, 4);
        stream.run_for(milliseconds(5));
        (void)stream.take_longest();
        world.apply(node, 0, way);
        stream.run_for(milliseconds(50));
        CHECK(stream.take_longest().ns < milliseconds(10).ns);
        REQUIRE(exchange.run(milliseconds(200)));
        exchange.check_all_ok();
        world.apply(node, 0, "blackhole=none");
        REQUIRE(world.run_until([&] { return paths_in(world, 0, 1, PathState::up) == nics; },
                                milliseconds(1500)));
        exchange.check_quiet();
      }
    }
  }
}

// A fragment that its NIC refuses waits, although other NICs have taken later ones of its message.
TEST_CASE("nics__packets_that_a_nic_refuses_are_sent_once") {
  for (const std::uint32_t nics : {2, 4}) {
    INFO(nics << " NICs");
    WorldConfig config = four_nics();
    config.nics = nics;
    World world(config);
    world.connect_all();
    world.apply(0, 0, "partial-burst=0.5");
    world.apply(0, 1, "partial-burst=0.2");
    Exchange exchange(world);
    for (std::uint64_t i = 0; i < 20; ++i) exchange.message(0, 1, i, 300000);
    REQUIRE(exchange.run(milliseconds(200)));
    exchange.check_all_ok();
    CHECK(world.stats(0).nic_backpressure > 0);
    CHECK(world.stats(0).fragments_retransmitted == 0);
    CHECK(world.stats(1).duplicate_fragments == 0);
    exchange.check_quiet();
  }
}

// One packet is lost, and its path sends on until all of its numbers are used. The numbers that the
// lost packet holds back must not keep the other path from sending.
TEST_CASE("nics__a_path_without_numbers_leaves_data_to_the_others", "[A5][P9]") {
  const auto time_of = [](bool loses_one) {
    WorldConfig config;
    config.nics = 2;
    config.faults = "delay=5us,rate=20000000000";
    config.tunables.fragment_bytes = 256;
    config.tunables.initial_window_packets = 256;
    config.tunables.grant_start_bytes = 1 << 20;
    bool done = !loses_one;
    std::size_t data = 0;
    config.hook = [&](std::uint32_t node, std::uint32_t nic,
                      const engine::FaultPacket& packet) -> std::optional<engine::Fate> {
      const bool counts = node == 0 && nic == 0 && packet.direction == engine::Direction::tx &&
                          packet.queue == proto::Queue::data;
      if (done || !counts || ++data < 500) return {};
      done = true;
      engine::Fate fate;
      fate.drop = true;
      return fate;
    };
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    const Time begin = world.now();
    exchange.message(0, 1, 1, 2 << 20);
    REQUIRE(exchange.run(milliseconds(100)));
    exchange.check_all_ok();
    return world.now() - begin;
  };
  const Duration clean = time_of(false);
  const Duration lossy = time_of(true);
  CAPTURE(clean.ns, lossy.ns);
  CHECK(lossy < clean + microseconds(100));
}

TEST_CASE("nics__unequal_numbers_of_nics") {
  for (const auto& [a, b] :
       {std::pair{2u, 4u}, {4u, 2u}, {1u, 4u}, {4u, 1u}, {3u, 2u}, {1u, 16u}}) {
    INFO(a << " and " << b << " NICs");
    WorldConfig config = four_nics();
    config.nics_of = {a, b};
    World world(config);
    Exchange exchange(world);
    exchange.both_ways(10, 1000000, 1000000);
    REQUIRE(exchange.run(milliseconds(100)));
    exchange.check_all_ok();
    exchange.check_quiet();
    // Every NIC of both nodes carries something.
    for (const std::uint32_t node : {0, 1}) {
      for (const NicStats& nic : nic_stats(world, node)) CHECK(nic.bytes_received > 500000);
    }
  }
}

TEST_CASE("nics__no_path_for_less_than_peer_timeout_is_survived") {
  for (const std::string word : {"kill", "kill:event"}) {
    INFO(word);
    WorldConfig config = four_nics();
    config.tunables.peer_timeout_ms = 2000;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    Stream stream(world, exchange, 1000000, 4);
    stream.run_for(milliseconds(5));
    world.apply(1, word);
    world.run_for(milliseconds(1500));
    const Time back = world.now();
    world.apply(1, word == "kill" ? "revive" : "revive:event");
    REQUIRE(exchange.run(milliseconds(1000)));
    INFO("went on after " << (world.now() - back).ns / 1000 << " us");
    exchange.check_all_ok();
    REQUIRE(world.run_until([&] { return paths_in(world, 0, 1, PathState::up) == 4; },
                            milliseconds(1500)));
    // The intervals of probe timeouts have grown to an eighth of peer_timeout meanwhile.
    exchange.check_quiet(milliseconds(500));
  }
}

// A part of a message is here, and no receive has asked for it. A program may still do so, but the
// sender is gone.
TEST_CASE("nics__half_a_message_that_nobody_wants_waits_no_longer_than_peer_timeout", "[F1]") {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 300;
  World world(config);
  world.connect_all();
  world.run_for(milliseconds(5));
  Exchange exchange(world);
  (void)exchange.send(0, 1, 1, 10 * config.tunables.unscheduled_bytes);
  world.run_for(milliseconds(5));
  REQUIRE(world.stats(1).messages_unmatched == 1);
  world.crash(0, false);
  exchange.forget(0);
  CHECK(world.run_until([&] { return world.stats(1).peer_failures == 1; }, milliseconds(700)));
  CHECK(world.stats(1).messages_unmatched == 0);
}

TEST_CASE("nics__no_path_for_longer_than_peer_timeout_fails_both_sides", "[F1]") {
  for (const std::string word : {"kill", "kill:event"}) {
    INFO(word);
    WorldConfig config = four_nics();
    config.tunables.peer_timeout_ms = 1000;
    World world(config);
    world.connect_all();
    Exchange exchange(world);
    exchange.message(0, 1, 1, 100000000);
    world.run_for(milliseconds(5));
    world.apply(1, word);
    const Time dead = world.now();
    REQUIRE(exchange.run(milliseconds(1300)));
    CHECK((world.now() - dead).ns > milliseconds(950).ns);
    CHECK(exchange.sent(0).completion->status == Status::peer_timeout);
    CHECK(exchange.received(0).completion->status == Status::peer_timeout);
    const auto failed = [](const Event& event) {
      return event.kind == Event::Kind::peer_failed && event.status == Status::peer_timeout;
    };
    CHECK(std::ranges::count_if(world.events(0), failed) == 1);
    CHECK(std::ranges::count_if(world.events(1), failed) == 1);
    exchange.check_quiet();
  }
}

// There are no slots besides those of the first pairs, or not even for all of these.
TEST_CASE("nics__the_last_pair_is_found_where_no_slot_is_left", "[P7]") {
  for (const std::uint64_t slots : {1u, 3u, 4u}) {
    for (const auto& [ours, theirs] : {std::pair{3u, 3u}, {0u, 2u}, {3u, 1u}}) {
      INFO(slots << " slots, " << ours << " and " << theirs);
      WorldConfig config;
      config.nics = 4;
      config.tunables.max_path_slots = slots;
      World world(config);
      world.connect_all();
      world.run_for(milliseconds(5));
      Exchange exchange(world);
      exchange.both_ways(2, 100000, 1000);
      for (std::uint32_t nic = 0; nic < 4; ++nic) {
        if (nic != ours) world.apply(0, nic, "kill");
        if (nic != theirs) world.apply(1, nic, "kill");
      }
      REQUIRE(exchange.run(milliseconds(3000)));
      exchange.check_all_ok();
      for (std::uint32_t nic = 0; nic < 4; ++nic) {
        for (const std::uint32_t node : {0u, 1u}) {
          world.apply(
              node, nic,
              (nic == ours && node == 0) || (nic == theirs && node == 1) ? "kill" : "revive");
        }
      }
      exchange.both_ways(2, 100000, 1000);
      REQUIRE(exchange.run(milliseconds(3000)));
      exchange.check_all_ok();
    }
  }
}

}  // namespace
}  // namespace hawser::test
