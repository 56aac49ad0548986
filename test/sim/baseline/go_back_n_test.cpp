// SPDX-License-Identifier: Apache-2.0
// RC compared with hand calculation: to the picosecond wherever chance plays no part.
#include "test/sim/baseline/world.hpp"

namespace hawser::baseline {
namespace {

// 4674.24 ns are 14.08 packets, so a window has 15.
constexpr std::uint32_t kWindow = 15;

Baseline rc_with(unsigned exponent, double round_trips = 1) {
  Baseline rc = baseline("rc");
  rc.rc.timeout = ack_timeout(exponent);
  rc.window_round_trips = round_trips;
  return rc;
}

TEST_CASE("go_back_n__a_flow_without_loss_takes_the_time_of_its_bytes") {
  World world(two_hosts(), one_flow(100), baseline("rc"));
  CHECK(world.run.round_trip() == kWindow);
  REQUIRE(world.run.run(kMost));
  CHECK(world.received() == 99 * kPacket + kThere);
  CHECK(world.ended() == 99 * kPacket + kThereAndBack);
  CHECK(world.run.totals().data_packets == 100);
  CHECK(world.run.totals().retransmitted == 0);
}

// 2 MB over three tiers, for which htsim reports 176.2 us.
TEST_CASE("go_back_n__htsims_single_flow") {
  ConnectionMatrix matrix;
  matrix.nodes = 14;
  matrix.connections.push_back({.from = 0, .to = 13, .bytes = 2'000'000});
  World world(fabric::fat_tree(4, 100 * kGigabit, microseconds(1)), matrix, baseline("rc"));
  CHECK(world.run.round_trip() == 43);
  REQUIRE(world.run.run(kMost));
  CHECK(static_cast<double>(world.ended()) * 1e-6 == Approx(176.2).epsilon(0.0005));
}

// Packet 21 is the first out of sequence. Its NAK finds a window in flight: 20 to 34. The sender
// retransmits all of them from the NAK's arrival on. The receiver has kept none of the packets
// after 20.
TEST_CASE("go_back_n__a_lost_packet_costs_all_that_was_sent_after_it") {
  World world(two_hosts(), one_flow(100), rc_with(14));
  world.taps[1]->loses = {20};
  REQUIRE(world.run.run(kMost));
  const std::int64_t nak = 21 * kPacket + kThereAndBack;
  CHECK(world.came(20, 1) == nak + kThere);
  CHECK(world.run.totals().retransmitted == kWindow);
  CHECK(world.run.totals().data_packets == 100 + kWindow);
  CHECK(world.run.totals().duplicates == 0);
  CHECK(world.ended() == nak + 79 * kPacket + kThereAndBack);
}

// Nothing follows the lost packet, so nothing reveals the loss. The timer runs from the last
// acknowledgement.
TEST_CASE("go_back_n__a_lost_tail_costs_the_timeout") {
  for (const unsigned exponent : {4u, 14u}) {
    World world(two_hosts(), one_flow(100), rc_with(exponent));
    world.taps[1]->loses = {99};
    REQUIRE(world.run.run(kMost));
    const std::int64_t timeout = std::int64_t{4'096'000} << exponent;
    const std::int64_t resent = 98 * kPacket + kThereAndBack + timeout;
    CHECK(world.came(99, 1) == resent + kThere);
    CHECK(world.ended() == resent + kThereAndBack);
    CHECK(world.run.totals().retransmitted == 1);
  }
}

// The receiver sends no second NAK for the same packet. A retransmit that is lost waits for the
// timer, which runs from the retransmit.
TEST_CASE("go_back_n__what_is_lost_twice_waits_for_the_timer") {
  World world(two_hosts(), one_flow(100), rc_with(6));
  world.taps[1]->loses = {20, 20};
  REQUIRE(world.run.run(kMost));
  const std::int64_t nak = 21 * kPacket + kThereAndBack;
  CHECK(world.came(20, 2) == nak + (std::int64_t{4'096'000} << 6) + kThere);
}

TEST_CASE("go_back_n__a_connection_fails_after_the_timeouts_of_its_retries") {
  for (const std::uint32_t retries : {0u, 7u}) {
    Baseline rc = rc_with(10);
    rc.rc.retries = retries;
    World world(two_hosts(), one_flow(100), rc);
    world.network.put_down(world.network.wiring().from_port(0));
    CHECK_FALSE(world.run.run(kMost));
    CHECK(world.events.now().ps == (retries + 1) * (std::int64_t{4'096'000} << 10));
    CHECK(world.run.totals().retransmitted == retries * kWindow);
    CHECK(world.run.times(0).ended == fabric::kNever);
  }
  // NCCL's constants of 20 and 7 give 34 s.
  const GoBackN::Constants nccl = baseline("rc").rc;
  CHECK(nccl.timeout * (nccl.retries + 1) == fabric::microseconds(34'359'738) + nanoseconds(368));
}

// Retries are counted from the last progress.
TEST_CASE("go_back_n__progress_gives_all_retries_back") {
  Baseline rc = rc_with(4);
  rc.rc.retries = 1;
  World world(two_hosts(), one_flow(3), rc);
  world.taps[1]->loses = {0, 1, 2, 1, 2, 2};
  REQUIRE(world.run.run(kMost));
  CHECK(world.run.totals().retransmitted == 6);
}

TEST_CASE("go_back_n__a_run_that_lasts_too_long_ends_so") {
  World world(two_hosts(), one_flow(100), baseline("rc"));
  CHECK_FALSE(world.run.run(microseconds(20)));
  CHECK(world.events.now() <= Instant{20'000'000});
  CHECK(world.run.totals().data_packets > 50);
}

// A loss costs a round trip and a packet, rounded up to whole packets because the cable is never
// idle: 16 of them. A lost retransmit costs a timeout as well.
double goodput(double p, double timeout_ns) {
  const double packet = 332;
  const double again = p / (1 - p);
  return packet / (packet + p * (16 * packet + again * packet + again * timeout_ns));
}

TEST_CASE("go_back_n__goodput_under_loss_is_what_the_formula_says", "[long]") {
  constexpr std::uint32_t kPackets = 30'000;
  for (const double p : {0.001, 0.01}) {
    double sum = 0;
    constexpr int kSeeds = 5;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      World world(two_hosts(), one_flow(kPackets), rc_with(4, 3), setup(), seed);
      world.network.set_loss(world.network.wiring().to_port(1), p);
      REQUIRE(world.run.run(kMost));
      sum += kPackets * static_cast<double>(kPacket) / static_cast<double>(world.ended());
    }
    INFO("loss " << p);
    CHECK(sum / kSeeds == Approx(goodput(p, 65'536)).epsilon(0.01));
  }
}

// ---- over another NIC

fabric::Shape two_nics() {
  fabric::Shape shape = fabric::one_switch(4, 100 * kGigabit, microseconds(1));
  shape.hosts = 2;
  shape.nics = 2;
  return shape;
}

Baseline failover() {
  Baseline rc = baseline("rc_failover");
  rc.rc.timeout = ack_timeout(8);
  return rc;
}

TEST_CASE("failover__goes_on_over_the_next_nic_from_the_last_acknowledged") {
  World world(two_nics(), one_flow(100), failover());
  // The link goes down when 51 packets have left and 36 are acknowledged.
  fabric::Faults faults(
      world.events, world.network,
      {{.at = Instant{51 * kPacket}, .kind = fabric::Fault::Kind::link_down, .target = 0}});
  REQUIRE(world.run.run(kMost));
  // The last acknowledgement, about that of packet 35, left its host before the other direction
  // died.
  const std::uint32_t oldest = world.taps[3]->seen.front().number;
  CHECK(oldest > 30);
  CHECK(oldest < 51);
  CHECK(world.taps[1]->seen.empty());
  CHECK(world.taps[2]->seen.size() >= oldest);
  CHECK(world.taps[3]->seen.size() == 100 - oldest);
  const std::int64_t progress = (oldest - 1) * kPacket + kThereAndBack;
  const std::int64_t moved = progress + 8 * (std::int64_t{4'096'000} << 8) + 500'000'000;
  CHECK(world.taps[3]->seen.front().at == moved + kThere);
  CHECK(world.ended() == moved + (99 - oldest) * kPacket + kThereAndBack);
}

// The second NIC dies when the first one is alive again.
TEST_CASE("failover__may_be_needed_again_after_progress") {
  World world(two_nics(), one_flow(1000), failover());
  using Kind = fabric::Fault::Kind;
  const auto at_us = [](std::int64_t us) { return Instant{us * 1'000'000}; };
  // The flow uses the second NIC from about 8.91 ms on, and the first again from 17.9 ms.
  fabric::Faults faults(world.events, world.network,
                        {{.at = at_us(17), .kind = Kind::link_down, .target = 0},
                         {.at = at_us(8950), .kind = Kind::link_up, .target = 0},
                         {.at = at_us(9000), .kind = Kind::link_down, .target = 1}});
  REQUIRE(world.run.run(kMost));
  CHECK(world.taps[3]->seen.size() > 200);
  CHECK(world.ended() > at_us(17'800).ps);
  CHECK(world.ended() < at_us(18'300).ps);
}

TEST_CASE("failover__that_finds_no_living_nic_fails") {
  World world(two_nics(), one_flow(100), failover());
  world.network.put_down(0);
  world.network.put_down(1);
  CHECK_FALSE(world.run.run(kMost));
  CHECK(world.events.now().ps == 2 * 8 * (std::int64_t{4'096'000} << 8) + 500'000'000);
}

TEST_CASE("failover__without_it_a_dead_nic_is_the_end") {
  Baseline rc = failover();
  rc.moves = false;
  World world(two_nics(), one_flow(100), rc);
  world.network.put_down(0);
  CHECK_FALSE(world.run.run(kMost));
  CHECK(world.events.now().ps == 8 * (std::int64_t{4'096'000} << 8));
}

}  // namespace
}  // namespace hawser::baseline
