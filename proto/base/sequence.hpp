// SPDX-License-Identifier: Apache-2.0
// Message and path numbers: 64 bits in state, their low 32 bits on the wire.
//
// All arithmetic here is modulo 2^64. Numbers that are compared lie within a window, far closer
// than half a turn.
#pragma once

#include <cstdint>

namespace hawser::proto {

[[nodiscard]] constexpr std::uint32_t to_wire(std::uint64_t number) {
  return static_cast<std::uint32_t>(number);
}

// The number with these low 32 bits that is nearest to `expected`: within [-2^31, 2^31) of it.
[[nodiscard]] constexpr std::uint64_t expand(std::uint32_t wire, std::uint64_t expected) {
  const auto ahead = static_cast<std::int32_t>(wire - to_wire(expected));
  return expected + static_cast<std::uint64_t>(std::int64_t{ahead});
}

// How far `a` is ahead of `b`; negative if it is behind.
[[nodiscard]] constexpr std::int64_t distance(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b);
}

[[nodiscard]] constexpr bool before(std::uint64_t a, std::uint64_t b) { return distance(a, b) < 0; }

}  // namespace hawser::proto
