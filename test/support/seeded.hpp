// SPDX-License-Identifier: Apache-2.0
// Runs a randomised test with many seeds, naming the seed in every failure.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>

#include "proto/base/random.hpp"

namespace hawser::test {

// Sanitizers check the code and not its luck, so they get a quarter of the seeds.
[[nodiscard]] constexpr std::uint64_t seeds_here(std::uint64_t count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::min(count, std::max<std::uint64_t>(4, count / 4));
#else
  return count;
#endif
}

// Calls run(random) with seeds 1 to `count`, or as many of them as this build runs. If the
// environment variable HAWSER_TEST_SEED is set, it runs with that seed alone.
template <class Run>
void for_each_seed(std::uint64_t count, Run&& run) {
  const char* only = std::getenv("HAWSER_TEST_SEED");
  if (only != nullptr && *only == '\0') only = nullptr;
  const std::uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const std::uint64_t last = only == nullptr ? seeds_here(count) : first;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    INFO("to replay: HAWSER_TEST_SEED=" << seed);
    proto::Random random(seed);
    run(random);
  }
}

}  // namespace hawser::test
