// SPDX-License-Identifier: Apache-2.0
// Whether a storm has no end. Judged by the CPU time that it has used, not by a clock on the wall:
// a machine that has other things to do, or stops this one, makes no storm endless.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::tool {

class Overtime {
 public:
  // Without any CPU time for so long, or the limit if that is longer, it waits for what never
  // comes.
  static constexpr double kStillS = 5;

  explicit Overtime(double limit_s) : limit_s_(limit_s) {}

  // To be called several times a second, of one process: its CPU time, and what that was when the
  // storm began. The verdict; empty: it may go on.
  [[nodiscard]] std::string look(std::uint64_t now, std::uint64_t cpu_ns,
                                 std::uint64_t cpu_at_begin_ns);

 private:
  // Of the time between two looks no more than this counts: this process may have been stopped,
  // and the other one with it.
  static constexpr std::uint64_t kMostBetweenNs = 1'000'000'000;

  double limit_s_;
  std::uint64_t looked_ns_ = 0;  // 0: never
  std::uint64_t cpu_ns_ = 0;     // then
  std::uint64_t still_ns_ = 0;   // since that has changed
};

}  // namespace hawser::tool
