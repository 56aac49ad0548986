// SPDX-License-Identifier: Apache-2.0
// When a storm counts as endless: after much CPU time, or after a long time without any.
#include "tool/storm/overtime.hpp"

#include <catch2/catch.hpp>

namespace hawser::tool {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST_CASE("storm_overtime__what_has_used_its_time_has_no_end") {
  Overtime overtime(2);
  const std::uint64_t before = 7 * kSecond;  // of other storms
  CHECK(overtime.look(1 * kSecond, before + 1, before) == "");
  CHECK(overtime.look(2 * kSecond, before + 2 * kSecond, before) == "");
  CHECK(overtime.look(3 * kSecond, before + 2 * kSecond + 1, before) ==
        "no end within 2 s of CPU time");
}

TEST_CASE("storm_overtime__what_gets_little_of_a_processor_has_all_the_time") {
  Overtime overtime(2);
  for (std::uint64_t second = 1; second < 1000; ++second) {
    REQUIRE(overtime.look(second * kSecond, second * 1000, 0) == "");
  }
}

TEST_CASE("storm_overtime__what_stands_still_waits_for_what_never_comes") {
  for (const double limit : {0.1, 8.0}) {
    Overtime overtime(limit);
    const double most = limit < Overtime::kStillS ? Overtime::kStillS : limit;
    CAPTURE(limit);
    CHECK(overtime.look(kSecond, 10, 0) == "");
    std::uint64_t now = kSecond;
    std::string verdict;
    while (verdict.empty()) verdict = overtime.look(now += kSecond / 10, 10, 0);
    CHECK(static_cast<double>(now - kSecond) == Approx(1e9 * most).margin(2e8));
    CHECK(verdict.starts_with("no end, and no CPU time used for"));
  }
}

// After Ctrl-Z, for example, the storm has stood still too.
TEST_CASE("storm_overtime__time_in_which_nobody_looked_does_not_count") {
  Overtime overtime(1);
  CHECK(overtime.look(1 * kSecond, 10, 0) == "");
  CHECK(overtime.look(100 * kSecond, 10, 0) == "");
  CHECK(overtime.look(200 * kSecond, 11, 0) == "");
  CHECK(overtime.look(300 * kSecond, 11, 0) == "");
}

}  // namespace
}  // namespace hawser::tool
