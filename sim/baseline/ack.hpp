// SPDX-License-Identifier: Apache-2.0
// What a receiver says about each packet that came. Every baseline's acks carry the same fields;
// its recovery uses only those that the real acks would have.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace hawser::baseline {

struct Ack {
  static constexpr std::uint32_t kBits = 128;

  std::uint32_t expected = 0;  // all packets before this one have come
  std::uint32_t number = 0;    // the packet that it answers
  std::uint32_t is_early = 0;  // that one came before its turn: a NAK, or a selective ack
  std::uint32_t unused = 0;
  std::array<std::uint64_t, kBits / 64> bits{};  // bit i: packet expected + i has come

  [[nodiscard]] bool has(std::uint32_t i) const { return (bits[i / 64] >> i % 64 & 1) != 0; }
  [[nodiscard]] std::uint32_t count() const {
    std::uint32_t all = 0;
    for (const std::uint64_t word : bits) all += static_cast<std::uint32_t>(std::popcount(word));
    return all;
  }
};
static_assert(sizeof(Ack) == 32);

}  // namespace hawser::baseline
