// SPDX-License-Identifier: Apache-2.0
#include "tool/run/verdicts.hpp"

#include <catch2/catch.hpp>

namespace hawser::tool {
namespace {

using Change = PathChange::Kind;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kToTheEnd = VerdictSpan::kToTheEnd;

std::vector<VerdictSpan> spans_of(const std::vector<std::vector<PathChange>>& ranks) {
  std::vector<RankPaths> paths;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) paths.push_back({rank, ranks[rank]});
  return verdicts_of(paths);
}

TEST_CASE("verdicts: what paths do is no verdict") {
  CHECK(spans_of({}).empty());
  CHECK(
      spans_of({{{Change::path_down, kMs, 0, 1, 0}, {Change::driver_down, kMs, 0, 0, 0}}}).empty());
}

TEST_CASE("verdicts: a rank speaks of its own NIC, of another's, or of a link") {
  const auto spans = spans_of({{{Change::blamed, 1 * kMs, 2, 0, 0, Blame::local_nic},
                                {Change::blamed, 2 * kMs, 0, 1, 3, Blame::remote_nic},
                                {Change::blamed, 3 * kMs, 1, 1, 1, Blame::link}}});
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].verdict == FaultVerdict{Blame::local_nic, {0, 2}, {}});
  CHECK(spans[0].verdict.blames({0, 2}));
  CHECK(spans[1].verdict == FaultVerdict{Blame::remote_nic, {}, {1, 3}});
  CHECK(spans[1].verdict.blames({1, 3}));
  CHECK(spans[2].verdict == FaultVerdict{Blame::link, {0, 1}, {1, 1}});
  CHECK_FALSE(spans[2].verdict.blames({0, 1}));
  for (const VerdictSpan& span : spans) CHECK(span.to_ns == kToTheEnd);
}

TEST_CASE("verdicts: from the first rank that says so to the last") {
  const auto spans = spans_of({{{Change::blamed, 10 * kMs, 0, 2, 1, Blame::remote_nic},
                                {Change::cleared, 50 * kMs, 0, 2, 1, Blame::remote_nic}},
                               {{Change::blamed, 12 * kMs, 1, 2, 1, Blame::remote_nic},
                                {Change::cleared, 70 * kMs, 1, 2, 1, Blame::remote_nic},
                                {Change::blamed, 90 * kMs, 1, 2, 1, Blame::remote_nic}}});
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].from_ns == 10 * kMs);
  CHECK(spans[0].to_ns == 70 * kMs);
  CHECK(spans[1].from_ns == 90 * kMs);
  CHECK(spans[1].to_ns == kToTheEnd);
}

TEST_CASE("verdicts: a link is one, whichever end sees it") {
  const auto spans = spans_of({{{Change::blamed, 10 * kMs, 1, 1, 2, Blame::link}},
                               {{Change::blamed, 11 * kMs, 2, 0, 1, Blame::link}}});
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].verdict == FaultVerdict{Blame::link, {0, 1}, {1, 2}});
}

}  // namespace
}  // namespace hawser::tool
