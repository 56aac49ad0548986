// SPDX-License-Identifier: Apache-2.0
// When this end was absent itself. It could hear nothing meanwhile, so a timer that waits for
// others waits that much longer. It adds the longest absence since it was armed; an older one is no
// help. Therefore the longest absences of each recent period are kept.
//
// Two long absences with a short presence between them are one, as if this end had been away all
// the time: it had no time to ask. No third one joins them. The second presence may have read
// answers, and an end that is present for short times only must notice the death of others all the
// same.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "proto/base/time.hpp"

namespace hawser::proto {

class Absence {
 public:
  struct Lengths {
    Duration old;       // absences that ended so long ago are forgotten
    Duration presence;  // at most so long a presence
    Duration absence;   // joins absences of at least this length
  };
  // Notes an absence from `left` to `back`.
  void note(Time left, Time back, const Lengths& lengths) {
    const bool joins = count_ > 0 && !spans_[count_ - 1].is_joined &&
                       left - spans_[count_ - 1].back <= lengths.presence &&
                       std::min(spans_[count_ - 1].length(), back - left) >= lengths.absence;
    if (joins) left = spans_[count_ - 1].left;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const bool matters = back <= spans_[i].back + lengths.old && spans_[i].length() > back - left;
      if (matters) spans_[kept++] = spans_[i];
    }
    if (kept == spans_.size()) --kept;
    spans_[kept] = {left, back, joins};
    count_ = kept + 1;
  }
  // The length of the longest absence, counted after `then`.
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
    bool is_joined = false;  // of two
    [[nodiscard]] Duration length() const { return back - left; }
  };
  // Oldest first, each longer than all after it.
  std::array<Span, 4> spans_{};
  std::size_t count_ = 0;
};

}  // namespace hawser::proto
