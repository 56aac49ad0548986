// SPDX-License-Identifier: Apache-2.0
// How much of a message its sender may send before its receive has matched and granted more. Both
// ends compute it from the same numbers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hawser/tunables.hpp"
#include "hawser/types.hpp"

namespace hawser::proto {

// The bytes for an endpoint whose NICs' links carry that much per second. The limit is what a
// resting peer's record can hold (resting.hpp), or the two ends would differ.
[[nodiscard]] inline std::uint64_t unscheduled_of(const Tunables& tunables,
                                                  std::uint64_t link_bytes_per_s) {
  return std::clamp<std::uint64_t>(link_bytes_per_s * tunables.unscheduled_us / 1'000'000,
                                   tunables.unscheduled_bytes, 0xffffffff);
}

// An empty message has one fragment.
[[nodiscard]] inline std::uint32_t count_fragments(std::uint64_t bytes,
                                                   std::uint32_t fragment_bytes) {
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + fragment_bytes - 1) / fragment_bytes);
}

// How many messages' unscheduled bytes the last switch before a receiver can hold at once.
inline constexpr std::uint64_t kHeldBySwitch = 4;

// The same in fragments. `unscheduled_bytes` comes from the sender's handshake. Each message of a
// large group gets only a part, because all of them come to one receiver at once.
[[nodiscard]] inline std::uint32_t unscheduled_fragments(std::uint64_t bytes,
                                                         std::uint32_t fragments,
                                                         std::uint32_t fragment_bytes,
                                                         std::uint64_t unscheduled_bytes,
                                                         const Hint& hint) {
  const std::uint64_t members = hint.group == 0 ? 1 : std::max<std::uint64_t>(hint.members, 1);
  const std::uint64_t part =
      members <= kHeldBySwitch ? unscheduled_bytes : unscheduled_bytes * kHeldBySwitch / members;
  if (bytes <= part) return fragments;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(part / fragment_bytes, fragments));
}

}  // namespace hawser::proto
