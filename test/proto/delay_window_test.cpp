// SPDX-License-Identifier: Apache-2.0
// The congestion window by itself: the acknowledgements of a round, and the window that follows.
#include <catch2/catch.hpp>

#include "proto/path/delay_window.hpp"
#include "test/support/seeded.hpp"

namespace {

using hawser::proto::CongestionConfig;
using hawser::proto::DelayWindow;
using hawser::proto::Duration;
using hawser::proto::microseconds;
using hawser::proto::Random;
using hawser::proto::Time;

constexpr std::uint64_t kPacket = 4096;
constexpr Duration kRound = microseconds(100);

// A path that uses its whole window: each round acknowledges all of it.
struct Driven {
  DelayWindow window{CongestionConfig{kPacket, 32, microseconds(50)}};
  Time now{1000000000};

  // A round of acknowledgements, four packets each. The first one of the next round judges it.
  void round(Duration delay, std::uint64_t marked_of_each_4 = 0) {
    const std::uint64_t bytes = window.bytes();
    for (std::uint64_t acked = 0; acked < bytes; acked += 4 * kPacket) {
      now = now + kRound / 8;
      window.on_ack({.now = now,
                     .acked_bytes = 4 * kPacket,
                     .in_flight_before = bytes,
                     .fabric_delay = delay,
                     .has_delay = true,
                     .marked_packets = marked_of_each_4,
                     .acked_packets = 4,
                     .round = kRound});
    }
  }
};

TEST_CASE("delay_window: grows below the target, quickly before the first congestion", "[W1]") {
  Driven path;
  path.round(microseconds(10));
  const std::uint64_t start = path.window.bytes();
  path.round(microseconds(20));
  CHECK(path.window.bytes() > start * 3 / 2);
  for (int i = 0; i < 3; ++i) path.round(microseconds(500));
  path.round(microseconds(10));
  path.round(microseconds(10));
  const std::uint64_t calm = path.window.bytes();
  path.round(microseconds(10));
  // Growth is additive from then on: about a packet per round.
  CHECK(path.window.bytes() > calm);
  CHECK(path.window.bytes() <= calm + 2 * kPacket);
}

TEST_CASE("delay_window: shrinks by the excess of delay, to no less than half a round", "[W1]") {
  for (const std::uint64_t delay : {70, 100, 200, 10000}) {
    INFO(delay << " us of fabric delay, 10 us at best, 50 us above it allowed");
    Driven path;
    for (int i = 0; i < 3; ++i) path.round(microseconds(10));
    path.round(microseconds(delay));  // judged in the next one
    const std::uint64_t before = path.window.bytes();
    path.now = path.now + kRound;
    path.window.on_ack({.now = path.now,
                        .acked_bytes = kPacket,
                        .in_flight_before = before,
                        .fabric_delay = microseconds(delay),
                        .has_delay = true,
                        .acked_packets = 1,
                        .round = kRound});
    CHECK(path.window.bytes() < before);
    CHECK(path.window.bytes() >= before / 2);
  }
}

TEST_CASE("delay_window: is judged by the least delay of a round", "[W1]") {
  Driven path;
  for (int i = 0; i < 3; ++i) path.round(microseconds(10));
  std::uint64_t before = path.window.bytes();
  for (int i = 0; i < 20; ++i) {  // a host is often away, but each round has a good sample
    path.now = path.now + kRound / 2;
    path.window.on_ack({.now = path.now,
                        .acked_bytes = kPacket,
                        .in_flight_before = before,
                        .fabric_delay = microseconds(i % 2 == 0 ? 10 : 20000),
                        .has_delay = true,
                        .acked_packets = 1,
                        .round = kRound});
    CHECK(path.window.bytes() >= before);
    before = path.window.bytes();
  }
}

// Returns what a window of 32 packets shrinks to after a round of this delay in which every packet
// is marked. The path has carried large packets with a delay of 20 us, and small ones with 4 us.
std::uint64_t after_marks(Duration delay) {
  DelayWindow window{CongestionConfig{kPacket, 32, microseconds(50)}};
  Time now{1000000000};
  const auto ack = [&](Duration sample, bool is_large, std::uint64_t marked) {
    now = now + kRound;
    for (int i = 0; i < 2; ++i) {
      window.on_ack({.now = now,
                     .fabric_delay = sample,
                     .has_delay = true,
                     .is_large = is_large,
                     .marked_packets = marked,
                     .acked_packets = 1,
                     .round = kRound});
    }
  };
  ack(microseconds(4), false, 0);
  ack(microseconds(20), true, 0);
  ack(microseconds(4), false, 0);
  ack(delay, true, 1);
  now = now + kRound;
  ack(delay, true, 0);
  return window.bytes();
}

TEST_CASE("delay_window: marks without delay take nothing", "[W2]") {
  CHECK(after_marks(microseconds(20)) == 32 * kPacket);
  CHECK(after_marks(microseconds(30)) == 32 * kPacket);
  CHECK(after_marks(microseconds(31)) <= 16 * kPacket + 1);
}

TEST_CASE("delay_window: ECN takes half of the marked share of a round", "[W2]") {
  for (const std::uint64_t marked : {1, 2, 4}) {
    Driven path;
    for (int i = 0; i < 3; ++i) path.round(microseconds(10));
    for (int i = 0; i < 2; ++i) path.round(microseconds(20));
    const std::uint64_t before = path.window.bytes();
    path.window.on_ack({.now = path.now,
                        .acked_bytes = 0,
                        .in_flight_before = 0,
                        .marked_packets = marked,
                        .acked_packets = 4,
                        .round = kRound * 1000});
    const std::uint64_t grown = path.window.bytes();
    path.now = path.now + kRound;
    for (int i = 0; i < 2; ++i) {
      path.window.on_ack({.now = path.now,
                          .in_flight_before = 0,
                          .fabric_delay = microseconds(20),
                          .has_delay = true,
                          .round = i == 0 ? kRound * 1000 : kRound});
    }
    CHECK(path.window.bytes() < grown);
    CHECK(path.window.bytes() >= grown / 2);
    CHECK(before == grown);
  }
}

TEST_CASE("delay_window: loss alone counts only above an eighth, and above 16 packets", "[W3]") {
  const auto after_loss = [](std::uint64_t initial, std::uint64_t lost) {
    DelayWindow window{CongestionConfig{kPacket, initial, microseconds(50)}};
    Time now{1000000000};
    window.on_lost(lost);
    for (int i = 0; i < 2; ++i) {
      now = now + kRound;
      window.on_ack({.now = now,
                     .in_flight_before = 0,
                     .fabric_delay = microseconds(10),
                     .has_delay = true,
                     .acked_packets = 28,
                     .round = i == 0 ? kRound * 100000000 : kRound});
    }
    return window.bytes() / kPacket;
  };
  CHECK(after_loss(64, 0) == 64);
  CHECK(after_loss(64, 7) == 64);    // 7 of 63 or fewer than one in 8
  CHECK(after_loss(64, 14) == 51);   // 14 of 70: a fifth
  CHECK(after_loss(64, 560) == 32);  // no less than half
  CHECK(after_loss(16, 560) == 16);  // loss alone shrinks it no further
  for (const std::uint64_t initial : {17, 20, 31}) CHECK(after_loss(initial, 560) == 16);
}

TEST_CASE("delay_window: never below two packets", "[W4]") {
  hawser::test::for_each_seed(50, [](Random& random) {
    Driven path;
    for (int i = 0; i < 60; ++i) {
      if (random.chance(0.3)) path.window.on_lost(random.below(100));
      path.round(microseconds(random.below(random.chance(0.3) ? 5000 : 60)), random.below(5));
      CHECK(path.window.bytes() >= 2 * kPacket);
    }
  });
}

// A path that spreads over many routes, with a link of 12.5 GB/s. Every round uses the whole
// window. Large packets take 10 us at best, so the limit is 12.5 us, 5 us and the time of the
// hosts.
struct Spread {
  DelayWindow window{{.packet_bytes = kPacket,
                      .initial_packets = 32,
                      .delay_target = microseconds(50),
                      .spread_link_bytes_per_s = 12'500'000'000}};
  Time now{1000000000};

  void rounds(int count, Duration fabric, Duration hosts = {}, bool is_large = true) {
    for (int i = 0; i < count * 2; ++i) {
      now = now + kRound / 2;
      window.on_ack({.now = now,
                     .acked_bytes = window.bytes() / 2,
                     .in_flight_before = window.bytes(),
                     .fabric_delay = fabric,
                     .host_delay = hosts,
                     .has_delay = true,
                     .is_large = is_large,
                     .acked_packets = 1,
                     .round = kRound});
    }
  }
};

TEST_CASE("delay_window: no more in flight than a link carries in a round trip", "[W6]") {
  Spread path;
  path.rounds(50, microseconds(4), {}, false);  // the delay of small packets sets no limit
  CHECK(path.window.bytes() > 1'000'000);
  path.rounds(1, microseconds(10));
  CHECK(path.window.bytes() == 12'500 * 35 / 2);
  path.rounds(50, microseconds(10));
  CHECK(path.window.bytes() == 12'500 * 35 / 2);
  path.rounds(1, microseconds(10), microseconds(8));  // a slow host counts at once
  CHECK(path.window.bytes() > 12'500 * 35 / 2);
  path.rounds(20, microseconds(10), microseconds(8));
  CHECK(path.window.bytes() == 12'500 * 51 / 2);
  path.rounds(1, microseconds(10));
  CHECK(path.window.bytes() > 12'500 * 46 / 2);  // and is forgotten little by little
  path.rounds(30, microseconds(10));
  CHECK(path.window.bytes() < 12'500 * 36 / 2);
}

TEST_CASE("delay_window: where the rate or the way is only one, the link limits nothing", "[W6]") {
  Driven path;
  for (int i = 0; i < 8; ++i) path.round(microseconds(10));
  CHECK(path.window.bytes() > 1'000'000);
}

TEST_CASE("delay_window: a fabric that has become slower is believed by and by", "[W7]") {
  Spread path;
  path.rounds(20, microseconds(10));
  path.rounds(256, microseconds(30));
  const std::uint64_t after = path.window.bytes();
  CHECK(after > 12'500 * 35 / 2);
  CHECK(after < 12'500 * 36 / 2);
  path.rounds(256 * 80, microseconds(30));
  CHECK(path.window.bytes() > 12'500 * 42);  // 5/4 of 30 us, and 5
  path.rounds(1, microseconds(10));
  CHECK(path.window.bytes() == 12'500 * 35 / 2);
  CHECK(path.window.fabric_floor() == microseconds(10));
}

TEST_CASE("delay_window: what is beyond the link's rate is not what gives way", "[W1][W6]") {
  Spread path;
  path.rounds(50, microseconds(4), {}, false);
  path.rounds(1, microseconds(10));
  CHECK(path.window.bytes() == 12'500 * 35 / 2);
  path.rounds(3, microseconds(200));  // the first isn't judged yet, the second takes the excess
  CHECK(path.window.bytes() <= 12'500 * 35 / 4);
}

TEST_CASE("delay_window: a host's absence does not make a fabric fast", "[W6]") {
  Spread path;
  path.rounds(20, microseconds(20), microseconds(1));
  const std::uint64_t before = path.window.bytes();
  // Packets that came during the absence seem to take no time in the fabric, since they waited at
  // the host.
  path.rounds(1, Duration{-1000}, microseconds(1000));
  path.rounds(1, Duration{100}, microseconds(1000));
  path.rounds(100, microseconds(20), microseconds(1));
  CHECK(path.window.bytes() == before);
}

TEST_CASE("delay_window: the shortest floors rise too", "[W7]") {
  Spread path;
  path.rounds(1, Duration{2});
  CHECK(path.window.fabric_floor() == Duration{2});
  path.rounds(256 * 70, microseconds(10));
  CHECK(path.window.fabric_floor() > Duration{64});
}

TEST_CASE("delay_window: what is not used proves nothing", "[W1]") {
  Driven path;
  path.round(microseconds(10));
  const std::uint64_t before = path.window.bytes();
  for (int i = 0; i < 100; ++i) {
    path.now = path.now + kRound;
    path.window.on_ack({.now = path.now,
                        .acked_bytes = kPacket,
                        .in_flight_before = kPacket,
                        .fabric_delay = microseconds(10),
                        .has_delay = true,
                        .acked_packets = 1,
                        .round = kRound});
  }
  CHECK(path.window.bytes() == before);
}

}  // namespace
