#include "proto/message_table.hpp"

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

// A table and its model, whose keys are offsets from the first number: it knows nothing of
// wrapping.
struct Pair {
  MessageTable table;
  std::map<std::uint64_t, std::uint32_t> model;
  std::uint64_t first = 0;
  std::uint64_t floor = 0;  // offset

  [[nodiscard]] std::uint64_t block(std::uint64_t offset) const {
    return (first % 64 + offset) / 64;
  }
  // Those with entries; those behind the floor's need a directory.
  [[nodiscard]] std::set<std::uint64_t> blocks() const {
    std::set<std::uint64_t> held;
    for (const auto& [offset, value] : model) held.insert(block(offset));
    return held;
  }

  [[nodiscard]] std::size_t directories() const {
    const std::set<std::uint64_t> held = blocks();
    return held.size() > held.count(block(floor)) ? 1 : 0;
  }

  void set(Random& random, const MessageTablePool& pool) {
    // Mostly near the floor, as real numbers are.
    const std::uint64_t reach = random.chance(0.7) ? 100 : MessageTable::kSpan;
    const std::uint64_t offset = floor + random.below(reach);
    const auto value = static_cast<std::uint32_t>(random.next());
    const bool certain = blocks().count(block(offset)) != 0 || block(offset) == block(floor);
    const bool has_directory = directories() != 0;
    const bool expected = certain || pool.available() >= (has_directory ? 1 : 2);
    REQUIRE(table.set(first + offset, value) == expected);
    if (expected) model[offset] = value;
  }

  void advance(Random& random) {
    const std::uint64_t most = random.chance(0.9) ? 80 : 9000;
    const std::uint64_t old = floor;
    floor += random.below(most);
    std::vector<std::pair<std::uint64_t, std::uint32_t>> expected;
    while (!model.empty() && model.begin()->first < floor) {
      expected.emplace_back(first + model.begin()->first, model.begin()->second);
      model.erase(model.begin());
    }
    std::vector<std::pair<std::uint64_t, std::uint32_t>> dropped;
    const auto collect = [&](std::uint64_t number, std::uint32_t value) {
      dropped.emplace_back(number, value);
    };
    table.advance_floor(first + floor, collect);
    REQUIRE(dropped == expected);
    table.advance_floor(first + old, collect);  // an old floor says nothing
    REQUIRE(dropped == expected);
    REQUIRE(table.floor() == first + floor);
  }

  void check(Random& random) const {
    REQUIRE(table.size() == model.size());
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t offset = floor - 100 + random.below(MessageTable::kSpan + 200);
      const bool inside = offset - floor < MessageTable::kSpan;
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
      if (action < 13) {
        pair.set(random, pool);
      } else if (action < 19) {
        const std::uint64_t offset = pair.floor + random.below(120);
        REQUIRE(pair.table.erase(pair.first + offset) == (pair.model.erase(offset) != 0));
      } else {
        pair.advance(random);
      }
      pair.check(random);
      std::size_t held = 0;
      for (const Pair& each : pairs) {
        held += each.blocks().size() + each.directories();
      }
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
  MessageTablePool pool(4);
  MessageTable hog;
  MessageTable table;
  REQUIRE(hog.open(pool, 0));
  REQUIRE(table.open(pool, 10));
  REQUIRE(hog.set(100, 1));
  CHECK(pool.size() == 2);  // and one for each of the floors
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
  MessageTablePool pool(80);
  MessageTable table;
  REQUIRE(table.open(pool, 10));
  for (std::uint64_t n = 10; n < 10 + MessageTable::kSpan; ++n) {
    REQUIRE(table.set(n, static_cast<std::uint32_t>(n)));
  }
  std::uint64_t next = 10;
  const auto dropped = [&](std::uint64_t number, std::uint32_t value) {
    REQUIRE(number == next++);
    REQUIRE(value == number);
  };
  table.advance_floor(10 + MessageTable::kSpan, dropped);
  CHECK(next == 10 + MessageTable::kSpan);
  CHECK(pool.size() == 0);
  table.close();
}
