// SPDX-License-Identifier: Apache-2.0
// The state for choosing whose place a newcomer gets (places.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "hawser/types.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

// The side that needs a place. Strangers that are half open keep theirs from other callers for a
// while.
enum class Asker : std::uint8_t { program, caller };

struct Places {
  explicit Places(std::uint32_t max_peers) : ended(std::min(max_peers, kMostEnded)) {}

  static constexpr std::uint32_t kMostEnded = 1024;
  Ring<PeerId> ended;        // peers whose sessions have ended, in the order of the ends
  std::uint32_t cursor = 0;  // where the last walk over all places ended
  Time walk_at{};            // no walk starts sooner
  Time tell_at{};            // a refused newcomer is reported no sooner
};

}  // namespace hawser::proto
