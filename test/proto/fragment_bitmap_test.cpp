// SPDX-License-Identifier: Apache-2.0
// FragmentBitmap and BlockPool (proto/base/bitmap.hpp) against a vector of flags.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "proto/base/bitmap.hpp"
#include "test/support/seeded.hpp"

namespace {

using hawser::proto::BlockPool;
using hawser::proto::FragmentBitmap;
using hawser::proto::Random;
using Claim = FragmentBitmap::Claim;

constexpr std::uint32_t kBlockBits = BlockPool::kBlockBits;

struct Model {
  explicit Model(std::uint32_t total) : claimed(total) {}

  std::vector<bool> claimed;
  std::uint32_t first_missing = 0;
  std::uint32_t count = 0;

  void claim(std::uint32_t fragment) {
    claimed[fragment] = true;
    ++count;
    while (first_missing < claimed.size() && claimed[first_missing]) ++first_missing;
  }
  [[nodiscard]] std::uint32_t total() const { return static_cast<std::uint32_t>(claimed.size()); }
  [[nodiscard]] bool outside(std::uint32_t fragment) const {
    if (fragment >= total()) return true;
    return fragment > first_missing && fragment / kBlockBits - first_missing / kBlockBits >= 64;
  }
  // How many blocks hold a claimed fragment ahead of the front, and the front itself.
  [[nodiscard]] std::uint32_t blocks() const {
    if (total() <= 64) return 0;
    std::set<std::uint32_t> ahead;
    for (std::uint32_t i = first_missing; i < total(); ++i) {
      if (claimed[i] && i / kBlockBits != first_missing / kBlockBits) ahead.insert(i / kBlockBits);
    }
    return 1 + static_cast<std::uint32_t>(ahead.size());
  }
};

void check_same(Random& random, const FragmentBitmap& bitmap, const Model& model) {
  REQUIRE(bitmap.first_missing() == model.first_missing);
  REQUIRE(bitmap.claimed() == model.count);
  REQUIRE(bitmap.complete() == (model.count == model.total()));
  const std::uint32_t around = model.first_missing + 700;
  const auto probe = static_cast<std::uint32_t>(random.below(around));
  REQUIRE(bitmap.is_claimed(probe) == (probe < model.total() && model.claimed[probe]));
}

void check_missing(Random& random, const FragmentBitmap& bitmap, const Model& model) {
  // Start at the first missing fragment, or anywhere behind or ahead of it.
  std::uint32_t base = model.first_missing;
  if (random.chance(0.3)) base = static_cast<std::uint32_t>(random.below(model.total()));
  const auto limit = static_cast<std::uint32_t>(base + random.below(1500));
  std::array<std::uint64_t, 16> words{};
  const std::size_t room = 1 + random.below(16);
  const std::size_t count = bitmap.write_missing(base, limit, std::span(words).first(room));
  REQUIRE(count <= room);
  if (count > 0) REQUIRE(words[count - 1] != 0);
  for (std::uint32_t i = 0; i < 64 * room; ++i) {
    const std::uint32_t fragment = base + i;
    const bool missing = fragment < std::min(limit, model.total()) && !model.claimed[fragment];
    const bool bit = i / 64 < count && ((words[i / 64] >> (i % 64)) & 1) != 0;
    REQUIRE(bit == missing);
  }
}

std::uint32_t draw_total(Random& random) {
  const std::array<std::uint32_t, 9> edges{1, 63, 64, 65, 511, 512, 513, 1024, 1025};
  switch (random.below(5)) {
    case 0: return edges[random.below(edges.size())];
    case 1: return static_cast<std::uint32_t>(1 + random.below(64));
    case 2: return static_cast<std::uint32_t>(65 + random.below(448));
    case 3: return static_cast<std::uint32_t>(513 + random.below(5000));
    default: return static_cast<std::uint32_t>(30000 + random.below(20000));
  }
}

std::uint32_t draw_fragment(Random& random, const Model& model, std::uint64_t reach) {
  const std::uint32_t first = model.first_missing;
  switch (random.below(8)) {
    case 0: return static_cast<std::uint32_t>(random.below(first + 1));      // a copy
    case 1: return static_cast<std::uint32_t>(first + random.below(40000));  // anything, or beyond
    default: return static_cast<std::uint32_t>(first + random.below(reach));
  }
}

}  // namespace

TEST_CASE("fragment bitmap: model") {
  hawser::test::for_each_seed(80, [](Random& random) {
    const std::uint32_t total = draw_total(random);
    const auto blocks = static_cast<std::uint32_t>(1 + random.below(random.chance(0.5) ? 6 : 100));
    const auto directories = static_cast<std::uint32_t>(random.below(3));
    BlockPool pool(blocks, directories);
    FragmentBitmap bitmap;
    REQUIRE(bitmap.start(pool, total));
    Model model(total);
    const std::uint64_t reach = 1 + random.below(random.chance(0.7) ? 30 : 3000);
    for (int step = 0; step < 3000 && !bitmap.complete(); ++step) {
      const std::uint32_t fragment = draw_fragment(random, model, reach);
      const std::uint32_t before = pool.blocks_in_use();
      const Claim claim = bitmap.claim(fragment);
      if (model.outside(fragment)) {
        REQUIRE(claim == Claim::outside);
      } else if (model.claimed[fragment]) {
        REQUIRE(claim == Claim::duplicate);
      } else if (claim == Claim::no_block) {
        REQUIRE(fragment / kBlockBits > model.first_missing / kBlockBits);
        REQUIRE((before == blocks || directories == 0));
      } else {
        REQUIRE(claim == Claim::fresh);
        model.claim(fragment);
      }
      if (step % 8 == 0) {
        check_same(random, bitmap, model);
        check_missing(random, bitmap, model);
        if (!bitmap.complete()) REQUIRE(pool.blocks_in_use() == model.blocks());
      }
    }
    check_same(random, bitmap, model);
    bitmap.release();
    REQUIRE_FALSE(bitmap.started());
    REQUIRE(pool.blocks_in_use() == 0);
    REQUIRE(pool.directories_in_use() == 0);
  });
}

TEST_CASE("fragment bitmap: messages that share an empty pool can all finish") {
  hawser::test::for_each_seed(40, [](Random& random) {
    const std::size_t messages = 1 + random.below(6);
    // The pool has one block per message, and a few more that any message may take.
    BlockPool pool(static_cast<std::uint32_t>(messages + random.below(4)), 2);
    std::vector<FragmentBitmap> bitmaps(messages);
    std::vector<std::uint32_t> totals;
    for (FragmentBitmap& bitmap : bitmaps) {
      totals.push_back(static_cast<std::uint32_t>(65 + random.below(4000)));
      REQUIRE(bitmap.start(pool, totals.back()));
    }
    // First claim all but the front blocks, so that the pool is used as badly as can be.
    for (std::size_t m = 0; m < messages; ++m) {
      for (std::uint32_t f = totals[m]; f-- > 0;) {
        if (random.chance(0.9)) (void)bitmaps[m].claim(f);
      }
    }
    // Then claim the fragment that each message is waiting for, which must always succeed.
    for (std::size_t m = 0; m < messages; ++m) {
      while (!bitmaps[m].complete()) {
        REQUIRE(bitmaps[m].claim(bitmaps[m].first_missing()) == Claim::fresh);
      }
      REQUIRE(bitmaps[m].claimed() == totals[m]);
    }
    for (FragmentBitmap& bitmap : bitmaps) bitmap.release();
    REQUIRE(pool.blocks_in_use() == 0);
    REQUIRE(pool.directories_in_use() == 0);
  });
}

TEST_CASE("fragment bitmap: what a message takes from the pool") {
  BlockPool pool(2, 1);
  FragmentBitmap small;
  FragmentBitmap medium;
  FragmentBitmap large;
  REQUIRE(small.start(pool, 64));
  CHECK(pool.blocks_in_use() == 0);
  REQUIRE(medium.start(pool, 512));
  for (std::uint32_t f = 512; f-- > 0;) CHECK(medium.claim(f) == Claim::fresh);
  CHECK(pool.blocks_in_use() == 1);
  CHECK(pool.directories_in_use() == 0);
  REQUIRE(large.start(pool, 513));
  CHECK(large.claim(512) == Claim::no_block);
  CHECK(pool.directories_in_use() == 0);  // none is kept in vain
  FragmentBitmap refused;
  CHECK_FALSE(refused.start(pool, 65));
  CHECK_FALSE(refused.started());
  medium.release();
  CHECK(large.claim(512) == Claim::fresh);
  CHECK(pool.directories_in_use() == 1);
  large.release();
  small.release();
}

TEST_CASE(
    "fragment bitmap: the span is inside wherever in a block it starts, and the longest message") {
  BlockPool pool(70, 1);
  FragmentBitmap bitmap;
  REQUIRE(bitmap.start(pool, 1u << 28));
  for (std::uint32_t f = 0; f < 511; ++f) REQUIRE(bitmap.claim(f) == Claim::fresh);
  CHECK(bitmap.claim(511 + FragmentBitmap::kSpan - 1) == Claim::fresh);
  CHECK(bitmap.claim(511 + FragmentBitmap::kSpan) == Claim::outside);
  CHECK(bitmap.claim((1u << 28) - 1) == Claim::outside);
  CHECK(bitmap.claim(1u << 28) == Claim::outside);
  CHECK(bitmap.claim(0xffffffffu) == Claim::outside);
  CHECK(bitmap.claim(511) == Claim::fresh);
  CHECK(bitmap.claim(511 + FragmentBitmap::kSpan) == Claim::fresh);
  bitmap.release();
  CHECK(pool.blocks_in_use() == 0);
}
