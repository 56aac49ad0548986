// SPDX-License-Identifier: Apache-2.0
// When a group is awaited for its last messages only.
#include "proto/message/groups.hpp"

#include <catch2/catch.hpp>

namespace hawser::proto {
namespace {

constexpr std::uint16_t kChannel = 3;

Hint of(std::uint32_t group, std::uint16_t members, std::uint16_t step = 0) {
  Hint hint;
  hint.group = group;
  hint.members = members;
  hint.step = step;
  return hint;
}

// Returns after how many complete messages the last ones are awaited.
int awaited_after(Groups& groups, const Hint& hint) {
  int complete = 0;
  while (!groups.awaits_last(kChannel, hint)) {
    ++complete;
    const bool is_now = groups.note_complete(kChannel, hint);
    REQUIRE(is_now == groups.awaits_last(kChannel, hint));
    REQUIRE(complete < hint.members);
  }
  return complete;
}

TEST_CASE("Groups__the_last_eighth_is_awaited_and_always_the_last_message") {
  Groups groups(64);
  CHECK(awaited_after(groups, of(1, 2)) == 1);
  CHECK(awaited_after(groups, of(2, 8)) == 7);
  CHECK(awaited_after(groups, of(3, 16)) == 14);
  CHECK(awaited_after(groups, of(4, 64)) == 56);
}

TEST_CASE("Groups__a_message_alone_is_the_last_one_and_one_of_no_group_never") {
  Groups groups(64);
  CHECK(groups.awaits_last(kChannel, of(1, 1)));
  CHECK_FALSE(groups.note_complete(kChannel, of(1, 1)));
  CHECK_FALSE(groups.awaits_last(kChannel, of(0, 8)));
  for (int i = 0; i < 8; ++i) CHECK_FALSE(groups.note_complete(kChannel, of(0, 8)));
  CHECK_FALSE(groups.awaits_last(kChannel, of(0, 8)));
}

TEST_CASE("Groups__a_group_is_one_of_its_channel_and_step") {
  Groups groups(1024);
  const Hint hint = of(7, 2, 1);
  CHECK(groups.note_complete(kChannel, hint));
  CHECK(groups.awaits_last(kChannel, hint));
  CHECK_FALSE(groups.awaits_last(kChannel + 1, hint));
  CHECK_FALSE(groups.awaits_last(kChannel, of(7, 2, 2)));
  CHECK_FALSE(groups.awaits_last(kChannel, of(8, 2, 1)));
}

TEST_CASE("Groups__the_number_of_a_complete_group_may_come_again") {
  Groups groups(64);
  const Hint hint = of(7, 3);
  for (int round = 0; round < 3; ++round) {
    CHECK_FALSE(groups.awaits_last(kChannel, hint));
    CHECK_FALSE(groups.note_complete(kChannel, hint));
    CHECK(groups.note_complete(kChannel, hint));
    CHECK_FALSE(groups.note_complete(kChannel, hint));  // the last one: nothing is awaited any more
  }
}

TEST_CASE("Groups__of_two_in_one_slot_the_newer_one_has_it") {
  Groups groups(1);
  const Hint older = of(1, 2);
  const Hint newer = of(2, 3);
  CHECK(groups.note_complete(kChannel, older));
  CHECK_FALSE(groups.note_complete(kChannel, newer));
  CHECK_FALSE(groups.awaits_last(kChannel, older));
  CHECK(groups.note_complete(kChannel, newer));
  CHECK(groups.awaits_last(kChannel, newer));
}

}  // namespace
}  // namespace hawser::proto
