// SPDX-License-Identifier: Apache-2.0
// How long a path's answers take if the peer doesn't delay them. It decides when the answer to the
// end of a message is late. The value is near the longest: a longer sample counts by half at once,
// a shorter one by a sixteenth of the difference.
//
// The response time (response_time.hpp) can't tell that: many of its samples are acknowledgements
// that the peer delayed, and the granularity covers errors.
//
// Two bytes, as each path has one: units of 64 ns, up to 4 ms. A path that takes longer has no need
// of early probes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::proto {

class PromptTime {
 public:
  void sample(Duration answer) {
    const auto units = static_cast<std::uint16_t>(
        std::clamp<std::int64_t>((answer.ns + kUnit - 1) / kUnit, 1, kTooLong));
    if (units_ == kUnknown) {
      units_ = units;
    } else if (units_ < units) {
      units_ = static_cast<std::uint16_t>(units - (units - units_) / 2);
    } else {
      units_ = static_cast<std::uint16_t>(units_ - (units_ - units + kSlowly - 1) / kSlowly);
    }
  }

  // Neither unknown nor too long to measure.
  [[nodiscard]] bool is_known() const { return units_ != kUnknown && units_ != kTooLong; }
  [[nodiscard]] Duration time() const { return Duration{std::int64_t{units_} * kUnit}; }

  // Twice the time, but no less than hosts vary by.
  [[nodiscard]] Duration late_after(Duration granularity) const {
    return std::max(time() * 2, granularity / 10);
  }

 private:
  static constexpr std::uint16_t kUnknown = 0;
  static constexpr std::uint16_t kTooLong = UINT16_MAX;
  static constexpr std::int64_t kUnit = 64;  // ns
  static constexpr int kSlowly = 16;
  std::uint16_t units_ = kUnknown;
};

}  // namespace hawser::proto
