// SPDX-License-Identifier: Apache-2.0
// Swarms whose storms do what no storm should: fail, crash, throw, never end.
#include "tool/storm/swarm.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <set>
#include <stdexcept>

#include "proto/base/assert.hpp"
#include "sim/storm/shrink.hpp"
#include "test/support/hang_limit.hpp"
#include "tool/run/clock.hpp"
#include "tool/storm/forked.hpp"
#include "tool/storm/report.hpp"

namespace hawser::tool {
namespace {

SwarmOptions options_of(std::uint64_t first, std::uint64_t last, unsigned jobs = 2) {
  SwarmOptions options;
  options.first = first;
  options.last = last;
  options.jobs = jobs;
  options.keep_going = true;
  return options;
}

SwarmResult run(const SwarmOptions& options, const Storm& storm) {
  return run_swarm(
      options, storm, [] { return false; }, nullptr);
}

// Runs for a short time until so many seeds are done. A machine that stands still gets more time.
SwarmResult run_briefly(SwarmOptions options, const Storm& storm, std::uint64_t done) {
  SwarmResult result;
  for (options.seconds = 0.2; options.seconds < 60; options.seconds *= 10) {
    result = run(options, storm);
    if (result.done >= done) break;
  }
  return result;
}

[[noreturn]] void never_ends() {
  for (std::atomic<std::uint64_t> i{0};; ++i) {
  }
}

// A storm that takes no time, with as many packets as its seed.
sim::StormOutcome quick(const sim::Plan& plan) {
  sim::StormOutcome outcome;
  outcome.packets = plan.seed;
  for (const sim::FaultPlan& fault : plan.faults) {
    ++outcome.faults[static_cast<std::size_t>(fault.kind)];
  }
  return outcome;
}

const FailureKind& kind(const SwarmResult& result, std::string_view text) {
  const auto found = std::ranges::find_if(result.kinds, [&](const FailureKind& one) {
    return one.first.verdict.find(text) != std::string::npos;
  });
  INFO(text);
  REQUIRE(found != result.kinds.end());
  return *found;
}

bool never() { return false; }

TEST_CASE("storm_swarm__every_seed_runs_once_whatever_the_number_of_workers") {
  for (const unsigned jobs : {1u, 3u, 50u}) {
    const SwarmResult result =
        run(options_of(5, 30, jobs), [](const sim::Plan& plan, auto*) { return quick(plan); });
    CAPTURE(jobs);
    CHECK(result.done == 26);
    CHECK(result.totals.runs == 26);
    CHECK(result.failures == 0);
    CHECK(result.totals.of(Quantity::packets).sum() == 26 * (5 + 30) / 2);
    CHECK(result.totals.of(Quantity::packets).least() == 5);
    CHECK(result.totals.of(Quantity::packets).most() == 30);
    CHECK_FALSE(result.goes_on_at);
  }
}

TEST_CASE("storm_swarm__a_crash_a_hang_and_a_wrong_verdict_are_failures_of_their_seeds") {
  SwarmOptions options = options_of(1, 40);
  options.limit_s = 1;
  const SwarmResult result = run(options, [](const sim::Plan& plan, auto*) {
    if (plan.seed == 4) HAWSER_ASSERT(plan.seed != 4, "as the test wants it");
    if (plan.seed == 9) std::abort();
    if (plan.seed == 11) throw std::runtime_error("too much");
    if (plan.seed == 13) {
      (void)std::signal(SIGSEGV, SIG_DFL);  // not the test framework's handler
      (void)std::raise(SIGSEGV);
    }
    if (plan.seed == 17) {
      never_ends();
    }
    sim::StormOutcome outcome = quick(plan);
    if (plan.seed % 10 == 0) {
      outcome.verdict = "message " + std::to_string(plan.seed * 7) + " never completed";
    }
    return outcome;
  });
  CHECK(result.done == 40);
  CHECK(result.failures == 9);
  CHECK(result.totals.runs == 35);  // the storms that ended
  REQUIRE(result.kinds.size() == 6);
  const FailureKind& assertion = kind(result, "storm_swarm_test.cpp");
  CHECK(assertion.seeds == std::vector<std::uint64_t>{4});
  CHECK(assertion.first.verdict.find("(as the test wants it)") != std::string::npos);
  CHECK(assertion.first.last_words.find("assertion failed") != std::string::npos);
  CHECK(kind(result, "died of signal 6").seeds == std::vector<std::uint64_t>{9});
  CHECK(kind(result, "threw: too much").seeds == std::vector<std::uint64_t>{11});
  CHECK(kind(result, "no end within 1 s").seeds == std::vector<std::uint64_t>{17});
  const FailureKind& wrong = kind(result, "never completed");
  CHECK(wrong.count == 4);
  CHECK(wrong.kind == "message # never completed");
  std::vector<std::uint64_t> seeds = wrong.seeds;
  std::ranges::sort(seeds);
  CHECK(seeds == std::vector<std::uint64_t>{10, 20, 30, 40});

  const std::string text = to_text(options, result, {"./hawser storm", " --seek x:y", ""});
  CHECK(text.find("9 of 40 seeds FAILED") != std::string::npos);
  CHECK(text.find("./hawser storm --seed 17 --seek x:y --trace\n") != std::string::npos);
  CHECK(text.find("./hawser storm --seed 4 --seek x:y --shrink\n") != std::string::npos);
}

TEST_CASE("storm_swarm__stops_at_the_first_failure") {
  SwarmOptions options = options_of(1, 1'000'000);
  options.keep_going = false;
  for (const bool crash : {false, true}) {
    const SwarmResult result = run(options, [crash](const sim::Plan& plan, auto*) {
      sim::StormOutcome outcome = quick(plan);
      if (plan.seed != 50) return outcome;
      if (crash) std::abort();
      outcome.verdict = "wrong";
      return outcome;
    });
    CHECK(result.failures == 1);
    REQUIRE(result.kinds.size() == 1);
    CHECK(result.kinds[0].seeds == std::vector<std::uint64_t>{50});
    CHECK(result.done < 100000);
    REQUIRE(result.goes_on_at);
    CHECK(*result.goes_on_at > 50);
    CHECK(*result.goes_on_at <= result.done + 2);
  }
}

TEST_CASE("storm_swarm__ends_when_its_time_is_over_or_it_is_interrupted") {
  SwarmOptions options = options_of(1, 1'000'000'000'000);
  const Storm storm = [](const sim::Plan& plan, auto*) { return quick(plan); };
  const SwarmResult late = run_briefly(options, storm, 1);
  CHECK(late.done > 0);
  CHECK(late.failures == 0);
  CHECK_FALSE(late.interrupted);
  CHECK(late.goes_on_at == late.done + 1);
  options.seconds = 0;
  int asked = 0;
  const SwarmResult stopped = run_swarm(
      options, storm, [&] { return ++asked > 3; }, nullptr);
  CHECK(stopped.interrupted);
  CHECK(stopped.totals.runs == stopped.done);
  CHECK(stopped.goes_on_at == stopped.done + 1);
}

// At the end of its time the swarm neither waits for running storms nor counts them.
TEST_CASE("storm_swarm__an_endless_storm_does_not_outlast_the_swarm") {
  SwarmOptions options = options_of(1, 1000, 2);
  options.limit_s = 1000;
  const Storm storm = [](const sim::Plan& plan, auto*) {
    if (plan.seed == 3) {
      never_ends();
    }
    return quick(plan);
  };
  const SwarmResult result = run_briefly(options, storm, 2);
  CHECK(result.failures == 0);
  CHECK(result.goes_on_at == 3);
}

// The running workers take all processors while the swarm starts others. It must start few at a
// time, and none once it is to end.
TEST_CASE("storm_swarm__many_workers_do_not_keep_it_from_ending") {
  constexpr unsigned kLooks = 5;
  const Shared<std::atomic<unsigned>> begun;
  unsigned asked = 0;
  const std::uint64_t began = now_ns();
  const SwarmResult stopped = run_swarm(
      options_of(1, 1'000'000'000, 300),
      [&](const sim::Plan&, auto*) -> sim::StormOutcome {
        ++*begun;
        never_ends();
      },
      [&] { return ++asked >= kLooks; }, nullptr);
  CHECK(stopped.interrupted);
  CHECK(stopped.totals.runs == 0);
  CHECK(stopped.goes_on_at == 1);
  CHECK(*begun <= 4 * kLooks);
  CHECK(stopped.wall_s <= seconds(now_ns() - began));
}

// A storm that waits for a processor on a busy machine must not count as late. These storms wait
// for a byte that comes late.
TEST_CASE("storm_swarm__the_limit_is_of_cpu_time") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  SwarmOptions options = options_of(1, 2);
  options.limit_s = 0.1;
  const Storm storm = [&](const sim::Plan& plan, auto*) {
    char byte = 0;
    CHECK(::read(ends[0], &byte, 1) == 1);
    return quick(plan);
  };
  std::uint64_t told = 0;
  const std::uint64_t began = now_ns();
  const SwarmResult result = run_swarm(
      options, storm,
      [&] {
        if (told < 2 && seconds(now_ns() - began) > 5 * options.limit_s) {
          ++told;
          CHECK(::write(ends[1], "x", 1) == 1);
        }
        return false;
      },
      nullptr);
  CHECK(told == 2);
  CHECK(result.failures == 0);
  CHECK(result.totals.runs == 2);
  CHECK(::close(ends[0]) == 0);
  CHECK(::close(ends[1]) == 0);
}

TEST_CASE("storm_swarm__kinds_are_verdicts_without_their_numbers") {
  CHECK(kind_of("message 17 (0 to 1, tag 3, 20000 bytes) never completed") ==
        "message # (# to #, tag #, # bytes) never completed");
  CHECK(kind_of("") == "");
  CHECK(kind_of("x") == "x");
}

TEST_CASE("storm_forked__only_the_end_of_what_it_wrote_is_kept") {
  Forked process([] {
    for (int i = 0; i < 100000; ++i) std::fprintf(stderr, "line %d\n", i);
    std::abort();
  });
  REQUIRE(process.wait(test::kHangLimitMs / 1000));
  CHECK(process.last_words().ends_with("line 99999\n"));
  CHECK(process.last_words().size() <= 2 * 4096);
  CHECK(process.failure().starts_with("died of signal 6"));
  Forked silent([] {});
  REQUIRE(silent.wait(test::kHangLimitMs / 1000));
  CHECK(silent.failure().empty());
}

TEST_CASE("storm_apart__tells_of_an_end_and_of_none") {
  const sim::Plan plan = sim::draw_plan(2);
  const Storm storm = make_storm(sim::kCensusCells);
  const ApartOutcome outcome = run_apart(plan, storm, 60, never);
  const sim::StormOutcome here = sim::run_storm(plan);
  CHECK(outcome.ended);
  CHECK(outcome.verdict.empty());
  CHECK(outcome.digest == here.digest);
  CHECK(outcome.packets == here.packets);
  CHECK(outcome.faults == here.faults);
  const ApartOutcome hung = run_apart(
      plan, [](const sim::Plan&, auto*) -> sim::StormOutcome { never_ends(); }, 0.1, never);
  CHECK_FALSE(hung.ended);
  CHECK(hung.verdict == "no end within 0.1 s of CPU time");
  CHECK(make_storm(sim::find_census_cell("session_state:ready"))(plan, nullptr).verdict ==
        "visited session_state:ready");
}

TEST_CASE("storm_apart__is_given_up_when_it_is_interrupted") {
  const test::HangLimit limit;
  int asked = 0;
  const ApartOutcome outcome = run_apart(
      sim::draw_plan(2), [](const sim::Plan&, auto*) -> sim::StormOutcome { never_ends(); }, 1000,
      [&] { return ++asked > 2; });
  CHECK(outcome.interrupted);
  CHECK_FALSE(outcome.ended);
  CHECK(outcome.verdict == "");
  CHECK_FALSE(limit.is_over());
}

// An assertion and an endless loop are verdicts like any other.
TEST_CASE("storm_apart__what_crashes_or_never_ends_can_be_shrunk") {
  sim::Plan plan = sim::draw_plan(5);
  plan.messages.resize(6);
  plan.receives.clear();
  plan.faults.resize(3);
  for (sim::MessagePlan& message : plan.messages) message.bytes = 10;
  plan.messages[4].bytes = 3000;
  for (const bool crash : {true, false}) {
    const Storm storm = [crash](const sim::Plan& some, auto*) {
      const bool large = std::ranges::any_of(
          some.messages, [](const sim::MessagePlan& message) { return message.bytes > 2000; });
      HAWSER_ASSERT(!(crash && large && !some.faults.empty()));
      if (!crash && large && !some.faults.empty()) never_ends();
      return quick(some);
    };
    const auto verdict = [&](const sim::Plan& some) {
      return kind_of(run_apart(some, storm, crash ? 60 : 0.5, never).verdict);
    };
    const std::string wanted = verdict(plan);
    CAPTURE(wanted);
    CHECK(wanted.find(crash ? "assertion failed" : "no end within") != std::string::npos);
    sim::Shrinker shrinker([&](const sim::Plan& some) { return verdict(some) == wanted; },
                           [](std::string_view, std::size_t, std::size_t) {}, 18);
    const sim::Plan small = shrinker.shrink(plan);
    CHECK(small.faults.size() == 1);
    CHECK(small.messages.size() == 1);
  }
}

}  // namespace
}  // namespace hawser::tool
