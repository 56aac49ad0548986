// SPDX-License-Identifier: Apache-2.0
// Which pairs of NICs a session begins with. Every NIC with a partner is in one, and both ends find
// the same pairs.
#include "proto/path/nic_pairs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "test/support/seeded.hpp"

namespace hawser::proto {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

Pairs list(const NicPairs& pairs) {
  Pairs all;
  for (std::size_t i = 0; i < pairs.size(); ++i) all.emplace_back(pairs[i].local, pairs[i].remote);
  return all;
}

// The fabric that each NIC is in.
using Fabrics = std::vector<int>;
Pairs pairs_of(const Fabrics& local, const Fabrics& remote, bool local_first = true,
               std::size_t most = kMaxPaths) {
  return list(NicPairs({local.size(), remote.size(), local_first}, most,
                       [&](std::size_t i, std::size_t j) { return local[i] == remote[j]; }));
}

Pairs turned(const Pairs& pairs) {
  Pairs other;
  for (const auto& [a, b] : pairs) other.emplace_back(b, a);
  return other;
}

TEST_CASE("nic_pairs__where_all_reach_all_are_taken_in_turn") {
  for (std::size_t left = 1; left <= kMaxNics; ++left) {
    for (std::size_t right = 1; right <= kMaxNics; ++right) {
      Pairs expected;
      for (std::size_t i = 0; i < std::max(left, right); ++i) {
        expected.emplace_back(i % left, i % right);
      }
      for (const bool first : {false, true}) {
        CHECK(pairs_of(Fabrics(left, 0), Fabrics(right, 0), first) == expected);
      }
    }
  }
}

TEST_CASE("nic_pairs__of_several_fabrics") {
  struct Row {
    Fabrics local, remote;
    Pairs pairs;
  };
  const std::vector<Row> rows{
      {{4, 6}, {6, 4}, {{0, 1}, {1, 0}}},                        // another order
      {{4}, {4, 6}, {{0, 0}}},                                   // one end has one more rail
      {{4}, {6, 4}, {{0, 1}}},                                   //
      {{4, 4, 6}, {4, 6, 6}, {{0, 0}, {1, 0}, {2, 2}, {2, 1}}},  // no NIC is left out
      {{1, 2, 3, 4}, {4, 3, 2, 1}, {{0, 3}, {1, 2}, {2, 1}, {3, 0}}},
      {{4}, {6}, {}},  // no pair at all
      {{4, 4}, {6, 6}, {}},
      {{1, 1, 2}, {2}, {{2, 0}}},
  };
  for (const Row& row : rows) CHECK(pairs_of(row.local, row.remote) == row.pairs);
  CHECK(pairs_of({1, 2, 3}, {1, 2, 3}, true, 2) == Pairs{{0, 0}, {1, 1}});
}

TEST_CASE("nic_pairs__are_the_same_at_both_ends_and_leave_nobody_out") {
  test::for_each_seed(300, [](Random& random) {
    const std::size_t left = 1 + random.below(kMaxNics);
    const std::size_t right = 1 + random.below(kMaxNics);
    std::vector<std::vector<bool>> reach(left, std::vector<bool>(right));
    for (auto& row : reach) {
      for (std::size_t j = 0; j < right; ++j) row[j] = random.chance(0.4);
    }
    constexpr std::size_t kAll = kMaxPaths;
    const Pairs here = list(NicPairs({left, right, true}, kAll,
                                     [&](std::size_t i, std::size_t j) { return reach[i][j]; }));
    const Pairs there = list(NicPairs({right, left, false}, kAll,
                                      [&](std::size_t j, std::size_t i) { return reach[i][j]; }));
    CHECK(turned(there) == here);
    for (const auto& [i, j] : here) CHECK(reach[i][j]);
    if (here.size() == kAll) return;  // the list may have had no place for the others
    for (std::size_t i = 0; i < left; ++i) {
      const bool can = std::ranges::count(reach[i], true) > 0;
      CHECK(std::ranges::any_of(here, [&](auto p) { return p.first == int(i); }) == can);
    }
    for (std::size_t j = 0; j < right; ++j) {
      const bool can = std::ranges::any_of(reach, [&](const auto& row) { return bool(row[j]); });
      CHECK(std::ranges::any_of(here, [&](auto p) { return p.second == int(j); }) == can);
    }
  });
}

}  // namespace
}  // namespace hawser::proto
