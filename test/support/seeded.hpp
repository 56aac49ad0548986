// Runs a randomised test with many seeds, naming the seed in every failure.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>

#include "proto/random.hpp"

namespace hawser::test {

// Calls run(random) with seeds 1 to `count`; with the environment variable HAWSER_TEST_SEED set,
// with that seed alone.
template <class Run>
void for_each_seed(std::uint64_t count, Run&& run) {
  const char* only = std::getenv("HAWSER_TEST_SEED");
  if (only != nullptr && *only == '\0') only = nullptr;
  const std::uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const std::uint64_t last = only == nullptr ? count : first;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    INFO("to replay: HAWSER_TEST_SEED=" << seed);
    proto::Random random(seed);
    run(random);
  }
}

}  // namespace hawser::test
