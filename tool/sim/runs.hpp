// SPDX-License-Identifier: Apache-2.0
// The runs of an experiment, each in a process of its own, several side by side. Results are
// reported in the order of the runs, so that they don't depend on how many ran at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "sim/experiment/trial.hpp"

namespace hawser::tool {

struct RunName {
  std::size_t point = 0;
  std::size_t sender = 0;
  std::uint64_t seed = 0;
};

struct RunResult {
  RunName name;
  std::string failure;  // how its process ended without a result; empty: there is one
  experiment::Trial trial;
  double cpu_s = 0;
  std::uint64_t memory_bytes = 0;  // the most that its process had
};

using Work = std::function<experiment::Trial(const RunName&)>;

struct RunsEnd {
  std::size_t done = 0;
  bool interrupted = false;
};

// Calls take() for each run that has ended, in their order. It calls `interrupted` several times a
// second, and ends the current runs if that says so. Progress goes to `progress`, unless that is
// null. Throws std::runtime_error if there can be no workers. When it returns or throws, none is
// left.
[[nodiscard]] RunsEnd run_all(const std::vector<RunName>& runs, const Work& work, unsigned jobs,
                              const std::function<bool()>& interrupted, std::FILE* progress,
                              const std::function<void(RunResult&&)>& take);

}  // namespace hawser::tool
