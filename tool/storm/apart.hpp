// SPDX-License-Identifier: Apache-2.0
// One storm in a process of its own, so that it may crash or never end and still be told of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/storm/storm.hpp"

namespace hawser::tool {

// One storm; the recording may be null. What it does to its process happens to a worker.
using Storm = std::function<sim::StormOutcome(const sim::Plan&, sim::Recording*)>;

// That of the simulator. `sought`: a cell of the census whose visit counts as a failure;
// kCensusCells: none.
[[nodiscard]] Storm make_storm(std::size_t sought);

struct ApartOutcome {
  std::string verdict;       // of the judge, or how its process ended; empty: nothing was wrong
  std::string last_words;    // what that wrote to standard error
  bool ended = false;        // it came to its end, and the rest means something
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

// Ends it after limit_s of CPU time (overtime.hpp), and when `interrupted`, which is asked several
// times a second, says so. A recording's memory and count must be Shared (forked.hpp).
[[nodiscard]] ApartOutcome run_apart(const sim::Plan& plan, const Storm& storm, double limit_s,
                                     const std::function<bool()>& interrupted,
                                     sim::Recording* recording = nullptr);

}  // namespace hawser::tool
