// SPDX-License-Identifier: Apache-2.0
#include "proto/message/message_table.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "test/support/seeded.hpp"

namespace {

using hawser::proto::MessageTable;
using hawser::proto::MessageTablePool;
using hawser::proto::Random;

constexpr std::uint64_t kSpan = MessageTable::kSpan;

// A table and its model. The model's keys are offsets from the first number, so it has no wrapping.
struct Pair {
  MessageTable table;
  std::map<std::uint64_t, std::uint32_t> model;
  std::map<std::uint64_t, int> blocks;  // entries in each
  std::set<std::uint64_t> folded;
  std::uint64_t first = 0;
  std::uint64_t floor = 0;  // offset

  [[nodiscard]] std::uint64_t block(std::uint64_t offset) const {
    return (first % (64 * 64) + offset) / 64;
  }
  void put(std::uint64_t offset, std::uint32_t value) {
    if (model.insert_or_assign(offset, value).second) ++blocks[block(offset)];
  }
  bool remove(std::uint64_t offset) {
    if (model.erase(offset) == 0) return false;
    if (--blocks[block(offset)] == 0) blocks.erase(block(offset));
    return true;
  }
  // The directories that the table needs: those of all blocks but the floor's.
  [[nodiscard]] std::set<std::uint64_t> directories() const {
    std::set<std::uint64_t> named;
    for (const auto& [which, entries] : blocks) {
      if (which != block(floor)) named.insert(which / 64);
    }
    return named;
  }
  // How many blocks of the pool the table holds.
  [[nodiscard]] std::size_t held() const {
    const std::size_t named = directories().size();
    return blocks.size() - folded.size() + named + (named != 0 ? 1 : 0);
  }

  void set(Random& random, const MessageTablePool& pool) {
    // Mostly near the floor, as real numbers are.
    const std::uint64_t reach = random.chance(0.7) ? 100 : random.chance(0.5) ? 5000 : kSpan;
    const std::uint64_t offset = floor + random.below(reach);
    set(offset, static_cast<std::uint32_t>(random.next()), pool);
  }
  void set(std::uint64_t offset, std::uint32_t value, const MessageTablePool& pool) {
    if (folded.count(block(offset)) != 0) value = model.at(offset);
    const bool certain = blocks.count(block(offset)) != 0 || block(offset) == block(floor);
    bool expected = certain;
    if (!certain) {
      const std::set<std::uint64_t> named = directories();
      const std::size_t needed = named.count(block(offset) / 64) != 0 ? 1 : named.empty() ? 3 : 2;
      expected = pool.available() >= needed;
    }
    REQUIRE(table.set(first + offset, value) == expected);
    if (!expected) return;
    put(offset, value);
    if (block(offset) != block(floor) && is_uniform(block(offset))) folded.insert(block(offset));
  }
  // Whether the block is full and all its values are the same, with the top bit set.
  [[nodiscard]] bool is_uniform(std::uint64_t which) const {
    if (blocks.at(which) != 64) return false;
    const std::uint64_t begin = which * 64 - first % (64 * 64);
    const auto one = model.find(begin);
    if (one == model.end() || (one->second >> 31) == 0 || one->second == ~0u) return false;
    for (std::uint64_t i = 1; i < 64; ++i) {
      const auto other = model.find(begin + i);
      if (other == model.end() || other->second != one->second) return false;
    }
    return true;
  }
  // A peer's oldest message stays, and all that follow end alike.
  void finish_many(Random& random, const MessageTablePool& pool) {
    std::uint64_t offset = floor + random.below(random.chance(0.7) ? 200 : kSpan - 300);
    const std::uint32_t value = 0x80000000u + static_cast<std::uint32_t>(random.below(3));
    for (const std::uint64_t end = offset + random.below(300); offset != end; ++offset) {
      set(offset, value, pool);
    }
  }

  void advance(Random& random) {
    const std::uint64_t most = random.chance(0.9) ? 80 : random.chance(0.9) ? 9000 : 2 * kSpan;
    const std::uint64_t old = floor;
    floor += random.below(most);
    std::vector<std::pair<std::uint64_t, std::uint32_t>> expected;
    while (!model.empty() && model.begin()->first < floor) {
      expected.emplace_back(first + model.begin()->first, model.begin()->second);
      remove(model.begin()->first);
    }
    folded.erase(folded.begin(), folded.lower_bound(block(floor)));
    std::vector<std::pair<std::uint64_t, std::uint32_t>> dropped;
    const auto collect = [&](std::uint64_t number, std::uint32_t value) {
      dropped.emplace_back(number, value);
    };
    table.advance_floor(first + floor, collect);
    REQUIRE(dropped == expected);
    table.advance_floor(first + old, collect);  // an old floor changes nothing
    REQUIRE(dropped == expected);
    REQUIRE(table.floor() == first + floor);
  }

  void check(Random& random) const {
    REQUIRE(table.size() == model.size());
    const std::uint64_t lowest = model.empty() ? floor + 7 : model.begin()->first;
    REQUIRE(table.first(first + floor + 7) == first + lowest);
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t reach = random.chance(0.5) ? 1000 : kSpan + 200;
      const std::uint64_t offset = floor - 100 + random.below(reach);
      const bool inside = offset - floor < kSpan;
      REQUIRE(table.in_window(first + offset) == inside);
      const auto entry = model.find(offset);
      const auto value = table.get(first + offset);
      REQUIRE(value.has_value() == (entry != model.end()));
      if (value) REQUIRE(*value == entry->second);
    }
  }

  void check_all() const {
    auto entry = model.begin();
    table.for_each([&](std::uint64_t number, std::uint32_t value) {
      REQUIRE(entry != model.end());
      REQUIRE(number == first + entry->first);
      REQUIRE(value == entry->second);
      ++entry;
    });
    REQUIRE(entry == model.end());
  }
};

}  // namespace

TEST_CASE("message table: model, tables sharing a pool that runs dry") {
  hawser::test::for_each_seed(80, [](Random& random) {
    const std::size_t tables = 1 + random.below(4);
    const std::uint32_t spare = random.chance(0.5) ? 3 : 300;
    MessageTablePool pool(static_cast<std::uint32_t>(tables) + spare);
    std::vector<Pair> pairs(tables);
    for (Pair& pair : pairs) {
      pair.first = random.chance(0.3)   ? ~std::uint64_t{0} - random.below(3000)
                   : random.chance(0.5) ? random.next()
                                        : 0;
      REQUIRE(pair.table.open(pool, pair.first));
    }
    for (int step = 0; step < 3000; ++step) {
      Pair& pair = pairs[random.below(tables)];
      const std::uint64_t action = random.below(20);
      if (action < 12) {
        pair.set(random, pool);
      } else if (action < 13) {
        pair.finish_many(random, pool);
      } else if (action < 19) {
        const std::uint64_t offset = pair.floor + random.below(120);
        if (pair.folded.count(pair.block(offset)) != 0) continue;
        REQUIRE(pair.table.erase(pair.first + offset) == pair.remove(offset));
      } else {
        pair.advance(random);
      }
      pair.check(random);
      std::size_t held = 0;
      for (const Pair& each : pairs) held += each.held();
      REQUIRE(pool.size() == held);
      REQUIRE(pool.available() + held <= pool.capacity());
      if (step % 100 == 0) pair.check_all();
    }
    for (Pair& pair : pairs) pair.table.close();
    REQUIRE(pool.size() == 0);
    REQUIRE(pool.available() == pool.capacity());
  });
}

TEST_CASE("message table: the oldest number always finds room, and by and by all do") {
  MessageTablePool pool(5);
  MessageTable hog;
  MessageTable table;
  REQUIRE(hog.open(pool, 0));
  REQUIRE(table.open(pool, 10));
  REQUIRE(hog.set(100, 1));
  CHECK(pool.size() == 3);  // and one for each of the floors
  CHECK(pool.available() == 0);
  CHECK_FALSE(table.set(64, 5));
  const auto none = [](std::uint64_t, std::uint32_t) { FAIL("nothing to drop"); };
  for (std::uint64_t number = 10; number < 500; ++number) {
    table.advance_floor(number, none);
    REQUIRE(table.set(number, 7));
    REQUIRE(table.get(number) == 7u);
    REQUIRE(table.erase(number));
  }
  MessageTable third;
  CHECK_FALSE(third.open(pool, 0));
  CHECK_FALSE(third.is_open());
  CHECK_FALSE(third.get(0).has_value());
  table.close();
  CHECK(third.open(pool, 0));
  hog.close();
  third.close();
  CHECK(pool.size() == 0);
}

TEST_CASE("message table: a window that starts within a block keeps its two ends apart") {
  MessageTablePool pool(static_cast<std::uint32_t>(kSpan / 64 + 100));
  MessageTable table;
  REQUIRE(table.open(pool, 10));
  for (std::uint64_t n = 10; n < 10 + kSpan; ++n) {
    REQUIRE(table.set(n, static_cast<std::uint32_t>(n)));
  }
  std::uint64_t next = 10;
  const auto dropped = [&](std::uint64_t number, std::uint32_t value) {
    REQUIRE(number == next++);
    REQUIRE(value == number);
  };
  table.advance_floor(10 + kSpan, dropped);
  CHECK(next == 10 + kSpan);
  CHECK(pool.size() == 0);
  table.close();
}

TEST_CASE("message table: one number that stays costs little, whatever ends behind it") {
  // The pool has a root, its directories, the blocks of both ends, and the one being filled.
  MessageTablePool pool(1 + 64 + 3);
  MessageTable table;
  REQUIRE(table.open(pool, 10));
  REQUIRE(table.set(10, 1));
  constexpr std::uint32_t kFinal = 0x80000003u;
  for (std::uint64_t n = 11; n < 10 + kSpan; ++n) REQUIRE(table.set(n, kFinal));
  CHECK(table.size() == kSpan);
  CHECK(table.first(0) == 10);
  CHECK(table.get(10 + kSpan - 1) == kFinal);
  CHECK_FALSE(table.has_place_for(5000));
  REQUIRE(table.erase(10));
  CHECK(table.first(0) == 11);
  std::uint64_t dropped = 0;
  table.advance_floor(10 + kSpan - 7, [&](std::uint64_t, std::uint32_t) { ++dropped; });
  CHECK(dropped == kSpan - 8);
  CHECK(table.first(0) == 10 + kSpan - 7);
  CHECK(table.size() == 7);
  CHECK(pool.size() <= 3);
  table.close();
  CHECK(pool.size() == 0);
}
