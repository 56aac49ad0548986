// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "proto/base/absence.hpp"

namespace hawser::proto {
namespace {

constexpr Absence::Lengths kLengths{
    .old = milliseconds(1000), .presence = milliseconds(2), .absence = milliseconds(70)};
constexpr Time at(std::uint64_t ms) { return Time{} + milliseconds(ms); }

}  // namespace

TEST_CASE("Absence__what_waits_since_then_was_away_for_the_longest_one_after_it") {
  Absence absence;
  CHECK(absence.since(at(0)) == Duration{});
  absence.note(at(100), at(150), kLengths);
  CHECK(absence.since(at(0)) == milliseconds(50));
  CHECK(absence.since(at(120)) == milliseconds(30));
  CHECK(absence.since(at(150)) == Duration{});
  absence.note(at(200), at(220), kLengths);
  CHECK(absence.since(at(0)) == milliseconds(50));
  CHECK(absence.since(at(140)) == milliseconds(20));
  absence.note(at(300), at(400), kLengths);
  CHECK(absence.since(at(0)) == milliseconds(100));
}

TEST_CASE("Absence__a_longer_one_that_had_ended_before_hides_no_later_one") {
  Absence absence;
  absence.note(at(0), at(600), kLengths);
  absence.note(at(700), at(900), kLengths);
  absence.note(at(950), at(960), kLengths);
  CHECK(absence.since(at(590)) == milliseconds(200));
  CHECK(absence.since(at(650)) == milliseconds(200));
  CHECK(absence.since(at(900)) == milliseconds(10));
  CHECK(absence.since(at(300)) == milliseconds(300));
}

TEST_CASE("Absence__what_is_old_is_forgotten_and_shorter_ones_make_room_for_newer_ones") {
  Absence absence;
  absence.note(at(0), at(600), kLengths);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::uint64_t left = 610 + 40 * i;
    absence.note(at(left), at(left + 30 - i), kLengths);
    CHECK(absence.since(at(left)) == milliseconds(30 - i));  // the newest one is always there
    CHECK(absence.since(at(0)) == milliseconds(600));
    CHECK(absence.since(at(605)) == milliseconds(30));
  }
  absence.note(at(1650), at(1655), kLengths);
  CHECK(absence.since(at(0)) < milliseconds(600));
  CHECK(absence.since(at(1640)) == milliseconds(5));
}

TEST_CASE("Absence__two_long_ones_with_a_short_presence_between_them_are_one") {
  Absence absence;
  absence.note(at(0), at(100), kLengths);
  absence.note(at(102), at(202), kLengths);
  CHECK(absence.since(at(0)) == milliseconds(202));
  CHECK(absence.since(at(101)) == milliseconds(101));
  absence.note(at(205), at(305), kLengths);  // somebody may have answered
  CHECK(absence.since(at(0)) == milliseconds(202));
  CHECK(absence.since(at(202)) == milliseconds(100));
}

// A program polls now and then, and each turn does something: it is never present between them.
TEST_CASE("Absence__of_many_long_ones_no_more_than_two_are_one") {
  Absence absence;
  for (std::uint64_t i = 0; i < 50; ++i) {
    absence.note(at(100 * i), at(100 * i + 100), kLengths);
    CHECK(absence.since(at(0)) <= milliseconds(200));
  }
}

// A host that is overloaded runs for short times only, again and again.
TEST_CASE("Absence__short_ones_stay_alone_however_short_the_presence_between_them_is") {
  Absence absence;
  for (std::uint64_t i = 0; i < 20; ++i) absence.note(at(70 * i), at(70 * i + 69), kLengths);
  CHECK(absence.since(at(0)) == milliseconds(69));
}

}  // namespace hawser::proto
