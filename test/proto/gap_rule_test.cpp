// SPDX-License-Identifier: Apache-2.0
// When a packet that a later one overtook counts as lost: by count, by age, by departure time; and
// when the sender looks again.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/path/gap_rule.hpp"
#include "proto/path/reordering.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::gap_patience;
using proto::judge_age;
using proto::judge_departure;
using proto::judge_gap;
using proto::kNever;
using proto::microseconds;
using proto::nanoseconds;
using proto::Reordering;
using proto::ResponseTime;
using proto::Time;
using proto::unordered_patience;

constexpr Time kSent{1000000};
constexpr Duration kPatience = microseconds(90);

TEST_CASE("gap_rule__says_lost_by_so_many_behind_or_by_age_and_not_before", "[L1]") {
  for (std::uint64_t behind = 1; behind < 6; ++behind) {
    INFO(behind << " behind");
    const auto young = judge_gap(behind, 3, kSent, kSent + microseconds(10), kPatience);
    CHECK(young.lost == (behind >= 3));
    CHECK((young.lost || young.ask_again == kSent + kPatience));
    CHECK(judge_gap(behind, 3, kSent, kSent, kPatience).lost == (behind >= 3));
    CHECK(judge_gap(behind, 3, kSent, kSent + kPatience - Duration{1}, kPatience).lost ==
          (behind >= 3));
    CHECK(judge_gap(behind, 3, kSent, kSent + kPatience, kPatience).lost);
  }
  CHECK(judge_age(kSent, kSent + kPatience, kPatience).lost);
  CHECK(judge_age(kSent, kSent + kPatience, kPatience).ask_again == kNever);
}

// At the very moment at which the verdict said to ask again, the packet is lost.
TEST_CASE("gap_rule__keeps_its_word") {
  for (std::int64_t ns = 0; ns < kPatience.ns; ns += 7919) {
    const auto verdict = judge_age(kSent, kSent + Duration{ns}, kPatience);
    REQUIRE_FALSE(verdict.lost);
    CHECK_FALSE(judge_age(kSent, verdict.ask_again - Duration{1}, kPatience).lost);
    CHECK(judge_age(kSent, verdict.ask_again, kPatience).lost);
  }
}

TEST_CASE("gap_rule__has_the_patience_of_9_8_of_the_larger_of_smoothed_and_latest", "[L1]") {
  ResponseTime response(microseconds(800));
  CHECK(gap_patience(response) == microseconds(900));  // before any sample
  response.sample(microseconds(80));
  CHECK(gap_patience(response) == microseconds(90));
  response.sample(microseconds(240));  // smoothed 100
  CHECK(response.smoothed() == microseconds(100));
  CHECK(gap_patience(response) == microseconds(270));
  response.sample(microseconds(1));
  CHECK(gap_patience(response) == response.smoothed() * 9 / 8);
}

// If the order is not known, no packet is lost before an answer is overdue.
TEST_CASE("gap_rule__is_more_patient_where_nothing_is_known_by_order", "[L2]") {
  ResponseTime response;
  response.sample(microseconds(80));
  CHECK(unordered_patience(response, microseconds(1)) == microseconds(80 + 4 * 40));
  CHECK(unordered_patience(response, microseconds(500)) == microseconds(580));
  for (int i = 0; i < 100; ++i) response.sample(microseconds(80));
  CHECK(gap_patience(response) == microseconds(90));
  CHECK(unordered_patience(response, microseconds(1)) >= microseconds(90));
  CHECK(unordered_patience(response, microseconds(200)) >= microseconds(280));
}

// A packet sent 100 us later overtook this one. It is lost if that is more than the window, or once
// an answer is overdue.
TEST_CASE("gap_rule__judges_by_the_time_between_departures", "[L15]") {
  const Duration overdue = microseconds(1000);
  const auto judged = [&](Duration window, Duration age) {
    return judge_departure(kSent, kSent + microseconds(100), kSent + age, window, overdue);
  };
  CHECK(judged(microseconds(99), microseconds(100)).lost);
  CHECK_FALSE(judged(microseconds(100), microseconds(100)).lost);
  CHECK(judged(microseconds(100), microseconds(100)).ask_again == kSent + overdue);
  CHECK_FALSE(judged(microseconds(100), microseconds(999)).lost);
  CHECK(judged(microseconds(100), overdue).lost);
}

TEST_CASE("reordering__waits_a_round_trip_and_a_quarter_or_more_than_it_has_seen", "[L15]") {
  const Duration granularity = microseconds(200);
  ResponseTime response;
  for (int i = 0; i < 100; ++i) response.sample(microseconds(16));
  Reordering reordering;
  CHECK(reordering.window(response, granularity) == microseconds(20));
  CHECK(reordering.overdue(response, granularity) == microseconds(36));
  reordering.note(microseconds(13));
  CHECK(reordering.window(response, granularity) == microseconds(20));
  reordering.note(microseconds(400));  // reordering beyond the granularity counts once seen
  CHECK(reordering.window(response, granularity) == microseconds(600));
  CHECK(reordering.overdue(response, granularity) == microseconds(616));
  reordering.note(microseconds(1));  // the memory of it fades
  CHECK(reordering.window(response, granularity) < microseconds(600));
  for (int i = 0; i < 5000; ++i) reordering.note(microseconds(1));
  CHECK(reordering.window(response, granularity) == microseconds(20));
  for (int i = 0; i < 100; ++i) response.sample(microseconds(900));  // a long round trip
  CHECK(reordering.window(response, granularity) == microseconds(250));
}

// None of 64 packets was overtaken by more than routes differ in length, so the sender waits for an
// eighth of a round trip. Each mistake doubles the number of packets it takes.
TEST_CASE("reordering__trusts_the_order_that_was_kept_for_long", "[L19]") {
  const Duration granularity = microseconds(200);
  ResponseTime response;
  for (int i = 0; i < 100; ++i) response.sample(microseconds(16));
  Reordering reordering;
  const auto packets_until_ordered = [&] {
    int packets = 0;
    for (; !reordering.ordered(); ++packets) reordering.note(nanoseconds(500));
    return packets;
  };
  reordering.note(microseconds(30));
  for (int i = 0; i < 63; ++i) reordering.note(Duration{});
  CHECK(reordering.window(response, granularity) == microseconds(45));
  reordering.note(Duration{-3000});
  CHECK(reordering.window(response, granularity) == microseconds(2));
  CHECK(reordering.asked(response) == microseconds(16));
  CHECK(reordering.overdue(response, granularity) == microseconds(18));
  int needed = 64;
  for (int mistakes = 0; mistakes < 10; ++mistakes) {
    reordering.note(nanoseconds(501));
    CHECK_FALSE(reordering.ordered());
    reordering.note(nanoseconds(501));  // a second one in a row doesn't count
    needed = std::min(needed * 2, 4096);
    CHECK(packets_until_ordered() == needed);
  }
  for (int i = 0; i < 100; ++i) response.sample(microseconds(2));  // a short round trip
  CHECK(reordering.window(response, granularity) == microseconds(1));
}

TEST_CASE("reordering__several_are_overdue_by_what_was_seen_and_no_more", "[P22]") {
  const auto steady = [](int last_us) {
    ResponseTime response;
    for (int i = 0; i < 200; ++i) response.sample(microseconds(80));
    response.sample(microseconds(static_cast<std::uint64_t>(last_us)));
    return response;
  };
  Reordering none;
  Reordering some;
  some.note(microseconds(20));
  CHECK(none.several_overdue(steady(80)) < microseconds(81));
  CHECK(some.several_overdue(steady(80)) >= microseconds(110));
  CHECK(some.several_overdue(steady(80)) < microseconds(111));
  const ResponseTime later = steady(160);  // smoothed 90, and 4 times the variance is 80
  CHECK(none.several_overdue(later) >= later.smoothed() + later.variance() * 4);
  CHECK(some.several_overdue(later) >= microseconds(190));
  CHECK(some.several_overdue(later) < microseconds(191));
}

}  // namespace
}  // namespace hawser::test
