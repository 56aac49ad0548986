// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/overtime.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tool/run/clock.hpp"

namespace hawser::tool {

std::string Overtime::look(std::uint64_t now, std::uint64_t cpu_ns, std::uint64_t cpu_at_begin_ns) {
  if (looked_ns_ == 0 || cpu_ns != cpu_ns_) {
    still_ns_ = 0;
  } else {
    still_ns_ += std::min(now - looked_ns_, kMostBetweenNs);
  }
  looked_ns_ = now;
  cpu_ns_ = cpu_ns;
  if (cpu_ns > cpu_at_begin_ns && seconds(cpu_ns - cpu_at_begin_ns) > limit_s_) {
    return fmt::format("no end within {} s of CPU time", limit_s_);
  }
  const double most_still_s = std::max(limit_s_, kStillS);
  if (seconds(still_ns_) <= most_still_s) return {};
  return fmt::format("no end, and no CPU time used for {} s", most_still_s);
}

}  // namespace hawser::tool
