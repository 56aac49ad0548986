// SPDX-License-Identifier: Apache-2.0
// Many storms in forked workers, one seed after the other. A crash or endless loop is a failure of
// its seed, not of the swarm.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tool/storm/apart.hpp"
#include "tool/storm/totals.hpp"

namespace hawser::tool {

struct SwarmOptions {
  std::uint64_t first = 1;
  std::uint64_t last = 1;  // below 2^64 - 1
  unsigned jobs = 1;
  bool keep_going = false;
  double seconds = 0;   // 0: until all seeds are done
  double limit_s = 60;  // of one seed, in CPU time
};

struct Failure {
  std::uint64_t seed = 0;
  std::string verdict;
  std::string last_words;  // the output of a worker that died of it
};

// Failures that differ in nothing but numbers.
struct FailureKind {
  static constexpr std::size_t kMostSeeds = 20;  // at most this many are named
  std::string kind;
  std::uint64_t count = 0;
  std::vector<std::uint64_t> seeds;
  Failure first;
};
// The verdict with every number replaced by #.
[[nodiscard]] std::string kind_of(std::string_view verdict);

struct SwarmResult {
  Totals totals;
  std::uint64_t done = 0;  // seeds, failures included
  std::uint64_t failures = 0;
  std::vector<FailureKind> kinds;  // in the order in which they were found
  std::uint64_t unnamed = 0;       // failures of more kinds than are kept
  double wall_s = 0;
  bool interrupted = false;
  // The first seed that was not done, if it was ended early.
  std::optional<std::uint64_t> goes_on_at;
};

// `interrupted` is called several times a second; progress goes to `progress`, unless it is null.
// Throws std::runtime_error if there can be no workers.
[[nodiscard]] SwarmResult run_swarm(const SwarmOptions& options, const Storm& storm,
                                    const std::function<bool()>& interrupted, std::FILE* progress);

}  // namespace hawser::tool
