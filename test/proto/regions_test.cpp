// SPDX-License-Identifier: Apache-2.0
// Who may touch exposed memory: keys, rights, ranges, alignment, withdrawal.
#include "proto/region/regions.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>

#include "proto/region/host_placement.hpp"

namespace hawser::proto {
namespace {

using wire::MessageStatus;

constexpr std::uint64_t kSecret = 0x1234567890abcdef;
constexpr RegionAccess kAll = RegionAccess::all;
constexpr Withdrawal kWithdrawal{OperationId{77}, 5};

struct Scene {
  alignas(8) std::array<std::byte, 64> memory{};
  HostPlacement placement;
  Regions regions{2};

  SlabId expose(RegionAccess rights = kAll, std::size_t bytes = 64) {
    const auto id = regions.expose({.data = memory.data(), .bytes = bytes, .access = rights},
                                   kSecret, placement);
    REQUIRE(id);
    return *id;
  }
  static Claimed claim(SlabId id, std::uint64_t offset, std::uint64_t bytes) {
    return {id.index, id.generation, kSecret, offset, bytes};
  }
};

TEST_CASE("Regions__grant_what_lies_in_the_region", "[O7]") {
  Scene at;
  const SlabId id = at.expose();
  const Reach reach = at.regions.check(Scene::claim(id, 8, 56), RegionAccess::write);
  REQUIRE(reach.is_granted());
  CHECK(reach.at == at.memory.data() + 8);
  CHECK(reach.region == id);
  CHECK(reach.placement == &at.placement);
  CHECK(at.regions.check(Scene::claim(id, 64, 0), RegionAccess::read).is_granted());
}

TEST_CASE("Regions__deny_what_reaches_beyond_the_region", "[O7]") {
  Scene at;
  const SlabId id = at.expose();
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::uint64_t>{0, 65},
                                      {64, 1},
                                      {65, 0},
                                      {63, 2},
                                      {kMost, 2},
                                      {2, kMost},
                                      {kMost, kMost},
                                      {kMost - 7, 8}}) {
    INFO(offset << " and " << bytes << " bytes");
    const Reach reach = at.regions.check(Scene::claim(id, offset, bytes), RegionAccess::write);
    CHECK_FALSE(reach.is_granted());
    CHECK(reach.denial == MessageStatus::access_denied);
  }
}

// A wrong key learns nothing of what is wrong with it.
TEST_CASE("Regions__deny_each_wrong_key_alike", "[O7]") {
  Scene at;
  const SlabId id = at.expose();
  const Claimed right = Scene::claim(id, 0, 8);
  REQUIRE(at.regions.check(right, RegionAccess::write).is_granted());
  for (const int wrong : {0, 1, 2, 3, 4}) {
    Claimed claimed = right;
    if (wrong == 0) claimed.region = id.index + 1;
    if (wrong == 1) claimed.region = kNoIndex;
    if (wrong == 2) claimed.generation = id.generation + 1;
    if (wrong == 3) claimed.secret ^= 1;
    if (wrong == 4) claimed.secret = 0;
    INFO("wrong " << wrong);
    CHECK(at.regions.check(claimed, RegionAccess::write).denial == MessageStatus::access_denied);
    CHECK_FALSE(at.regions.check(claimed, RegionAccess::write).is_granted());
  }
}

TEST_CASE("Regions__deny_what_was_not_allowed", "[O8]") {
  for (const RegionAccess rights :
       {RegionAccess::none, RegionAccess::write, RegionAccess::read, RegionAccess::atomic,
        RegionAccess::write | RegionAccess::read, kAll}) {
    Scene at;
    const SlabId id = at.expose(rights);
    for (const RegionAccess wanted :
         {RegionAccess::write, RegionAccess::read, RegionAccess::atomic}) {
      CHECK(at.regions.check(Scene::claim(id, 0, 8), wanted).is_granted() ==
            allows(rights, wanted));
    }
    CHECK(at.regions.check_word(Scene::claim(id, 0, 8)).is_granted() ==
          allows(rights, RegionAccess::atomic));
  }
}

TEST_CASE("Regions__a_word_is_aligned_where_it_lies", "[O9]") {
  Scene at;
  for (const std::uint64_t width : {4u, 8u}) {
    const SlabId id = at.expose();
    for (std::uint64_t offset = 0; offset < 16; ++offset) {
      const Reach reach = at.regions.check_word(Scene::claim(id, offset, width));
      CHECK(reach.is_granted() == (offset % width == 0));
      if (offset % width != 0) CHECK(reach.denial == MessageStatus::misaligned);
    }
  }
  // The memory counts, and not the offset.
  const auto odd = at.regions.expose({.data = at.memory.data() + 4, .bytes = 16, .access = kAll},
                                     kSecret, at.placement);
  REQUIRE_FALSE(odd);  // there is no place for a third
}

TEST_CASE("Regions__a_misaligned_region_has_aligned_words_of_its_own") {
  Scene at;
  const auto id = at.regions.expose({.data = at.memory.data() + 4, .bytes = 16, .access = kAll},
                                    kSecret, at.placement);
  REQUIRE(id);
  CHECK_FALSE(at.regions.check_word(Scene::claim(*id, 0, 8)).is_granted());
  CHECK(at.regions.check_word(Scene::claim(*id, 4, 8)).is_granted());
}

TEST_CASE("Regions__a_withdrawn_region_is_found_by_nobody", "[O41]") {
  Scene at;
  const SlabId id = at.expose();
  REQUIRE(at.regions.still_granted(id) == &at.placement);
  CHECK(at.regions.withdraw(id, kWithdrawal));
  CHECK(at.regions.find(id) == nullptr);
  CHECK(at.regions.still_granted(id) == nullptr);
  CHECK_FALSE(at.regions.check(Scene::claim(id, 0, 1), RegionAccess::write).is_granted());
  CHECK(at.regions.size() == 0);
  const SlabId next = at.expose();  // an old key is none of it, even with the same secret
  REQUIRE(next.index == id.index);
  CHECK_FALSE(at.regions.check(Scene::claim(id, 0, 1), RegionAccess::write).is_granted());
  CHECK(at.regions.check(Scene::claim(next, 0, 1), RegionAccess::write).is_granted());
}

TEST_CASE("Regions__a_withdrawal_waits_for_the_last_reader", "[O44]") {
  Scene at;
  const SlabId id = at.expose();
  at.regions.begin_reading(id);
  at.regions.begin_reading(id);
  CHECK_FALSE(at.regions.withdraw(id, kWithdrawal));
  CHECK_FALSE(at.regions.check(Scene::claim(id, 0, 1), RegionAccess::read).is_granted());
  CHECK(at.regions.end_reading(id) == Withdrawal{});
  CHECK(at.regions.size() == 1);
  CHECK(at.regions.end_reading(id) == kWithdrawal);
  CHECK(at.regions.size() == 0);
}

TEST_CASE("Regions__a_reader_that_ends_before_leaves_the_region") {
  Scene at;
  const SlabId id = at.expose();
  at.regions.begin_reading(id);
  CHECK(at.regions.end_reading(id) == Withdrawal{});
  CHECK(at.regions.find(id) != nullptr);
  CHECK(at.regions.withdraw(id, kWithdrawal));
}

}  // namespace
}  // namespace hawser::proto
