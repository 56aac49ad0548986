// SPDX-License-Identifier: Apache-2.0
// IRN compared with hand calculation: which lost packets it retransmits, and when.
#include "test/sim/baseline/world.hpp"

namespace hawser::baseline {
namespace {

constexpr std::uint32_t kWindow = 15;  // 4674.24 ns of packets of 332

TEST_CASE("irn__a_flow_without_loss_takes_the_time_of_its_bytes") {
  World world(two_hosts(), one_flow(100), baseline("irn"));
  REQUIRE(world.run.run(kMost));
  CHECK(world.received() == 99 * kPacket + kThere);
  CHECK(world.ended() == 99 * kPacket + kThereAndBack);
  CHECK(world.run.totals().retransmitted == 0);
}

// The NACK for 21 makes the sender retransmit 20. The rest of the window has arrived meanwhile, so
// the acknowledgement that follows covers all of it.
TEST_CASE("irn__a_nack_has_the_lost_packet_sent_again_and_no_other") {
  World world(two_hosts(), one_flow(100), baseline("irn"));
  world.taps[1]->loses = {20};
  REQUIRE(world.run.run(kMost));
  const std::int64_t nack = 21 * kPacket + kThereAndBack;
  CHECK(world.came(20, 1) == nack + kThere);
  CHECK(world.run.totals().retransmitted == 1);
  CHECK(world.run.totals().duplicates == 0);
  const std::int64_t open = nack + kThereAndBack;  // the window opens when 20 is acknowledged
  CHECK(world.ended() == open + (99 - 20 - kWindow) * kPacket + kThereAndBack);
}

// A lost packet is retransmitted when the NACK of a later packet shows it.
TEST_CASE("irn__each_loss_of_a_window_is_sent_again_once") {
  World world(two_hosts(), one_flow(100), baseline("irn"));
  world.taps[1]->loses = {20, 25, 26, 30};
  REQUIRE(world.run.run(kMost));
  CHECK(world.came(20, 1) == 21 * kPacket + kThereAndBack + kThere);
  CHECK(world.came(25, 1) == 27 * kPacket + kThereAndBack + kThere);
  CHECK(world.came(26, 1) == 28 * kPacket + kThereAndBack + kThere);
  CHECK(world.came(30, 1) == 31 * kPacket + kThereAndBack + kThere);
  CHECK(world.run.totals().retransmitted == 4);
  CHECK(world.run.totals().duplicates == 0);
}

// With three or fewer packets in flight RTO_low applies: 100 us after the last progress. With more
// RTO_high applies: 320 us. Then each acknowledgement shows the next loss, one a round trip. The
// spray, which doesn't take a single early packet for a loss, behaves in the same way.
TEST_CASE("irn__a_lost_tail_waits_for_the_short_timeout_if_it_is_short") {
  for (std::uint32_t i = 0; i < 12; ++i) {
    const std::uint32_t lost = 1 + i / 2;
    World world(two_hosts(), one_flow(100), baseline(i % 2 == 0 ? "irn" : "irn_with_our_spray"));
    for (std::uint32_t n = 0; n < lost; ++n) world.taps[1]->loses.push_back(99 - n);
    REQUIRE(world.run.run(kMost));
    const std::int64_t progress = (99 - lost) * kPacket + kThereAndBack;
    const std::int64_t timeout = lost <= 3 ? 100'000'000 : 320'000'000;
    INFO(lost << " lost");
    CHECK(world.ended() == progress + timeout + lost * kThereAndBack);
    CHECK(world.run.totals().retransmitted == lost);
    CHECK(world.run.totals().duplicates == 0);
  }
}

TEST_CASE("irn__what_is_lost_twice_waits_for_the_long_timeout") {
  World world(two_hosts(), one_flow(100), baseline("irn"));
  world.taps[1]->loses = {20, 20};
  REQUIRE(world.run.run(kMost));
  const std::int64_t nack = 21 * kPacket + kThereAndBack;
  CHECK(world.came(20, 2) == nack + 320'000'000 + kThere);
  CHECK(world.run.totals().retransmitted == 2);
}

TEST_CASE("irn__never_more_than_the_delay_bandwidth_product_is_under_way") {
  for (const char* name : {"irn", "irn_with_our_spray"}) {
    World world(two_hosts(), one_flow(2000), baseline(name));
    std::uint32_t most = 0;
    for (const std::unique_ptr<Tap>& tap : world.taps) {
      tap->before = [&] { most = std::max(most, world.run.connection(0).board.span()); };
    }
    world.network.set_loss(world.network.wiring().to_port(1), 0.01);
    REQUIRE(world.run.run(kMost));
    INFO(name);
    CHECK(most == kWindow);
    CHECK(world.run.totals().retransmitted > 5);
  }
}

// Selective repeat: a packet takes its time on the cable once per transmission. A lost retransmit
// waits for the timeout and a round trip. The sender sends three windows in that time, less the
// packets sent until the NACK. It retransmits only lost packets.
TEST_CASE("irn__goodput_under_loss_is_that_of_selective_repeat", "[long]") {
  constexpr std::uint32_t kPackets = 30'000;
  for (const double p : {0.001, 0.01}) {
    Baseline irn = baseline("irn");
    irn.irn.most_span = 3 * kWindow;
    irn.window_round_trips = 3;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      World world(two_hosts(), one_flow(kPackets), irn);
      Tap& tap = *world.taps[1];
      tap.loss = p;
      tap.random = proto::Random(seed);
      REQUIRE(world.run.run(kMost));
      std::vector<std::uint32_t> lost(kPackets);
      std::uint32_t losses = 0;
      std::uint32_t stalls = 0;
      for (const Tap::Seen& one : tap.seen) {
        if (!one.is_lost) continue;
        ++losses;
        stalls += lost[one.number]++ > 0 ? 1 : 0;
      }
      CHECK(world.run.totals().retransmitted == losses);
      CHECK(world.run.totals().duplicates == 0);
      CHECK(losses == Approx(kPackets * p).epsilon(0.5));
      const double stall = 320e6 + kThereAndBack - 29 * kPacket;
      const double expected = (kPackets + losses) * static_cast<double>(kPacket) + stalls * stall;
      INFO("loss " << p << ", seed " << seed << ", " << stalls << " lost again");
      CHECK(world.ended() == Approx(expected).epsilon(0.01));
    }
  }
}

TEST_CASE("irn__may_wait_until_so_many_later_packets_have_come") {
  Irn::Constants constants;
  constants.overtaken_by = 3;
  Irn irn(constants);
  Scoreboard board;
  board.extend(10);
  for (std::uint32_t n = 0; n < 10; ++n) {
    board.on_sent(n, Instant{n});
    irn.on_sent(board, Instant{n}, n);
  }
  const auto nack = [&](std::uint32_t expected, std::uint32_t number) {
    Ack ack{.expected = expected, .number = number, .is_early = 1};
    return irn.on_ack(board, Instant{100}, ack);
  };
  CHECK(nack(0, 3) == 1);
  CHECK(nack(0, 1) == 1);
  CHECK_FALSE(board.has_lost());
  // 1, 3 and 4 have arrived: three packets beyond 0, but only two beyond 2.
  CHECK(nack(0, 4) == 1);
  CHECK(board.due() == 0);
  CHECK(board.losses() == 1);
  CHECK(nack(0, 6) == 1);
  CHECK(board.losses() == 2);
  CHECK(board.flying() == 4);
}

// Over 64 paths packets overtake each other, which is no loss.
TEST_CASE("irn__with_our_spray_takes_no_reordering_for_loss") {
  ConnectionMatrix matrix;
  matrix.nodes = 16;
  for (std::uint32_t i = 0; i < 8; ++i) {
    matrix.connections.push_back({.from = i, .to = 8 + i, .bytes = 4'000'000});
  }
  const auto resent = [&](std::uint32_t overtaken_by) {
    Baseline irn = baseline("irn_with_our_spray");
    if (overtaken_by > 0) irn.irn.overtaken_by = overtaken_by;
    World world(fabric::leaf_spine(2, 8, 8, 100 * kGigabit, microseconds(1)), matrix, irn);
    REQUIRE(world.run.run(kMost));
    CHECK(world.network.totals().dropped == 0);
    CHECK(world.run.totals().duplicates <= world.run.totals().retransmitted);
    return world.run.totals().retransmitted;
  };
  CHECK(resent(0) == 0);
  CHECK(resent(1) > 500);
}

}  // namespace
}  // namespace hawser::baseline
