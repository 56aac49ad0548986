// SPDX-License-Identifier: Apache-2.0
// UCCL's constants compared with hand calculation, and the plain timer.
#include "sim/baseline/two_choices.hpp"
#include "test/sim/baseline/world.hpp"

namespace hawser::baseline {
namespace {

Baseline uccl_with(double round_trips) {
  Baseline uccl = baseline("uccl");
  uccl.window_round_trips = round_trips;
  return uccl;
}

TEST_CASE("uccl__a_flow_without_loss_takes_the_time_of_its_bytes") {
  World world(two_hosts(), one_flow(100), baseline("uccl"));
  REQUIRE(world.run.run(kMost));
  CHECK(world.ended() == 99 * kPacket + kThereAndBack);
  CHECK(world.run.totals().retransmitted == 0);
}

// Packets 21 to 52 cause the 32 duplicate acknowledgements for 20. The last of these finds a packet
// on the cable, and 20 follows that one.
TEST_CASE("uccl__the_32nd_duplicate_ack_has_the_lost_packet_sent_again") {
  for (const std::uint32_t packets : {53u, 100u}) {
    World world(two_hosts(), one_flow(packets), uccl_with(4));
    world.taps[1]->loses = {20};
    REQUIRE(world.run.run(kMost));
    const std::int64_t ack = 52 * kPacket + kThereAndBack;
    const std::int64_t free = (ack + kPacket - 1) / kPacket * kPacket;
    CHECK(world.came(20, 1) == (packets == 53 ? ack : free) + kThere);
    // Each further duplicate causes another retransmit, for a round trip, until the packet's own
    // acknowledgement is back.
    CHECK(world.run.totals().retransmitted >= 1);
    CHECK(world.run.totals().retransmitted <= 15);
    CHECK((world.run.totals().retransmitted == 1) == (packets == 53));
    CHECK(world.run.totals().duplicates == world.run.totals().retransmitted - 1);
  }
}

// With only 31 packets behind the lost one, the timer has to find it: 500 us after the last
// progress.
TEST_CASE("uccl__fewer_duplicate_acks_wait_for_the_timer") {
  World world(two_hosts(), one_flow(52), uccl_with(4));
  world.taps[1]->loses = {20};
  REQUIRE(world.run.run(kMost));
  const std::int64_t resent = 19 * kPacket + kThereAndBack + 500'000'000;
  CHECK(world.came(20, 1) == resent + kThere);
  CHECK(world.ended() == resent + kThereAndBack);
  CHECK(world.run.totals().retransmitted == 1);
}

// An empty bitmap doesn't show what is missing. The sender retransmits the oldest packet, one for
// each timeout.
TEST_CASE("uccl__a_lost_tail_takes_a_timeout_for_each_packet") {
  World world(two_hosts(), one_flow(40), uccl_with(4));
  world.taps[1]->loses = {37, 38, 39};
  REQUIRE(world.run.run(kMost));
  const std::int64_t progress = 36 * kPacket + kThereAndBack;
  CHECK(world.ended() == progress + 3 * (500'000'000 + kThereAndBack));
  CHECK(world.run.totals().retransmitted == 3);
}

// The timer makes the sender retransmit exactly the packets that the bitmap shows to be missing.
TEST_CASE("uccl__the_timer_sends_what_the_bitmap_lacks") {
  World world(two_hosts(), one_flow(40), uccl_with(4));
  world.taps[1]->loses = {30, 33, 34, 39};
  REQUIRE(world.run.run(kMost));
  const std::int64_t first = 29 * kPacket + kThereAndBack + 500'000'000;
  CHECK(world.came(30, 1) == first + kThere);
  CHECK(world.came(33, 1) == first + kPacket + kThere);
  CHECK(world.came(34, 1) == first + 2 * kPacket + kThere);
  const std::int64_t second = first + 2 * kPacket + kThereAndBack + 500'000'000;
  CHECK(world.came(39, 1) == second + kThere);
  CHECK(world.run.totals().retransmitted == 4);
}

TEST_CASE("uccl__no_more_is_under_way_than_the_bitmap_shows") {
  World world(two_hosts(), one_flow(1000), uccl_with(100));
  std::uint32_t most = 0;
  world.taps[0]->before = [&] { most = std::max(most, world.run.connection(0).board.span()); };
  world.taps[1]->loses = {100};
  REQUIRE(world.run.run(kMost));
  CHECK(most <= 128);
  CHECK(most > 40);
}

// ---- power of two choices

// Half of the paths are slow. Two random paths are both slow in a quarter of all cases.
TEST_CASE("two_choices__takes_the_slow_half_a_quarter_of_the_time") {
  for (const std::uint32_t nics : {1u, 4u}) {
    TwoChoices spray(nics, 256, 7);
    std::uint32_t slow = 0;
    constexpr std::uint32_t kDraws = 40'000;
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const Way way = spray.next();
      REQUIRE(way.nic < nics);
      REQUIRE(way.entropy < 256 / nics);
      const bool is_slow = way.entropy % 2 == 0;
      if (i >= kDraws / 2) slow += is_slow ? 1 : 0;
      spray.on_ack(way, is_slow ? microseconds(20) : microseconds(10), false);
    }
    CHECK(slow == Approx(kDraws / 2 / 4).epsilon(0.05));
  }
}

// One of two spines has a tenth of its rate, so paths over it have a far longer round trip.
TEST_CASE("two_choices__leaves_a_congested_spine_alone") {
  const auto share_of_slow = [](Baseline::Ways ways) {
    Baseline uccl = baseline("uccl");
    uccl.ways = ways;
    ConnectionMatrix matrix;
    matrix.nodes = 4;
    matrix.connections.push_back({.from = 0, .to = 2, .bytes = 32'000'000});
    World world(fabric::leaf_spine(2, 2, 2, 100 * kGigabit, microseconds(1)), matrix, uccl);
    const fabric::Wiring& wiring = world.network.wiring();
    const std::uint32_t slow = wiring.up(wiring.in_tier(0, 0), 0);
    const std::uint32_t fast = wiring.up(wiring.in_tier(0, 0), 1);
    world.network.set_rate(slow, 10 * kGigabit);
    REQUIRE(world.run.run(kMost));
    const double there = world.network.link(slow).counters().packets;
    return there / (there + world.network.link(fast).counters().packets);
  };
  // The hash gives the slow spine about half of the paths, and the choice that share squared.
  const double paths = share_of_slow(Baseline::Ways::drawn);
  CHECK(paths == Approx(0.5).epsilon(0.2));
  CHECK(share_of_slow(Baseline::Ways::two_choices) == Approx(paths * paths).epsilon(0.05));
}

// ---- the plain timer

TEST_CASE("fixed_timer__each_lost_packet_is_sent_again_when_its_time_is_over") {
  Baseline timer = baseline("fixed_timer");
  timer.window_round_trips = 10;
  World world(two_hosts(), one_flow(100), timer);
  world.taps[1]->loses = {20, 21, 99};
  REQUIRE(world.run.run(kMost));
  CHECK(world.came(20, 1) == 20 * kPacket + 5'000'000'000 + kThere);
  CHECK(world.came(21, 1) == 21 * kPacket + 5'000'000'000 + kThere);
  CHECK(world.came(99, 1) == 99 * kPacket + 5'000'000'000 + kThere);
  CHECK(world.ended() == 99 * kPacket + 5'000'000'000 + kThereAndBack);
  CHECK(world.run.totals().retransmitted == 3);
  CHECK(world.run.totals().duplicates == 0);
}

// The window limits the packets in flight: 14 of 15 go on past the packet that waits for its timer.
TEST_CASE("fixed_timer__a_lost_packet_holds_up_no_other") {
  World world(two_hosts(), one_flow(100), baseline("fixed_timer"));
  world.taps[1]->loses = {20};
  REQUIRE(world.run.run(kMost));
  CHECK(world.came(99, 0) < 100'000'000);
  CHECK(world.ended() == 20 * kPacket + 5'000'000'000 + kThereAndBack);
}

// The oldest packet has used up its retries: its own timeouts, one after the other.
TEST_CASE("fixed_timer__gives_up_after_its_retries_if_it_has_any") {
  Baseline timer = baseline("fixed_timer");
  timer.timer.retries = 3;
  World world(two_hosts(), one_flow(100), timer);
  world.network.put_down(0);
  CHECK_FALSE(world.run.run(kMost));
  CHECK(world.events.now().ps == 4 * std::int64_t{5'000'000'000});
  timer.timer.retries = 0;
  World patient(two_hosts(), one_flow(100), timer);
  patient.network.put_down(0);
  CHECK_FALSE(patient.run.run(microseconds(1'000'000)));
  CHECK(patient.events.now().ps > std::int64_t{990'000'000'000});
}

}  // namespace
}  // namespace hawser::baseline
