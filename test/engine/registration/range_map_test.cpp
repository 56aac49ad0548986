// SPDX-License-Identifier: Apache-2.0
// The map of ranges against a model that checks every range.
#include "engine/registration/range_map.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "test/support/seeded.hpp"

namespace hawser::engine {
namespace {

constexpr std::size_t kCapacity = 24;

PageRange draw(proto::Random& random) {
  const std::uintptr_t page = page_bytes();
  const std::uintptr_t begin = random.below(40) * page;
  return {begin, begin + (1 + random.below(12)) * page};
}

// The names of the rows, in the order in which their ranges begin.
std::vector<std::uint32_t> names_of(std::span<const RangeMap::Row> rows) {
  std::vector<std::uint32_t> names;
  for (const RangeMap::Row& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace

TEST_CASE("RangeMap__finds_what_a_search_of_all_finds") {
  std::size_t found = 0;
  std::size_t taken_out = 0;
  test::for_each_seed(200, [&](proto::Random& random) {
    RangeMap map(kCapacity);
    std::vector<RangeMap::Row> model;
    for (std::uint32_t name = 0; name < 200; ++name) {
      const PageRange range = draw(random);
      std::vector<RangeMap::Row> within;
      for (const RangeMap::Row& row : model) {
        if (range.holds(row.range)) within.push_back(row);
      }
      std::ranges::sort(within, {}, [](const RangeMap::Row& row) { return row.range.begin; });
      REQUIRE(names_of(map.held_by(range)) == names_of(within));
      std::vector<RangeMap::Row> holders;
      for (const RangeMap::Row& row : model) {
        if (row.range.holds(range)) holders.push_back(row);
      }
      std::ranges::sort(holders, {}, [](const RangeMap::Row& row) { return row.range.begin; });
      REQUIRE(names_of(map.holders_of(range)) == names_of(holders));
      const auto of_model = [&](std::uint32_t which) {
        return std::ranges::find(model, which, &RangeMap::Row::name);
      };
      if (!holders.empty()) {
        ++found;
        if (random.chance(0.2)) {
          map.remove(holders.front().range);
          model.erase(of_model(holders.front().name));
        }
        continue;
      }
      taken_out += within.size();
      for (const RangeMap::Row& row : within) {
        map.remove(row.range);
        model.erase(of_model(row.name));
      }
      if (model.size() == kCapacity) continue;
      map.add(range, name);
      model.push_back({range, name});
      REQUIRE(map.size() == model.size());
    }
  });
  CHECK(found > 0);
  CHECK(taken_out > 0);
}

TEST_CASE("PageRange__is_the_pages_that_bytes_lie_in") {
  const std::uintptr_t page = page_bytes();
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  CHECK(pages_of(at(5 * page), page) == PageRange{5 * page, 6 * page});
  CHECK(pages_of(at(5 * page + 1), page) == PageRange{5 * page, 7 * page});
  CHECK(pages_of(at(5 * page - 1), 2) == PageRange{4 * page, 6 * page});
  CHECK(pages_of(at(5 * page - 1), 1) == PageRange{4 * page, 5 * page});
}

}  // namespace hawser::engine
