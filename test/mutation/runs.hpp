// SPDX-License-Identifier: Apache-2.0
// Storms over a mutated proto/, each mutant in a process of its own: a bug may crash, or never end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hawser::mutation {

// A storm without any mutant: what a mutant is compared with.
struct Baseline {
  std::string verdict;
  std::uint64_t digest = 0;
  std::uint64_t events = 0;
  std::uint64_t cpu_ms = 0;
};
using Baselines = std::map<std::uint64_t, Baseline>;

// One storm of a child, or its end.
struct Report {
  enum class Kind : std::uint8_t { storm, crash, hang, end };
  Kind kind = Kind::end;
  std::uint64_t seed = 0;
  bool reached = false;  // the mutant's place
  Baseline result;       // crash: what it said of itself
};

struct Job {
  std::uint32_t mutant = 0;
  std::vector<std::uint64_t> seeds;
  // In the parent, for each report of this job. False: enough of it.
  std::function<bool(const Report&)> heard;
};

// Runs the seeds of each job, one after the other, in a process of its own, `at_once` jobs at a
// time. A storm that takes far longer than its baseline (a second, if it has none) is a hang.
void run_jobs(std::vector<Job> jobs, std::uint32_t at_once, const Baselines& baselines);

}  // namespace hawser::mutation
