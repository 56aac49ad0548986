// SPDX-License-Identifier: Apache-2.0
// Randomness for the protocol: seeded by the caller, the same sequence on every machine.
//
// xoshiro256** 1.0 by D. Blackman and S. Vigna (prng.di.unimi.it, public domain; "Scrambled linear
// pseudorandom number generators", ACM TOMS 47(4), 2021), its state filled by SplitMix64 as they
// advise. Not for secrets: anyone who sees some of its output can compute the rest. Tokens that a
// stranger must not guess are therefore drawn elsewhere or hashed with a key.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "proto/base/assert.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15u;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  // 64 random bits.
  constexpr std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // 0 to n-1, each equally likely; n is at least 1. Draws again if the value falls into the
  // incomplete run of n, which would favour small results.
  constexpr std::uint64_t below(std::uint64_t n) {
    HAWSER_ASSERT(n > 0);
    const std::uint64_t incomplete = (std::uint64_t{0} - n) % n;  // 2^64 mod n
    std::uint64_t value = next();
    while (value < incomplete) value = next();
    return value % n;
  }

  // True with probability p; never for p <= 0, always for p >= 1.
  constexpr bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < p; }

  // Even over [d/2, d + d/2): keeps the mean, and spreads those that wait equally long.
  constexpr Duration jitter(Duration d) {
    if (d.ns <= 0) return d;
    return d / 2 + Duration{static_cast<std::int64_t>(below(static_cast<std::uint64_t>(d.ns)))};
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace hawser::proto
