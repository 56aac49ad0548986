// The rules of loss detection that are functions of their arguments: gap_rule.hpp and
// response_time.hpp.
#include <catch2/catch.hpp>

#include "proto/gap_rule.hpp"
#include "proto/random.hpp"
#include "proto/response_time.hpp"

namespace {

using hawser::proto::Duration;
using hawser::proto::gap_patience;
using hawser::proto::judge_age;
using hawser::proto::judge_gap;
using hawser::proto::kNever;
using hawser::proto::microseconds;
using hawser::proto::ResponseTime;
using hawser::proto::Time;
using hawser::proto::unordered_patience;

constexpr Time kSent{1000000};

TEST_CASE("gap_rule: lost by so many behind, or by age, and not before", "[L1]") {
  const Duration patience = microseconds(90);
  for (std::uint64_t behind = 1; behind < 6; ++behind) {
    INFO(behind << " behind");
    const auto young = judge_gap(behind, 3, kSent, kSent + microseconds(10), patience);
    CHECK(young.lost == (behind >= 3));
    CHECK((young.lost || young.ask_again == kSent + patience));
    CHECK(judge_gap(behind, 3, kSent, kSent + patience, patience).lost);
    CHECK(judge_gap(behind, 3, kSent, kSent + patience - Duration{1}, patience).lost ==
          (behind >= 3));
  }
}

TEST_CASE("gap_rule: patience is 9/8 of the longer of SRTT and the latest sample", "[L1]") {
  ResponseTime response(microseconds(800));
  CHECK(gap_patience(response) == microseconds(900));  // before any sample
  response.sample(microseconds(80));
  CHECK(gap_patience(response) == microseconds(90));
  response.sample(microseconds(240));  // SRTT is 100 us now
  CHECK(response.smoothed() == microseconds(100));
  CHECK(gap_patience(response) == microseconds(270));
  response.sample(microseconds(1));
  CHECK(gap_patience(response) == response.smoothed() * 9 / 8);
}

TEST_CASE("gap_rule: where order says nothing it takes an overdue answer, too", "[L2]") {
  ResponseTime response;
  for (int i = 0; i < 100; ++i) response.sample(microseconds(80));
  CHECK(gap_patience(response) == microseconds(90));
  CHECK(unordered_patience(response, microseconds(200)) >= microseconds(280));
  CHECK(judge_age(kSent, kSent + microseconds(280), microseconds(281)).ask_again ==
        kSent + microseconds(281));
  CHECK(judge_age(kSent, kSent + microseconds(281), microseconds(281)).lost);
}

TEST_CASE("response_time: follows RFC 6298 for samples that are no outliers", "[L10]") {
  ResponseTime response(microseconds(2000));
  CHECK_FALSE(response.sampled());
  CHECK(response.smoothed() == microseconds(2000));
  response.sample(microseconds(100));
  CHECK(response.sampled());
  CHECK(response.smoothed() == microseconds(100));
  CHECK(response.variance() == microseconds(50));
  response.sample(microseconds(180));
  CHECK(response.smoothed() == microseconds(110));
  CHECK(response.variance() == Duration{57500});
  CHECK(response.latest() == microseconds(180));
  CHECK(response.overdue(microseconds(1)) == microseconds(340));
  CHECK(response.overdue(microseconds(500)) == microseconds(610));
}

TEST_CASE("response_time: one long absence counts little, many count in full", "[L10]") {
  ResponseTime response;
  for (int i = 0; i < 200; ++i) response.sample(microseconds(100));
  const Duration before = response.overdue(microseconds(200));
  response.sample(microseconds(1000000));
  CHECK(response.latest() == microseconds(1000000));
  CHECK(response.overdue(microseconds(200)) < before * 3);
  ResponseTime slow = response;
  for (int i = 0; i < 60; ++i) slow.sample(microseconds(1000000));
  CHECK(slow.smoothed() > microseconds(900000));
  // A sample of nothing, or less, is a clock's coarseness.
  response.sample(Duration{0});
  response.sample(Duration{-5});
  CHECK(response.smoothed() > Duration{});
  CHECK(response.latest() == Duration{1});
}

}  // namespace
