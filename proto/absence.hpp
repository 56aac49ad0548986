// When this end was away itself: nothing could be heard meanwhile, so what waits for others waits
// that much longer. The longest absence is remembered until a newer one is longer, or it is old.
#pragma once

#include "proto/time.hpp"

namespace hawser::proto {

class Absence {
 public:
  // From `left` to `back`. One that ended longer ago than `old` is forgotten.
  void note(Time left, Time back, Duration old) {
    if (back - left < back_ - left_ && back <= back_ + old) return;
    left_ = left;
    back_ = back;
  }
  // How much of the time since then it was.
  [[nodiscard]] Duration since(Time then) const {
    return then < back_ ? back_ - later(then, left_) : Duration{};
  }

 private:
  Time left_{};
  Time back_{};
};

}  // namespace hawser::proto
