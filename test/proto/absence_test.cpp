// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "proto/base/absence.hpp"

namespace hawser::proto {
namespace {

constexpr Duration kOld = milliseconds(1000);
constexpr Time at(std::uint64_t ms) { return Time{} + milliseconds(ms); }

}  // namespace

TEST_CASE("Absence__what_waits_since_then_was_away_for_the_longest_one_after_it") {
  Absence absence;
  CHECK(absence.since(at(0)) == Duration{});
  absence.note(at(100), at(150), kOld);
  CHECK(absence.since(at(0)) == milliseconds(50));
  CHECK(absence.since(at(120)) == milliseconds(30));
  CHECK(absence.since(at(150)) == Duration{});
  absence.note(at(200), at(220), kOld);
  CHECK(absence.since(at(0)) == milliseconds(50));
  CHECK(absence.since(at(140)) == milliseconds(20));
  absence.note(at(300), at(400), kOld);
  CHECK(absence.since(at(0)) == milliseconds(100));
}

TEST_CASE("Absence__a_longer_one_that_had_ended_before_hides_no_later_one") {
  Absence absence;
  absence.note(at(0), at(600), kOld);
  absence.note(at(700), at(900), kOld);
  absence.note(at(950), at(960), kOld);
  CHECK(absence.since(at(590)) == milliseconds(200));
  CHECK(absence.since(at(650)) == milliseconds(200));
  CHECK(absence.since(at(900)) == milliseconds(10));
  CHECK(absence.since(at(300)) == milliseconds(300));
}

TEST_CASE("Absence__what_is_old_is_forgotten_and_shorter_ones_make_room_for_newer_ones") {
  Absence absence;
  absence.note(at(0), at(600), kOld);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::uint64_t left = 610 + 40 * i;
    absence.note(at(left), at(left + 30 - i), kOld);
    CHECK(absence.since(at(left)) == milliseconds(30 - i));  // the newest one is always there
    CHECK(absence.since(at(0)) == milliseconds(600));
    CHECK(absence.since(at(605)) == milliseconds(30));
  }
  absence.note(at(1650), at(1655), kOld);
  CHECK(absence.since(at(0)) < milliseconds(600));
  CHECK(absence.since(at(1640)) == milliseconds(5));
}

}  // namespace hawser::proto
