// When a packet that was overtaken is lost: by count, by age, and when to look again.
#include <catch2/catch.hpp>

#include "proto/gap_rule.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::judge_age;
using proto::judge_gap;
using proto::kNever;
using proto::microseconds;
using proto::ResponseTime;
using proto::Time;

constexpr Time kSent{1000000};
constexpr Duration kPatience = microseconds(90);

TEST_CASE("gap_rule__says_lost_when_enough_have_overtaken_however_young") {
  CHECK(judge_gap(3, 3, kSent, kSent, kPatience).lost);
  CHECK(judge_gap(4, 3, kSent, kSent, kPatience).lost);
  const auto verdict = judge_gap(2, 3, kSent, kSent + microseconds(10), kPatience);
  CHECK_FALSE(verdict.lost);
  CHECK(verdict.ask_again == kSent + kPatience);
}

TEST_CASE("gap_rule__says_lost_when_it_is_old_whoever_has_overtaken") {
  CHECK_FALSE(judge_gap(1, 3, kSent, kSent + kPatience - Duration{1}, kPatience).lost);
  CHECK(judge_gap(1, 3, kSent, kSent + kPatience, kPatience).lost);
  CHECK(judge_age(kSent, kSent + kPatience, kPatience).lost);
  CHECK(judge_age(kSent, kSent + kPatience, kPatience).ask_again == kNever);
}

// The verdict is `lost` at the very moment at which it said to ask again.
TEST_CASE("gap_rule__keeps_its_word") {
  for (std::int64_t ns = 0; ns < kPatience.ns; ns += 7919) {
    const auto verdict = judge_age(kSent, kSent + Duration{ns}, kPatience);
    REQUIRE_FALSE(verdict.lost);
    CHECK_FALSE(judge_age(kSent, verdict.ask_again - Duration{1}, kPatience).lost);
    CHECK(judge_age(kSent, verdict.ask_again, kPatience).lost);
  }
}

TEST_CASE("gap_rule__has_the_patience_of_the_larger_of_smoothed_and_latest") {
  ResponseTime response;
  response.sample(microseconds(80));
  CHECK(proto::gap_patience(response) == microseconds(90));
  response.sample(microseconds(160));  // smoothed 90
  CHECK(proto::gap_patience(response) == microseconds(180));
  for (int i = 0; i < 100; ++i) response.sample(microseconds(80));
  response.sample(microseconds(8));
  CHECK(proto::gap_patience(response) == response.smoothed() * 9 / 8);
}

// Without order nothing is lost before an answer is overdue.
TEST_CASE("gap_rule__is_more_patient_where_nothing_is_known_by_order") {
  ResponseTime response;
  response.sample(microseconds(80));
  CHECK(proto::unordered_patience(response, microseconds(1)) == microseconds(80 + 4 * 40));
  CHECK(proto::unordered_patience(response, microseconds(500)) == microseconds(580));
  CHECK(proto::unordered_patience(response, microseconds(1)) >= proto::gap_patience(response));
}

}  // namespace
}  // namespace hawser::test
