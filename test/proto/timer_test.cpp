// SPDX-License-Identifier: Apache-2.0
#include "proto/base/timer.hpp"

#include <catch2/catch.hpp>

namespace hawser::proto {
namespace {

constexpr Time kDue{1'000'000};
constexpr Time kLater{3'000'000};

TEST_CASE("Timer__fires_when_it_was_armed_for_and_not_before") {
  Timer timer;
  CHECK_FALSE(timer.is_armed());
  CHECK(timer.at() == kNever);
  CHECK_FALSE(timer.is_due(kNever - Duration{1}));
  timer.arm(kDue);
  CHECK(timer.is_armed());
  CHECK(timer.at() == kDue);
  CHECK_FALSE(timer.is_due(kDue - Duration{1}));
  CHECK(timer.is_due(kDue));
  timer.stop();
  CHECK_FALSE(timer.is_armed());
  CHECK(timer.at() == kNever);
}

TEST_CASE("Timer__is_postponed_once_for_each_arming", "[L12]") {
  Timer timer;
  for (int armed = 0; armed < 3; ++armed) {
    timer.arm(kDue);
    CHECK(timer.postpone(kLater));
    CHECK(timer.at() == kLater);
    CHECK_FALSE(timer.postpone(kLater + Duration{1}));
    CHECK(timer.at() == kLater);
  }
}

TEST_CASE("Timer__advances_and_never_goes_back", "[L12]") {
  Timer timer;
  timer.advance_to(kLater);
  CHECK(timer.at() == kLater);
  timer.advance_to(kLater + Duration{1});
  CHECK(timer.at() == kLater);
  REQUIRE(timer.postpone(kLater + Duration{5}));
  timer.advance_to(kDue);
  CHECK(timer.at() == kDue);
  CHECK_FALSE(timer.postpone(kLater));  // an earlier time is no new arming
}

TEST_CASE("Timer__holds_any_time") {
  Timer timer;
  for (const Time at : {Time{}, Time{1}, Time{-1}, Time{-(std::int64_t{1} << 61)}, kNever}) {
    timer.arm(at);
    CHECK(timer.at() == at);
    CHECK(timer.postpone(at));
    CHECK(timer.at() == at);
  }
}

}  // namespace
}  // namespace hawser::proto
