// SPDX-License-Identifier: Apache-2.0
// Atomics of host memory from two threads at once.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "proto/region/host_placement.hpp"

namespace hawser::proto {
namespace {

// Each value is fetched once, so no increment was lost and none was done twice.
TEST_CASE("HostPlacement__two_threads_that_add_lose_nothing") {
  constexpr std::uint64_t kEach = 20000;
  alignas(8) std::uint64_t word = 0;
  std::array<std::vector<std::uint64_t>, 2> fetched;
  const auto add = [&](std::vector<std::uint64_t>& values) {
    HostPlacement placement;
    for (std::uint64_t i = 0; i < kEach; ++i) {
      std::uint64_t before = 0;
      (void)placement.execute(reinterpret_cast<std::byte*>(&word), {AtomicOperation::add, 8, 1, 0},
                              before);
      values.push_back(before);
    }
  };
  {
    std::jthread other([&] { add(fetched[0]); });
    add(fetched[1]);
  }
  CHECK(word == 2 * kEach);
  std::vector<std::uint64_t> all = fetched[0];
  all.insert(all.end(), fetched[1].begin(), fetched[1].end());
  std::ranges::sort(all);
  for (std::uint64_t i = 0; i < 2 * kEach; ++i) REQUIRE(all[i] == i);
}

}  // namespace
}  // namespace hawser::proto
