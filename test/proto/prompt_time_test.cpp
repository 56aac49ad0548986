// SPDX-License-Identifier: Apache-2.0
// How long prompt answers take: the estimate from samples, and when the end of a message is late.
#include <catch2/catch.hpp>

#include "proto/path/prompt_time.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;
using proto::PromptTime;

PromptTime after(std::initializer_list<Duration> samples) {
  PromptTime time;
  for (const Duration sample : samples) time.sample(sample);
  return time;
}

// Durations of whole units, 64 ns each.
constexpr Duration units(std::int64_t n) { return Duration{n * 64}; }

TEST_CASE("prompt_time__is_not_known_before_the_first_sample", "[L20]") {
  CHECK_FALSE(PromptTime{}.is_known());
  CHECK(after({units(100)}).is_known());
  CHECK(after({units(100)}).time() == units(100));
  CHECK(after({Duration{}}).is_known());
  CHECK(after({units(100) + Duration{1}}).time() == units(101));
}

TEST_CASE("prompt_time__goes_half_the_way_up_and_a_sixteenth_down", "[L20]") {
  CHECK(after({units(100), units(300)}).time() == units(200));
  CHECK(after({units(100), units(101)}).time() == units(101));
  CHECK(after({units(1700), units(100)}).time() == units(1600));
  CHECK(after({units(1600), units(1600)}).time() == units(1600));
}

// The estimate reaches the samples, however few units the difference is.
TEST_CASE("prompt_time__gets_where_samples_are", "[L20]") {
  for (const std::int64_t to : {1, 150, 4000}) {
    PromptTime time = after({units(1000)});
    for (int i = 0; i < 200; ++i) time.sample(units(to));
    CHECK(time.time() == units(to));
  }
}

// The estimate then counts as unknown. Shorter answers make it known again.
TEST_CASE("prompt_time__of_milliseconds_is_too_long_to_be_told", "[L20]") {
  CHECK(after({milliseconds(4)}).is_known());
  PromptTime time = after({milliseconds(5)});
  CHECK_FALSE(time.is_known());
  time.sample(milliseconds(1));
  CHECK(time.is_known());
  CHECK_FALSE(after({milliseconds(5), milliseconds(3000)}).is_known());
}

TEST_CASE("prompt_time__answers_are_late_after_twice_that_or_a_tenth_of_the_granularity", "[L21]") {
  CHECK(after({units(1000)}).late_after(microseconds(200)) == units(2000));
  CHECK(after({units(1000)}).late_after(microseconds(2000)) == microseconds(200));
}

}  // namespace
}  // namespace hawser::test
