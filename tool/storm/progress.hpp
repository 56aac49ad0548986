// SPDX-License-Identifier: Apache-2.0
// The progress of a swarm.
#pragma once

#include <cstdint>
#include <cstdio>

#include "tool/progress_line.hpp"

namespace hawser::tool {

class SwarmProgress {
 public:
  // `out` may be null. `seconds`: when the swarm is to end; 0: when all of `count` are done.
  SwarmProgress(std::FILE* out, std::uint64_t count, double seconds);

  // Shows the progress if it is time for it. All numbers are sums from the start.
  void show(std::uint64_t now, std::uint64_t done, std::uint64_t packets, std::uint64_t failures);

 private:
  ProgressLine line_;
  std::uint64_t count_;
  double seconds_;
  std::uint64_t began_ns_;
  std::uint64_t shown_done_ = 0;
  std::uint64_t shown_packets_ = 0;
};

}  // namespace hawser::tool
