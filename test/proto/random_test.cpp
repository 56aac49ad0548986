// SPDX-License-Identifier: Apache-2.0
#include "proto/base/random.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

using hawser::proto::Duration;
using hawser::proto::microseconds;
using hawser::proto::Random;

TEST_CASE("random: the published generator") {
  // The numbers come from the authors' C sources: splitmix64 fills the state of xoshiro256**.
  Random random(1234567);
  CHECK(random.next() == 3504822795582309479u);
  CHECK(random.next() == 1819558768956484042u);
  CHECK(random.next() == 1250851346055027673u);
  CHECK(random.next() == 16940231675099994102u);
  CHECK(Random(0).next() == 11091344671253066420u);
}

TEST_CASE("random: below is even, and unbiased where 2^64 is no multiple") {
  Random random(5);
  std::array<std::uint32_t, 10> counts{};
  for (int i = 0; i < 100000; ++i) ++counts[random.below(counts.size())];
  double chi_square = 0;
  for (const std::uint32_t count : counts) {
    chi_square += std::pow(static_cast<double>(count) - 10000.0, 2) / 10000.0;
  }
  CHECK(chi_square < 27.9);  // p = 0.001 at 9 degrees of freedom

  // next() % n would give values below 2^62 twice as often as others, and so half of the time.
  const std::uint64_t n = 3u * (std::uint64_t{1} << 62);
  int low = 0;
  for (int i = 0; i < 30000; ++i) {
    const std::uint64_t value = random.below(n);
    REQUIRE(value < n);
    low += value < (std::uint64_t{1} << 62) ? 1 : 0;
  }
  CHECK(std::abs(low - 10000) < 330);  // 4 sigma; the biased one gives 15000

  for (int i = 0; i < 10; ++i) CHECK(random.below(1) == 0);
}

TEST_CASE("random: chance") {
  Random random(6);
  int hits = 0;
  for (int i = 0; i < 100000; ++i) {
    REQUIRE_FALSE(random.chance(0.0));
    REQUIRE(random.chance(1.0));
    hits += random.chance(0.05) ? 1 : 0;
  }
  CHECK(std::abs(hits - 5000) < 280);  // 4 sigma
}

TEST_CASE("random: jitter spreads by half to both sides and keeps the mean") {
  Random random(7);
  const Duration d = microseconds(1000);
  std::int64_t sum = 0;
  std::int64_t least = d.ns * 9;
  std::int64_t most = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t ns = random.jitter(d).ns;
    sum += ns;
    least = std::min(least, ns);
    most = std::max(most, ns);
  }
  CHECK(least >= d.ns / 2);
  CHECK(least < d.ns * 52 / 100);
  CHECK(most < d.ns * 3 / 2);
  CHECK(most > d.ns * 148 / 100);
  CHECK(std::abs(sum / 20000 - d.ns) < d.ns / 100);
  CHECK(random.jitter(Duration{0}) == Duration{0});
  CHECK(random.jitter(Duration{1}) == Duration{0});
}
