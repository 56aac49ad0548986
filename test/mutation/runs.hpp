// SPDX-License-Identifier: Apache-2.0
// Storms over a mutated proto/. Each mutant has its own process, since it may crash or never end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hawser::mutation {

// A storm without any mutant, to compare mutants with.
struct Baseline {
  std::string verdict;
  std::uint64_t digest = 0;
  std::uint64_t events = 0;
  std::uint64_t cpu_ms = 0;
};
using Baselines = std::map<std::uint64_t, Baseline>;

// The report about one storm of a child, or about the child's end.
struct Report {
  enum class Kind : std::uint8_t { storm, crash, hang, end };
  Kind kind = Kind::end;
  std::uint64_t seed = 0;
  bool reached = false;  // the mutant's place
  Baseline result;       // after a crash its verdict is the error message
};

struct Job {
  std::uint32_t mutant = 0;
  std::vector<std::uint64_t> seeds;
  // Called in the parent for each report of this job. False ends the job.
  std::function<bool(const Report&)> heard;
};

// Runs the seeds of each job one after the other in a process of its own, and `at_once` jobs at a
// time. A storm that takes far longer than its baseline (a second, if it has none) counts as a
// hang.
void run_jobs(std::vector<Job> jobs, std::uint32_t at_once, const Baselines& baselines);

}  // namespace hawser::mutation
