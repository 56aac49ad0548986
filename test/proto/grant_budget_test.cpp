// SPDX-License-Identifier: Apache-2.0
// The grant budget against a model of a link: granted bytes arrive a round trip later, and no
// faster than this receiver's share of the link.
#include "proto/message/grant_budget.hpp"

#include <catch2/catch.hpp>

#include "proto/base/random.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::GrantBudget;
using proto::microseconds;
using proto::Random;
using proto::Time;

constexpr std::uint64_t kFirst = 256 << 10;
constexpr std::uint64_t kLeast = kFirst / GrantBudget::kSmallest;
constexpr std::uint64_t kCeiling = 16 << 20;
constexpr Duration kRound = microseconds(1000);
constexpr int kCycle = 20;  // rounds from one judgement to the next

// Rounds of 1 ms in which senders always want more. `share` is in bytes per ms. `noise` is the
// probability that a round loses a part to absences.
struct Link {
  GrantBudget budget{kFirst, kCeiling, 4096};
  Time now{1000000};
  std::uint64_t share = 0;
  double noise = 0;
  Random random{1};

  explicit Link(std::uint64_t bytes_per_round) : share(bytes_per_round) {
    budget.end_round(now, kRound);
  }

  // Runs a round; returns the bytes that arrived.
  std::uint64_t round() {
    std::uint64_t bytes = std::min(budget.bytes(), share);
    if (noise > 0 && random.chance(noise)) bytes = bytes * random.below(100) / 100;
    budget.on_arrival(bytes);
    budget.on_short();
    now = now + kRound;
    budget.end_round(now, kRound);
    return bytes;
  }
  void rounds(int count) {
    for (int i = 0; i < count; ++i) (void)round();
  }
};

TEST_CASE("grant_budget__begins_with_what_is_known_of_the_links", "[G3]") {
  GrantBudget budget(kFirst, kCeiling, 4096);
  budget.begin_with(kFirst / 4);  // less than the default
  CHECK(budget.bytes() == kFirst);
  budget.begin_with(3 * kFirst);
  CHECK(budget.bytes() == 6 * kFirst);
  budget.begin_with(kCeiling * 8);
  CHECK(budget.bytes() == kCeiling);
  Link tried(100 << 10);
  tried.rounds(40 * kCycle);
  const std::uint64_t found = tried.budget.bytes();
  tried.budget.begin_with(3 * kFirst);  // the budget is past its start
  CHECK(tried.budget.bytes() == found);
}

TEST_CASE("grant_budget__grows_until_the_link_is_full_and_no_further", "[G2]") {
  for (const std::uint64_t share : {100u << 10, 1u << 20, 5u << 20}) {
    INFO("share " << share);
    Link link(share);
    int rounds = 0;
    for (; link.budget.bytes() < share && rounds < 100; ++rounds) (void)link.round();
    CHECK(rounds <= kCycle + 5 * 8);  // five doublings at most
    link.rounds(40 * kCycle);
    std::uint64_t arrived = 0;
    for (int i = 0; i < 20 * kCycle; ++i) {
      CHECK(link.budget.bytes() <= share * 3);
      arrived += link.round();
    }
    CHECK(arrived >= share * 20 * kCycle * 97 / 100);
  }
}

TEST_CASE("grant_budget__follows_a_share_that_changes", "[G2]") {
  Link link(4 << 20);
  link.rounds(20 * kCycle);
  link.share = 1 << 20;
  link.rounds(40 * kCycle);
  CHECK(link.budget.bytes() < (1 << 20) * 3);
  CHECK(link.budget.bytes() > (1 << 20) * 3 / 4);
  link.share = 4 << 20;
  link.rounds(20 * kCycle);
  CHECK(link.budget.bytes() > (4 << 20) * 3 / 4);
}

TEST_CASE("grant_budget__errs_towards_more_on_hosts_that_are_away_now_and_then", "[G2]") {
  for_each_seed(10, [](Random& random) {
    Link link(2 << 20);
    link.random = Random(random.next());
    link.noise = 0.3;
    link.rounds(100 * kCycle);
    for (int i = 0; i < 20 * kCycle; ++i) {
      CHECK(link.budget.bytes() > 1 << 20);
      (void)link.round();
    }
  });
}

TEST_CASE("grant_budget__stays_as_it_is_while_nobody_waits", "[G2]") {
  GrantBudget budget(kFirst, kCeiling, 4096);
  Time now{1};
  for (int i = 0; i < 100; ++i) {
    budget.on_arrival(4096);
    now = now + kRound;
    budget.end_round(now, kRound);
    CHECK(budget.bytes() == kFirst);
  }
}

TEST_CASE("grant_budget__is_halved_by_an_overrun", "[G3]") {
  Link link(4 << 20);
  link.rounds(20 * kCycle);
  link.budget.on_overrun();
  const std::uint64_t before = link.budget.bytes();
  link.budget.on_overrun();
  CHECK(link.budget.bytes() <= before / 2);
  CHECK(link.budget.bytes() >= before / 2 - 2);
  for (int i = 0; i < 100; ++i) link.budget.on_overrun();
  CHECK(link.budget.bytes() == 2 * kLeast);
  link.rounds(60 * kCycle);  // the budget finds the link's rate again
  CHECK(link.budget.bytes() > (4 << 20) * 3 / 4);
}

TEST_CASE("grant_budget__counts_what_is_awaited") {
  GrantBudget budget(10000, kCeiling, 100);
  budget.recount(0, 4000);
  CHECK(budget.room() == 6000);
  CHECK(budget.time_to_come() == Duration{});  // the rate isn't known yet
  budget.recount(4000, 12000);
  CHECK(budget.room() == 0);
  CHECK(budget.awaited() == 12000);
  budget.on_arrival(6000);
  budget.end_round(Time{1000}, Duration{1000});
  CHECK(budget.time_to_come() == Duration{2000});
  budget.recount(12000, 0);
  CHECK(budget.room() == 10000);
  CHECK(budget.time_to_come() == Duration{});
}

TEST_CASE("grant_budget__stays_in_its_limits_whatever_happens", "[G3]") {
  for_each_seed(200, [](Random& random) {
    const std::uint64_t first = 1 + random.below(1 << 20);
    const std::uint64_t ceiling = 1 + random.below(1 << 22);
    const std::uint64_t packet = 256 + random.below(8192);
    const std::uint64_t least = std::max(first / GrantBudget::kSmallest, packet);
    GrantBudget budget(first, ceiling, packet);
    Time now{random.chance(0.5) ? 0 : 1000000000};
    for (int i = 0; i < 500; ++i) {
      switch (random.below(4)) {
        case 0: budget.on_arrival(random.below(1 << 16)); break;
        case 1: budget.on_overrun(); break;
        default: budget.on_short(); break;
      }
      now = now + Duration{static_cast<std::int64_t>(random.below(100000))};
      budget.end_round(now, Duration{static_cast<std::int64_t>(random.below(50000))});
      REQUIRE(budget.bytes() >= least);
      REQUIRE(budget.bytes() <= std::max(least, ceiling));
    }
  });
}

}  // namespace
}  // namespace hawser::test
