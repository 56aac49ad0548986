// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/progress.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tool/run/clock.hpp"

namespace hawser::tool {

SwarmProgress::SwarmProgress(std::FILE* out, std::uint64_t count, double limit_s)
    : line_(out), count_(count), seconds_(limit_s), began_ns_(line_.shown_ns()) {}

void SwarmProgress::show(std::uint64_t now, std::uint64_t done, std::uint64_t packets,
                         std::uint64_t failures) {
  if (!line_.is_due(now)) return;
  const double passed = seconds(now - line_.shown_ns());
  double share = static_cast<double>(done) / static_cast<double>(count_);
  if (seconds_ > 0) share = std::max(share, std::min(1.0, seconds(now - began_ns_) / seconds_));
  line_.show(now,
             fmt::format("{:3.0f}%  {} seeds  {:.1f} runs/s  {:.0f} k packets/s  {} failed",
                         100 * share, done, static_cast<double>(done - shown_done_) / passed,
                         1e-3 * static_cast<double>(packets - shown_packets_) / passed, failures));
  shown_done_ = done;
  shown_packets_ = packets;
}

}  // namespace hawser::tool
