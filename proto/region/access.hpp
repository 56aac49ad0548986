// SPDX-License-Identifier: Apache-2.0
// The rights that a region's key gives, and what its owner's program is told of writes.
#pragma once

#include <cstdint>

#include "hawser/types.hpp"

namespace hawser::proto {

// The rights of a key: a peer may do these things.
enum class RegionAccess : std::uint8_t { none = 0, write = 1, read = 2, atomic = 4 };
[[nodiscard]] constexpr RegionAccess operator|(RegionAccess a, RegionAccess b) {
  return static_cast<RegionAccess>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
[[nodiscard]] constexpr bool allows(RegionAccess rights, RegionAccess wanted) {
  const auto bits = static_cast<std::uint8_t>(wanted);
  return (static_cast<std::uint8_t>(rights) & bits) == bits;
}

// A peer's write was placed, and tells this end's program.
struct WriteNotice {
  PeerId peer = kAnyPeer;
  std::uint16_t channel = 0;
  std::uint64_t immediate = 0;
  RegionId region{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

}  // namespace hawser::proto
