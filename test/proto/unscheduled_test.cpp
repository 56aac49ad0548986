// SPDX-License-Identifier: Apache-2.0
// How much of a message a sender may send without a grant.
#include <catch2/catch.hpp>

#include "proto/message/unscheduled.hpp"

namespace hawser::test {
namespace {

constexpr std::uint32_t kFragment = 1000;
constexpr std::uint64_t kUnscheduled = 10'000;

std::uint32_t fragments(std::uint64_t bytes, const Hint& hint) {
  const auto all = static_cast<std::uint32_t>((bytes + kFragment - 1) / kFragment);
  return proto::unscheduled_fragments(bytes, all, kFragment, kUnscheduled, hint);
}

TEST_CASE("unscheduled__is_all_of_a_short_message_and_whole_fragments_of_a_long_one", "[M32]") {
  CHECK(fragments(1, {}) == 1);
  CHECK(fragments(9'999, {}) == 10);
  CHECK(fragments(10'000, {}) == 10);
  CHECK(fragments(10'001, {}) == 10);
  CHECK(fragments(1'000'000, {}) == 10);
}

TEST_CASE("unscheduled__is_what_the_links_take_in_a_time_or_the_tunable", "[M32]") {
  Tunables tunables;
  CHECK(proto::unscheduled_of(tunables, 0) == 65536);
  CHECK(proto::unscheduled_of(tunables, 12'500'000'000) == 175'000);
  CHECK(proto::unscheduled_of(tunables, 1'000'000'000) == 65536);
  tunables.unscheduled_us = 100'000;
  CHECK(proto::unscheduled_of(tunables, 800'000'000'000) == 0xffffffff);
}

TEST_CASE("unscheduled__is_shared_by_the_members_of_a_large_group", "[M32]") {
  const auto of = [](std::uint16_t members) { return Hint{.group = 1, .members = members}; };
  CHECK(fragments(1'000'000, of(0)) == 10);
  CHECK(fragments(1'000'000, of(4)) == 10);
  CHECK(fragments(1'000'000, of(5)) == 8);
  CHECK(fragments(8'000, of(5)) == 8);
  CHECK(fragments(8'001, of(5)) == 8);
  CHECK(fragments(1'000'000, of(40)) == 1);
  CHECK(fragments(1'000'000, of(41)) == 0);
  CHECK(fragments(900, of(41)) == 1);  // 975 bytes each
  CHECK(fragments(976, of(41)) == 0);
  CHECK(fragments(1, of(65535)) == 0);
  CHECK(fragments(1'000'000, {.group = 0, .members = 1000}) == 10);  // no group
}

}  // namespace
}  // namespace hawser::test
