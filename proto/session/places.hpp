// SPDX-License-Identifier: Apache-2.0
// The state for choosing whose place a newcomer gets (places.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "hawser/types.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

// Strangers that were half open by then may lose their places.
struct HalfOpenUntil {
  Time in_crowd{};  // if another was half open at the same address before them
  Time alone{};     // others
};

struct Places {
  explicit Places(std::uint32_t max_peers) : ended(std::min(max_peers, kMostEnded)) {}

  static constexpr std::uint32_t kMostEnded = 1024;
  Ring<PeerId> ended;        // peers whose sessions have ended, in the order of the ends
  std::uint32_t cursor = 0;  // where the last walk over all places ended
  Time walk_at{};            // no walk starts sooner
  Time tell_at{};            // a refused newcomer is reported no sooner
};

}  // namespace hawser::proto
