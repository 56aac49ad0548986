// SPDX-License-Identifier: Apache-2.0
// One storm: a plan is carried out from its first event to the moment when nothing is left to do,
// and judged.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "hawser/stats.hpp"
#include "sim/storm/census.hpp"
#include "sim/storm/plan.hpp"
#include "sim/storm/recording.hpp"

namespace hawser::sim {

struct StormOutcome {
  std::string verdict;       // the first violation; empty if there is none
  std::uint64_t digest = 0;  // equal for equal runs
  std::uint64_t events = 0;
  std::uint64_t frames = 0;   // that entered a cable
  std::uint64_t packets = 0;  // of these frames, those that came from a NIC
  std::uint64_t turns = 0;
  std::uint64_t completions = 0;
  std::uint64_t failed_sessions = 0;
  proto::Duration lasted{};
  proto::Duration after_healing{};
  std::array<std::uint32_t, kFaultKinds> faults{};  // that began, by kind
  Census census;
};

[[nodiscard]] StormOutcome run_storm(const Plan& plan, Recording* recording = nullptr);

}  // namespace hawser::sim
