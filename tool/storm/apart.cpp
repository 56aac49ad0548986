// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/apart.hpp"

#include <array>

#include "tool/run/clock.hpp"
#include "tool/storm/forked.hpp"
#include "tool/storm/overtime.hpp"

namespace hawser::tool {
namespace {

// The results that the copy leaves.
struct Left {
  bool ended = false;
  std::array<char, 1024> verdict{};
  std::uint64_t digest = 0;
  std::uint64_t packets = 0;
  std::uint64_t events = 0;
  std::uint64_t completions = 0;
  std::uint64_t failed_sessions = 0;
  proto::Duration lasted{};
  proto::Duration after_healing{};
  std::array<std::uint32_t, sim::kFaultKinds> faults{};
};

constexpr double kLookS = 0.05;
constexpr double kGraceS = 10;  // to wait for a killed process

// Waits until the process ends, is interrupted or must be ended.
void wait_for(Forked& process, double limit_s, const std::function<bool()>& interrupted,
              ApartOutcome& outcome) {
  Overtime overtime(limit_s);
  while (!process.wait(kLookS)) {
    outcome.interrupted = interrupted();
    outcome.verdict = overtime.look(now_ns(), process.cpu_ns(), 0);
    if (!outcome.interrupted && outcome.verdict.empty()) continue;
    if (outcome.interrupted) outcome.verdict.clear();
    process.kill();
    (void)process.wait(kGraceS);
    return;
  }
  outcome.verdict = process.failure();
}

}  // namespace

Storm make_storm(std::size_t sought) {
  return [sought](const sim::Plan& plan, sim::Recording* recording) {
    sim::StormOutcome outcome = sim::run_storm(plan, recording);
    if (outcome.verdict.empty() && sought < sim::kCensusCells &&
        outcome.census.counts[sought] > 0) {
      outcome.verdict = "visited " + sim::census_cell_name(sought);
    }
    return outcome;
  };
}

ApartOutcome run_apart(const sim::Plan& plan, const Storm& storm, double limit_s,
                       const std::function<bool()>& interrupted, sim::Recording* recording) {
  const std::uint64_t began = now_ns();
  const Shared<Left> left;
  Forked process([&] {
    const sim::StormOutcome outcome = storm(plan, recording);
    outcome.verdict.copy(left->verdict.data(), left->verdict.size() - 1);
    left->digest = outcome.digest;
    left->packets = outcome.packets;
    left->events = outcome.events;
    left->completions = outcome.completions;
    left->failed_sessions = outcome.failed_sessions;
    left->lasted = outcome.lasted;
    left->after_healing = outcome.after_healing;
    left->faults = outcome.faults;
    left->ended = true;
  });
  ApartOutcome outcome;
  wait_for(process, limit_s, interrupted, outcome);
  outcome.last_words = process.last_words();
  if (outcome.verdict.empty() && !outcome.interrupted) {
    outcome.verdict = left->verdict.data();
    outcome.ended = left->ended;
  }
  outcome.digest = left->digest;
  outcome.packets = left->packets;
  outcome.events = left->events;
  outcome.completions = left->completions;
  outcome.failed_sessions = left->failed_sessions;
  outcome.lasted = left->lasted;
  outcome.after_healing = left->after_healing;
  outcome.faults = left->faults;
  outcome.wall_s = seconds(now_ns() - began);
  return outcome;
}

}  // namespace hawser::tool
