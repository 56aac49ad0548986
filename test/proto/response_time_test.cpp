// SPDX-License-Identifier: Apache-2.0
// The response time: what it derives from samples, and what the timers take from it.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/base/random.hpp"
#include "proto/path/response_time.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::ResponseTime;
using proto::Time;

TEST_CASE("response_time__is_a_guess_until_the_first_sample") {
  ResponseTime time(microseconds(2000));
  CHECK_FALSE(time.sampled());
  CHECK(time.smoothed() == microseconds(2000));
  CHECK(time.latest() == microseconds(2000));
  time.sample(microseconds(100));
  CHECK(time.sampled());
  CHECK(time.smoothed() == microseconds(100));
  CHECK(time.variance() == microseconds(50));
  CHECK(time.latest() == microseconds(100));
}

// RFC 6298 smooths by an eighth and a quarter.
TEST_CASE("response_time__smooths_by_an_eighth_and_a_quarter", "[L10]") {
  ResponseTime time;
  time.sample(microseconds(800));
  time.sample(microseconds(1600));
  CHECK(time.variance() == microseconds((400 * 3 + 800) / 4));
  CHECK(time.smoothed() == microseconds((800 * 7 + 1600) / 8));
  CHECK(time.latest() == microseconds(1600));
  CHECK(time.overdue(microseconds(1)) == microseconds(900 + 4 * 500));
  CHECK(time.overdue(microseconds(5000)) == microseconds(900 + 5000));
}

TEST_CASE("response_time__is_overdue_no_sooner_than_the_granularity_allows") {
  ResponseTime time;
  for (int i = 0; i < 200; ++i) time.sample(microseconds(100));
  CHECK(time.variance() < microseconds(2));
  CHECK(time.overdue(microseconds(200)) == time.smoothed() + microseconds(200));
  CHECK(time.overdue(Duration{1}) < microseconds(110));
}

// One absence of a second must not make the timers a second long. A host that stays slow must.
TEST_CASE("response_time__takes_one_absence_for_less_than_it_was", "[L10]") {
  ResponseTime time;
  for (int i = 0; i < 50; ++i) time.sample(microseconds(100));
  time.sample(microseconds(1000000));
  CHECK(time.latest() == microseconds(1000000));
  CHECK(time.overdue(Duration{1}) < microseconds(1000));
  for (int i = 0; i < 60; ++i) time.sample(microseconds(1000000));
  CHECK(time.smoothed() > microseconds(900000));
}

// Forty packets left within a millisecond, and their answers are read after an absence of a second.
TEST_CASE("response_time__takes_all_samples_of_one_absence_for_one", "[L10]") {
  ResponseTime time;
  for (int i = 0; i < 50; ++i) time.sample(microseconds(100));
  const Time sent{1'000'000'000};
  Time now = sent + milliseconds(1000);
  for (int i = 0; i < 40; ++i) {
    time.sample_absence(now - (sent + microseconds(25) * i), now);
    now = now + microseconds(5);  // the answers are read in several turns
  }
  CHECK(time.latest() > milliseconds(990));
  CHECK(time.overdue(Duration{1}) < microseconds(1000));
}

// The first sample is cut down, and the answers read with it show the same absence.
TEST_CASE("response_time__takes_the_first_sample_of_an_absence_for_all", "[L10]") {
  ResponseTime time(milliseconds(2));
  const Time now{1'000'000'000};
  time.sample_first(milliseconds(475), milliseconds(12), now);
  for (int i = 0; i < 11; ++i) time.sample_absence(milliseconds(475), now);
  CHECK(time.smoothed() == milliseconds(12));
  CHECK(time.unanswered(microseconds(1)) == milliseconds(36));
}

// A long guess lets the first sample count as so much that the next one of the same absence would
// be believed. Whether the first sample was cut makes no difference. The timers are short again
// with the first short sample.
TEST_CASE("response_time__counts_an_absence_once_though_it_is_believed", "[L10]") {
  const Duration away = milliseconds(1076);
  const Time now{2'000'000'000};
  for (const Duration most : {milliseconds(221), milliseconds(5000)}) {
    ResponseTime time(milliseconds(37));
    time.sample_first(away + milliseconds(2), most, now);
    const Duration first = time.smoothed();
    CHECK(first == std::min(away + milliseconds(2), most));
    time.sample_absence(away, now);
    CHECK(time.smoothed() == first);
    CHECK(time.latest() == away);
    time.sample(microseconds(39));
    CHECK(time.unanswered(microseconds(200)) == milliseconds(20));
  }
}

// The same where the first sample of all has the absence in it and nothing cuts it.
TEST_CASE("response_time__counts_an_absence_once_if_nothing_was_sampled_before", "[L10]") {
  ResponseTime time;
  const Time now{2'000'000'000};
  for (int i = 0; i < 5; ++i) time.sample_absence(milliseconds(1000), now);
  CHECK(time.smoothed() == milliseconds(1000));
  time.sample(microseconds(39));
  CHECK(time.unanswered(microseconds(200)) == milliseconds(20));
}

// The same of later samples, where response times are long.
TEST_CASE("response_time__counts_an_absence_once_where_answers_take_long", "[L10]") {
  ResponseTime time;
  for (int i = 0; i < 100; ++i) time.sample(milliseconds(40));
  Time now{1'000'000'000};
  for (int i = 0; i < 20; ++i) {
    time.sample_absence(milliseconds(72), now);
    now = now + microseconds(5);
  }
  CHECK(time.smoothed() == milliseconds(44));
  time.sample_absence(milliseconds(72), now + milliseconds(72));  // the next absence
  CHECK(time.smoothed() > milliseconds(47));
}

// A host that is always away for long answers each packet late, also those that leave later.
TEST_CASE("response_time__believes_absences_of_one_round_trip_after_the_other", "[L10]") {
  ResponseTime time;
  for (int i = 0; i < 50; ++i) time.sample(microseconds(100));
  Time now{1'000'000'000};
  for (int i = 0; i < 30; ++i) {
    now = now + milliseconds(30);
    time.sample_absence(milliseconds(30), now);
  }
  CHECK(time.smoothed() > milliseconds(27));
}

// A sample of zero or less comes from a coarse clock.
TEST_CASE("response_time__is_never_nothing") {
  ResponseTime time;
  time.sample(microseconds(100));
  time.sample(Duration{0});
  CHECK(time.latest() == Duration{1});
  time.sample(Duration{-5});
  CHECK(time.latest() == Duration{1});
  CHECK(time.smoothed() > Duration{});
}

// A clock that stood still for a moment must not keep the time at zero.
TEST_CASE("response_time__grows_from_nothing", "[L10]") {
  ResponseTime time;
  for (int i = 0; i < 50; ++i) time.sample(Duration{0});
  CHECK(time.overdue(Duration{1}) < microseconds(1));
  for (int i = 0; i < 50; ++i) time.sample(microseconds(7));
  CHECK(time.smoothed() >= microseconds(6));
  for (int i = 0; i < 50; ++i) time.sample(microseconds(7000));
  CHECK(time.smoothed() >= microseconds(6000));
}

TEST_CASE("response_time__stays_within_what_was_sampled") {
  for_each_seed(50, [](proto::Random& random) {
    ResponseTime time;
    std::int64_t least = INT64_MAX;
    std::int64_t most = 0;
    for (int i = 0; i < 300; ++i) {
      const auto ns =
          static_cast<std::int64_t>(random.below(random.chance(0.1) ? 1 << 30 : 1 << 18));
      time.sample(Duration{ns});
      least = std::min(least, std::max<std::int64_t>(ns, 1));
      most = std::max(most, ns);
      REQUIRE(time.smoothed().ns >= least - 8);  // rounded down, eight parts of it
      REQUIRE(time.smoothed().ns <= std::max<std::int64_t>(most, 1));
      REQUIRE(time.variance().ns >= 0);
      REQUIRE(time.overdue(microseconds(1)) > time.smoothed());
    }
  });
}

}  // namespace
}  // namespace hawser::test
