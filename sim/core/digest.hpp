// SPDX-License-Identifier: Apache-2.0
// A number that two runs share only if they are equal.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace hawser::sim {

// SplitMix64's finaliser.
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class Digest {
 public:
  void mix(std::uint64_t value) { value_ = scramble(value_ + value); }
  // A cheaper way for many bytes at once.
  void mix(std::span<const std::byte> bytes) {
    std::uint64_t sum = bytes.size();
    const std::byte* at = bytes.data();
    const std::byte* const end = at + bytes.size() / 8 * 8;
    std::uint64_t word = 0;
    for (; at != end; at += 8) {
      std::memcpy(&word, at, 8);
      sum = (std::rotl(sum, 23) ^ word) * 0x9e3779b97f4a7c15u;
    }
    word = 0;
    if (bytes.size() % 8 != 0) std::memcpy(&word, at, bytes.size() % 8);
    mix(std::rotl(sum, 23) ^ word);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace hawser::sim
