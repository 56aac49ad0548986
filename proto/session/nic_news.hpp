// SPDX-License-Identifier: Apache-2.0
// The changes of this end's NICs that every peer must hear of (nic_news.cpp).
#pragma once

#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::proto {

struct NicNews {
  std::uint32_t count = 0;         // changes so far
  std::uint32_t awake_next = 0;    // the place of the next awake peer to tell
  std::uint32_t awake_left = 0;    // places not looked at since the last change
  std::uint32_t resting_next = 0;  // the next resting peer to tell
  std::uint32_t resting_left = 0;  // peers not looked at since the last change
  Time at = kNever;                // when to go on

  // A peer holds the low bits of the newest change that it knows. It misses far fewer than 2^16.
  [[nodiscard]] std::uint16_t newest() const { return static_cast<std::uint16_t>(count); }
  [[nodiscard]] std::uint32_t known_to(std::uint16_t newest) const {
    return count - static_cast<std::uint16_t>(count - newest);
  }
};

}  // namespace hawser::proto
