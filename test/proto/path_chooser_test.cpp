// SPDX-License-Identifier: Apache-2.0
#include "proto/path/path_chooser.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace hawser::proto {
namespace {

constexpr std::uint64_t kPacket = 4096;

TEST_CASE("LeastFilled__a_path_gets_packets_by_the_share_of_its_window", "[P9]") {
  std::array<Path, 3> paths{};
  LeastFilled policy;
  CHECK(policy.best() == nullptr);
  CHECK_FALSE(policy.offer({&paths[0], 10 * kPacket, 5 * kPacket, true}));
  CHECK(policy.best() == &paths[0]);
  // More bytes in flight, but of a wider window.
  CHECK_FALSE(policy.offer({&paths[1], 100 * kPacket, 40 * kPacket, true}));
  CHECK(policy.best() == &paths[1]);
  CHECK_FALSE(policy.offer({&paths[2], 2 * kPacket, kPacket, true}));
  CHECK(policy.best() == &paths[1]);
}

TEST_CASE("LeastFilled__a_path_without_room_is_passed_over", "[P9]") {
  std::array<Path, 2> paths{};
  LeastFilled policy;
  (void)policy.offer({&paths[0], 10 * kPacket, 0, false});
  CHECK(policy.best() == nullptr);
  (void)policy.offer({&paths[1], 10 * kPacket, 9 * kPacket, true});
  CHECK(policy.best() == &paths[1]);
}

TEST_CASE("LeastFilled__of_paths_that_are_filled_alike_the_one_that_carried_least", "[P9]") {
  std::array<Path, 3> paths{};
  paths[0].traffic.balance_bytes = 7;
  paths[1].traffic.balance_bytes = 5;
  paths[2].traffic.balance_bytes = 5;
  LeastFilled policy;
  for (Path& path : paths) (void)policy.offer({&path, 8 * kPacket, kPacket, true});
  CHECK(policy.best() == &paths[1]);  // and the first of two
}

// Windows of this size would overflow 64 bits if they were multiplied.
TEST_CASE("LeastFilled__huge_windows_compare_too") {
  std::array<Path, 2> paths{};
  LeastFilled policy;
  (void)policy.offer({&paths[0], std::uint64_t{1} << 62, std::uint64_t{1} << 61, true});
  (void)policy.offer({&paths[1], std::uint64_t{1} << 62, std::uint64_t{1} << 60, true});
  CHECK(policy.best() == &paths[1]);
}

TEST_CASE("EqualShares__the_path_whose_turn_it_is_or_none") {
  std::array<Path, 2> paths{};
  EqualShares policy;
  CHECK(policy.offer({&paths[0], 10 * kPacket, 9 * kPacket, true}));
  CHECK(policy.best() == &paths[0]);
  EqualShares waits;
  CHECK(waits.offer({&paths[0], 10 * kPacket, kPacket, false}));
  CHECK(waits.best() == nullptr);
}

}  // namespace
}  // namespace hawser::proto
