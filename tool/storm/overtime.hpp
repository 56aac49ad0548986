// SPDX-License-Identifier: Apache-2.0
// Whether a storm runs for ever. The verdict goes by the CPU time that it has used, not by a clock
// on the wall. A machine that has other things to do, or stops this one, makes no storm endless.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::tool {

class Overtime {
 public:
  // A storm that uses no CPU time for this long, or for the limit if that is longer, waits for
  // ever.
  static constexpr double kStillS = 5;

  explicit Overtime(double limit_s) : limit_s_(limit_s) {}

  // Returns the verdict; empty if the storm may go on. It must be called several times a second,
  // for one process, with its CPU time and that at the beginning of the storm.
  [[nodiscard]] std::string look(std::uint64_t now, std::uint64_t cpu_ns,
                                 std::uint64_t cpu_at_begin_ns);

 private:
  // At most this much counts of the time between two looks: this process may have been stopped,
  // together with the other one.
  static constexpr std::uint64_t kMostBetweenNs = 1'000'000'000;

  double limit_s_;
  std::uint64_t looked_ns_ = 0;  // 0: never
  std::uint64_t cpu_ns_ = 0;     // at that time
  std::uint64_t still_ns_ = 0;   // since the last change
};

}  // namespace hawser::tool
