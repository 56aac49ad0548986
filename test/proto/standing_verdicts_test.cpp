// SPDX-License-Identifier: Apache-2.0
#include "proto/path/standing_verdicts.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

namespace hawser::proto {
namespace {

using Told = std::vector<std::pair<Event::Kind, Reason>>;

// Judges again and again while `supported`, `interval` apart.
struct Court {
  StandingVerdicts standing;
  Time now{1'000'000'000};
  Told told;

  bool judge(std::vector<Verdict> found, Reason against = Reason::none) {
    for (const Verdict& verdict : found) standing.support(verdict, now);
    return standing.settle(
        now, [&](const Verdict&) { return against; },
        [&](const Verdict&, Event::Kind kind, Reason reason) { told.emplace_back(kind, reason); });
  }
};

Verdict nic_verdict(std::uint8_t nic) {
  return {.blame = Blame::local_nic, .reason = Reason::witnesses, .nic = nic};
}

TEST_CASE("StandingVerdicts__a_verdict_is_told_after_so_long_and_so_many_looks", "[V4]") {
  Court court;
  for (std::uint32_t i = 0; i + 1 < StandingVerdicts::kLooks; ++i) {
    CHECK(court.judge({nic_verdict(1)}));
  }
  court.now = court.now + StandingVerdicts::kHold - Duration{1};
  CHECK(court.judge({nic_verdict(1)}));
  CHECK(court.told.empty());
  court.now = court.now + Duration{1};
  CHECK(court.judge({nic_verdict(1)}));
  CHECK(court.told == Told{{Event::Kind::verdict_reached, Reason::witnesses}});
  CHECK_FALSE(court.judge({nic_verdict(1)}));  // nothing moves any more
  std::array<Verdict, 2> out;
  REQUIRE(court.standing.told(out) == 1);
  CHECK(out[0].nic == 1);
}

TEST_CASE("StandingVerdicts__a_told_verdict_stands_until_something_contradicts_it", "[V4]") {
  Court court;
  for (std::uint32_t i = 0; i < StandingVerdicts::kLooks; ++i) {
    (void)court.judge({nic_verdict(1), nic_verdict(2)});
    court.now = court.now + StandingVerdicts::kHold;
  }
  REQUIRE(court.told.size() == 2);
  CHECK_FALSE(court.judge({nic_verdict(2)}));  // its witness is lost
  CHECK(court.told.size() == 2);
  CHECK(court.judge({nic_verdict(2)}, Reason::works_again));
  CHECK(court.told.back() == std::pair{Event::Kind::verdict_withdrawn, Reason::works_again});
  std::array<Verdict, 2> out;
  REQUIRE(court.standing.told(out) == 1);
  CHECK(out[0].nic == 2);
}

TEST_CASE("StandingVerdicts__one_that_was_not_told_goes_without_a_word", "[V4]") {
  Court court;
  (void)court.judge({nic_verdict(1)});
  CHECK_FALSE(court.standing.empty());
  CHECK(court.judge({}));
  CHECK(court.standing.empty());
  CHECK(court.told.empty());
}

TEST_CASE("StandingVerdicts__a_told_verdict_on_a_nic_explains_its_links") {
  Court court;
  const Verdict link{.blame = Blame::link, .nic = 1, .remote_nic = 3};
  (void)court.judge({nic_verdict(1)});
  CHECK_FALSE(court.standing.explains(link));
  for (std::uint32_t i = 0; i < StandingVerdicts::kLooks; ++i) {
    court.now = court.now + StandingVerdicts::kHold;
    (void)court.judge({nic_verdict(1)});
  }
  CHECK(court.standing.explains(link));
  CHECK_FALSE(court.standing.explains({.blame = Blame::link, .nic = 2, .remote_nic = 3}));
}

TEST_CASE("StandingVerdicts__beyond_the_most_none_is_kept") {
  Court court;
  for (std::uint32_t i = 0; i < StandingVerdicts::kMost + 1; ++i) {
    court.standing.support({.blame = Blame::link,
                            .nic = static_cast<std::uint8_t>(i % 16),
                            .remote_nic = static_cast<std::uint8_t>(i / 16)},
                           court.now);
  }
  for (std::uint32_t i = 0; i < StandingVerdicts::kLooks; ++i) {
    court.now = court.now + StandingVerdicts::kHold;
    for (std::uint32_t j = 0; j < StandingVerdicts::kMost; ++j) {
      court.standing.support({.blame = Blame::link,
                              .nic = static_cast<std::uint8_t>(j % 16),
                              .remote_nic = static_cast<std::uint8_t>(j / 16)},
                             court.now);
    }
    (void)court.judge({});
  }
  std::array<Verdict, StandingVerdicts::kMost + 1> out;
  CHECK(court.standing.told(out) == StandingVerdicts::kMost);
}

TEST_CASE("StandingVerdicts__judgements_are_rarer_while_nothing_changes_and_with_many_peers") {
  StandingVerdicts standing;
  Time now{1'000'000'000};
  CHECK(standing.at() == kNever);
  standing.want(now, 1);
  const Duration first = standing.at() - now;
  now = standing.at();
  standing.end(now, true, false, 1);
  CHECK(standing.at() - now == first * 2);
  now = standing.at();
  standing.end(now, true, true, 1);  // something moves
  CHECK(standing.at() - now == first);
  now = standing.at();
  standing.end(now, true, false, 100'000);
  CHECK(standing.at() - now == microseconds(50) * 100'000);
  standing.end(now, false, false, 1);  // no path is DOWN, and no verdict stands
  CHECK(standing.at() == kNever);
}

}  // namespace
}  // namespace hawser::proto
