// SPDX-License-Identifier: Apache-2.0
// The division of an all-reduce among ranks of unlike bandwidth, against the bound of any schedule.
#include "coll/mix.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::Bandwidth;
using coll::Mix;

constexpr std::uint64_t kElements = std::uint64_t{1} << 40;

// No schedule is faster: each rank moves all data once, and all together move it 2(p-1) times.
double bound(const std::vector<Bandwidth>& ascending) {
  const auto p = static_cast<double>(ascending.size());
  const auto sum = static_cast<double>(std::accumulate(ascending.begin(), ascending.end(), 0));
  return std::max(1.0 / ascending.front(), (2 * p - 2) / sum);
}

// The time that the mix takes in the fluid model, for a byte of data.
double time_of(const std::vector<Bandwidth>& ascending, const Mix& mix) {
  const auto p = static_cast<double>(ascending.size());
  double longest = 0;
  for (std::size_t place = 0; place < ascending.size(); ++place) {
    double moved = 0;
    for (const Mix::Part& part : mix.parts()) {
      const double share = static_cast<double>(part.elements) / static_cast<double>(kElements);
      const bool is_attached = place < part.attached;
      moved += share * (is_attached ? 1 : 1 + (p - 2) / (p - part.attached));
    }
    longest = std::max(longest, moved / ascending[place]);
  }
  return longest;
}

std::vector<Bandwidth> sorted(std::vector<Bandwidth> bandwidths) {
  std::sort(bandwidths.begin(), bandwidths.end());
  return bandwidths;
}

void check_parts(const Mix& mix, std::uint64_t elements) {
  std::uint64_t end = 0;
  for (const Mix::Part& part : mix.parts()) {
    CHECK(part.begin == end);
    CHECK(part.elements > 0);
    end += part.elements;
  }
  CHECK(end == elements);
}

TEST_CASE("mix: the published case of one rank with three quarters of its bandwidth") {
  std::vector<Bandwidth> bandwidths(8, 16);
  bandwidths[0] = 12;
  const Mix mix(bandwidths, kElements, 16, 64);
  REQUIRE(mix.parts().size() == 2);
  CHECK(mix.parts()[0].attached == 0);
  CHECK(mix.parts()[1].attached == 1);
  CHECK(static_cast<double>(mix.parts()[0].elements) / kElements ==
        Approx(88.0 / 186).epsilon(1e-6));
  const double ring = 2.0 * 7 / 8 / 16;  // without a fault
  CHECK(time_of(bandwidths, mix) / ring == Approx(1.0323).epsilon(1e-4));
  CHECK(time_of(bandwidths, mix) == Approx(bound(bandwidths)).epsilon(1e-6));
  CHECK(mix.streams() == 3);
}

TEST_CASE("mix: equal ranks, and two of any kind, have the ring alone") {
  for (const auto& bandwidths : {std::vector<Bandwidth>(5, 7), std::vector<Bandwidth>{1, 16}}) {
    const Mix mix(bandwidths, 1000, 16, 2);
    REQUIRE(mix.parts().size() == 1);
    CHECK(mix.parts()[0].attached == 0);
    check_parts(mix, 1000);
  }
}

TEST_CASE("mix: it reaches the bound with up to three bandwidths, for any number of ranks") {
  for_each_seed(300, [](proto::Random& random) {
    const std::uint64_t ranks = 3 + random.below(random.below(2) == 0 ? 6 : 300);
    std::vector<Bandwidth> kinds(1 + random.below(3));
    for (Bandwidth& one : kinds) one = static_cast<Bandwidth>(1 + random.below(16));
    std::vector<Bandwidth> bandwidths(ranks);
    for (Bandwidth& one : bandwidths) one = kinds[random.below(kinds.size())];
    bandwidths = sorted(bandwidths);
    const Mix mix(bandwidths, kElements, 16, 64);
    check_parts(mix, kElements);
    CHECK(time_of(bandwidths, mix) <= bound(bandwidths) * (1 + 1e-6));
    CHECK(time_of(bandwidths, mix) >= bound(bandwidths) * (1 - 1e-6));
  });
}

TEST_CASE("mix: with many bandwidths it is near the bound, and never slower than the ring") {
  for_each_seed(300, [](proto::Random& random) {
    std::vector<Bandwidth> bandwidths(3 + random.below(60));
    for (Bandwidth& one : bandwidths) one = static_cast<Bandwidth>(1 + random.below(16));
    bandwidths = sorted(bandwidths);
    const Mix mix(bandwidths, kElements, 16, 64);
    const auto p = static_cast<double>(bandwidths.size());
    CHECK(mix.parts().size() <= Mix::kMostParts);
    CHECK(time_of(bandwidths, mix) <= 2 * (p - 1) / p / bandwidths.front() * (1 + 1e-6));
    CHECK(time_of(bandwidths, mix) <= bound(bandwidths) * 1.5);
  });
}

TEST_CASE("mix: few streams and few elements are enough") {
  for_each_seed(200, [](proto::Random& random) {
    std::vector<Bandwidth> bandwidths(3 + random.below(10));
    for (Bandwidth& one : bandwidths) one = static_cast<Bandwidth>(1 + random.below(16));
    bandwidths = sorted(bandwidths);
    const auto most = static_cast<std::uint32_t>(2 + random.below(6));
    const std::uint64_t elements = random.below(200);
    const Mix mix(bandwidths, elements, 16, most);
    CHECK(mix.streams() <= most);
    check_parts(mix, elements);
    for (const Mix::Part& part : mix.parts()) {
      CHECK(part.attached < bandwidths.size());
      CHECK((part.begin % 16 == 0));
    }
  });
}

}  // namespace
}  // namespace hawser::test
