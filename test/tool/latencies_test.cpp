// SPDX-License-Identifier: Apache-2.0
#include "tool/run/latencies.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace hawser::tool {
namespace {

TEST_CASE("latencies: percentiles are exact to 1/32, and never above the longest") {
  LatencyCounts counts;
  CHECK(counts.percentile(50) == 0);
  for (std::uint64_t ns = 1; ns <= 100'000; ++ns) counts.add(ns);
  CHECK(counts.count() == 100'000);
  for (const double percent : {1.0, 50.0, 99.0, 99.9}) {
    CAPTURE(percent);
    const auto exact = static_cast<std::uint64_t>(percent * 1000);
    CHECK(counts.percentile(percent) >= exact);
    CHECK(counts.percentile(percent) <= exact + exact / 32 + 1);
  }
  CHECK(counts.percentile(100) == 100'000);
}

TEST_CASE("latencies: each time alone, from nothing to the largest number") {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t ns :
         {std::uint64_t{1} << bit, (std::uint64_t{1} << bit) - 1, ~std::uint64_t{0} >> bit}) {
      CAPTURE(ns);
      LatencyCounts counts;
      counts.add(ns);
      CHECK(counts.percentile(50) == ns);
      counts.add(~std::uint64_t{0});
      CHECK(counts.percentile(50) >= ns);
      CHECK(counts.percentile(50) - ns <= ns / 32);
    }
  }
}

TEST_CASE("latencies: ranks add up, by kind and by part of the run") {
  OperationTimes a;
  OperationTimes b;
  a.at(OneSidedKind::write, When::before).add(10);
  b.at(OneSidedKind::write, When::before).add(30);
  b.at(OneSidedKind::read, When::during).add(7);
  a.add(b);
  CHECK(a.at(OneSidedKind::write, When::before).count() == 2);
  CHECK(a.at(OneSidedKind::write, When::before).percentile(50) == 10);
  CHECK(a.at(OneSidedKind::write, When::before).longest_ns() == 30);
  CHECK(a.at(OneSidedKind::read, When::during).count() == 1);
  CHECK(a.at(OneSidedKind::read, When::before).count() == 0);
  const nlohmann::json json = a;
  OperationTimes back;
  json.get_to(back);
  CHECK(back.at(OneSidedKind::write, When::before).count() == 2);
  CHECK(back.at(OneSidedKind::write, When::before).longest_ns() == 30);
  CHECK(back.at(OneSidedKind::read, When::during).percentile(50) == 7);
  CHECK(nlohmann::json(back) == json);
}

}  // namespace
}  // namespace hawser::tool
