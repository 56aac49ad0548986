// SPDX-License-Identifier: Apache-2.0
// A timer of a path, a message or a peer: when it fires, and whether it has been postponed since it
// was armed. A turn that comes late postpones what expired, once, until it has read the rings
// (Turn::postpones). The timer may wait for the very packet that has arrived meanwhile.
//
// It takes 8 bytes, as there are thousands of them.
#pragma once

#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::proto {

class Timer {
 public:
  // When it fires; kNever: it is not armed.
  [[nodiscard]] Time at() const { return {word_ >> 1}; }
  [[nodiscard]] bool is_armed() const { return at() != kNever; }
  [[nodiscard]] bool is_due(Time now) const { return at() <= now; }

  // From now on it may be postponed again.
  void arm(Time at) { word_ = at.ns * 2; }
  // It fires at `at` at the latest.
  void advance_to(Time at) {
    if (at < this->at()) word_ = at.ns * 2 + (word_ & kPostponed);
  }
  void stop() { arm(kNever); }

  // False if it has been postponed already.
  [[nodiscard]] bool postpone(Time at) {
    if ((word_ & kPostponed) != 0) return false;
    word_ = at.ns * 2 + kPostponed;
    return true;
  }

 private:
  static constexpr std::int64_t kPostponed = 1;
  // Nanoseconds, times two, and whether it has been postponed.
  std::int64_t word_ = kNever.ns * 2;
};
static_assert(sizeof(Timer) == 8);

}  // namespace hawser::proto
