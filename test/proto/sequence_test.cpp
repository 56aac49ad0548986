// SPDX-License-Identifier: Apache-2.0
#include "proto/base/sequence.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <random>

namespace hawser::proto {
namespace {

constexpr std::uint64_t k32 = std::uint64_t{1} << 32;
constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

// The places where numbers could wrap: both halves of every 2^32 of interest, and of 2^64.
constexpr std::uint64_t kWraps[] = {0,
                                    k32 / 2,
                                    k32,
                                    k32 + k32 / 2,
                                    2 * k32,
                                    std::uint64_t{1} << 40,
                                    kMax64 / 2 + 1,
                                    kMax64 - k32 + 1};

TEST_CASE("sequence: expand returns the number that was truncated, around every wrap") {
  for (const std::uint64_t wrap : kWraps) {
    for (std::int64_t at = -3; at <= 3; ++at) {
      const std::uint64_t expected = wrap + static_cast<std::uint64_t>(at);
      for (std::int64_t off : {-(std::int64_t{1} << 31), -std::int64_t{4096}, -std::int64_t{3},
                               -std::int64_t{1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{3},
                               std::int64_t{4096}, (std::int64_t{1} << 31) - 1}) {
        const std::uint64_t number = expected + static_cast<std::uint64_t>(off);
        INFO("expected " << expected << " number " << number);
        CHECK(expand(to_wire(number), expected) == number);
      }
    }
  }
}

TEST_CASE("sequence: expand picks the nearest of the candidates, downwards at a tie") {
  CHECK(expand(5, k32 + 5) == k32 + 5);
  CHECK(expand(0xffffffff, k32) == k32 - 1);
  CHECK(expand(0, k32 - 1) == k32);
  CHECK(expand(0x7fffffff, k32) == k32 + 0x7fffffff);
  CHECK(expand(0x80000000, k32) == k32 - 0x80000000);
  CHECK(expand(0x80000001, k32) == k32 - 0x7fffffff);
}

TEST_CASE("sequence: a number below 0 comes out at the far end, outside of any window") {
  CHECK(expand(0xffffffff, 0) == kMax64);
  CHECK(distance(expand(0xffffffff, 0), 0) == -1);
}

TEST_CASE("sequence: expand agrees with a search for the nearest candidate") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    // Stay away from the ends of 64 bits, so that plain arithmetic gives the right answer.
    const std::uint64_t expected = k32 + random() % (kMax64 / 2);
    const auto wire = static_cast<std::uint32_t>(random());
    const std::uint64_t high = expected & ~(k32 - 1);
    std::uint64_t nearest = 0;
    std::uint64_t best = kMax64;
    for (const std::uint64_t candidate : {high - k32 + wire, high + wire, high + k32 + wire}) {
      const std::uint64_t gap = candidate > expected ? candidate - expected : expected - candidate;
      if (gap < best) {
        best = gap;
        nearest = candidate;
      }
    }
    REQUIRE(expand(wire, expected) == nearest);
  }
}

TEST_CASE("sequence: before and distance go across the wraps") {
  for (const std::uint64_t wrap : kWraps) {
    CHECK(before(wrap - 1, wrap));
    CHECK_FALSE(before(wrap, wrap - 1));
    CHECK_FALSE(before(wrap, wrap));
    CHECK(distance(wrap + 2, wrap - 3) == 5);
    CHECK(distance(wrap - 3, wrap + 2) == -5);
  }
}

}  // namespace
}  // namespace hawser::proto
