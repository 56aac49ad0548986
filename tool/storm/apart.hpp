// SPDX-License-Identifier: Apache-2.0
// One storm in a process of its own, so that its crash or endless loop can be reported.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/storm/storm.hpp"

namespace hawser::tool {

// Runs one storm; the recording may be null. Its process is a worker, so a crash hits only that
// one.
using Storm = std::function<sim::StormOutcome(const sim::Plan&, sim::Recording*)>;

// The simulator's storm. `sought`: a cell of the census whose visit counts as a failure;
// kCensusCells: none.
[[nodiscard]] Storm make_storm(std::size_t sought);

struct ApartOutcome {
  std::string verdict;       // of the judge, or how its process ended; empty: nothing was wrong
  std::string last_words;    // what that process wrote to standard error
  bool ended = false;        // it ran to its end, and the rest is valid
  bool interrupted = false;  // it was given up, and has no verdict
  std::uint64_t digest = 0;
  std::uint64_t packets = 0;
  std::uint64_t events = 0;
  std::uint64_t completions = 0;
  std::uint64_t failed_sessions = 0;
  proto::Duration lasted{};
  proto::Duration after_healing{};
  std::array<std::uint32_t, sim::kFaultKinds> faults{};
  double wall_s = 0;
};

// Ends the storm after limit_s of CPU time (overtime.hpp), or when `interrupted` says so, which is
// called several times a second. A recording's memory and count must be Shared (forked.hpp).
[[nodiscard]] ApartOutcome run_apart(const sim::Plan& plan, const Storm& storm, double limit_s,
                                     const std::function<bool()>& interrupted,
                                     sim::Recording* recording = nullptr);

}  // namespace hawser::tool
