// SPDX-License-Identifier: Apache-2.0
// Decides when a router's routes look for messages that no receive will take.
//
// A look costs a probe or more, and with engine threads the answer takes a turn of their loop. It
// therefore comes when completions have been missing for a while, and then at doubling distances. A
// message that comes after an idle time is found before that time has doubled. A busy router looks
// rarely. There is no clock: an idle turn counts as one unit of time, and a turn that waited in
// vain counts by the length of its wait.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hawser::coll {

class LookSchedule {
 public:
  static constexpr std::uint64_t kFirstIdle = 4096;      // units before the first look
  static constexpr std::uint64_t kMostBetween = 65'536;  // units, or busy turns, between two looks
  static constexpr std::uint64_t kUnit_ns = 16'384;      // of a wait

  // Counts a turn. `waited_ns` is the timeout of its wait. True if it is time to look.
  [[nodiscard]] bool count_turn(bool had_completions, std::uint64_t waited_ns) noexcept {
    ++turns_;
    if (had_completions) {
      idle_ = 0;
      next_ = kFirstIdle;
      if (turns_ < kMostBetween) return false;
    } else {
      idle_ += 1 + waited_ns / kUnit_ns;
      if (idle_ < next_) return false;
      next_ = idle_ + std::min(idle_, kMostBetween);
    }
    turns_ = 0;
    return true;
  }

 private:
  std::uint64_t turns_ = 0;  // since the last look
  std::uint64_t idle_ = 0;   // units since the last completion
  std::uint64_t next_ = kFirstIdle;
};

}  // namespace hawser::coll
