// SPDX-License-Identifier: Apache-2.0
// When this end was away itself: nothing could be heard meanwhile, so what waits for others waits
// that much longer. Of all that waits since some moment the longest absence since then counts: a
// longer one that ended before is no help, so the longest ones of each recent time are remembered.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "proto/base/time.hpp"

namespace hawser::proto {

class Absence {
 public:
  // From `left` to `back`. Those that ended longer ago than `old` are forgotten.
  void note(Time left, Time back, Duration old) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const bool matters = back <= spans_[i].back + old && spans_[i].length() > back - left;
      if (matters) spans_[kept++] = spans_[i];
    }
    if (kept == spans_.size()) --kept;
    spans_[kept] = {left, back};
    count_ = kept + 1;
  }
  // How long the longest one was, as far as it was after `then`.
  [[nodiscard]] Duration since(Time then) const {
    Duration most{};
    for (std::size_t i = 0; i < count_; ++i) {
      if (then >= spans_[i].back) continue;
      most = std::max(most, spans_[i].back - later(then, spans_[i].left));
    }
    return most;
  }

 private:
  struct Span {
    Time left{};
    Time back{};
    [[nodiscard]] Duration length() const { return back - left; }
  };
  // Oldest first, each longer than all after it.
  std::array<Span, 4> spans_{};
  std::size_t count_ = 0;
};

}  // namespace hawser::proto
