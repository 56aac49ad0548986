// SPDX-License-Identifier: Apache-2.0
// Converts OCP's 8-bit floats to f32 and back, rounding to nearest even ("OCP 8-bit Floating Point
// Specification", 2023). The method is that of float16.hpp.
//
//   E4M3   bias 7, no infinity; 0x7f and 0xff are NaN; the largest number is 448
//   E5M2   bias 15, as IEEE's formats; the largest number is 57344
//
// What is too large becomes NaN in E4M3, and infinity in E5M2, as in PyTorch and ml_dtypes.
#pragma once

#include <bit>
#include <cstdint>

namespace hawser::coll {

// `mantissa` is a number of bits. The codes from `top` on are special.
template <unsigned mantissa, std::uint32_t bias, std::uint32_t top>
struct Float8 {
  [[nodiscard]] static float widen(std::uint8_t value) noexcept {
    const float rebias = std::bit_cast<float>((254 - bias) << 23);  // 2^(127 - bias)
    const std::uint32_t magnitude = value & 0x7f;
    const float scaled = std::bit_cast<float>(magnitude << (23 - mantissa)) * rebias;
    const std::uint32_t special = magnitude == top && kHasInfinity ? 0x7f800000u : 0x7fc00000u;
    const std::uint32_t bits = magnitude >= top ? special : std::bit_cast<std::uint32_t>(scaled);
    return std::bit_cast<float>(bits | (static_cast<std::uint32_t>(value & 0x80) << 24));
  }

  [[nodiscard]] static std::uint8_t narrow(float value) noexcept {
    constexpr unsigned kDropped = 23 - mantissa;
    constexpr std::uint32_t kSmallestNormal = (128 - bias) << 23;
    // Its unit in the last place is that of the subnormal numbers: 2^(1 - bias - mantissa).
    constexpr std::uint32_t kMagic = (127 + 24 - bias - mantissa) << 23;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 24) & 0x80;
    const std::uint32_t magnitude = bits & 0x7fffffff;

    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) +
                                                                 std::bit_cast<float>(kMagic)) -
                                    kMagic;
    const std::uint32_t odd = (magnitude >> kDropped) & 1;
    const std::uint32_t half = (1u << (kDropped - 1)) - 1;
    const std::uint32_t normal = (magnitude - ((127 - bias) << 23) + half + odd) >> kDropped;

    const std::uint32_t rounded = magnitude < kSmallestNormal ? subnormal : normal;
    const std::uint32_t finite = rounded >= top ? top : rounded;
    const std::uint32_t nan = magnitude > 0x7f800000 ? 0x7f : top;
    return static_cast<std::uint8_t>(sign | (magnitude >= 0x7f800000 ? nan : finite));
  }

 private:
  static constexpr bool kHasInfinity = top != 0x7f;
};

using Float8E4M3 = Float8<3, 7, 0x7f>;
using Float8E5M2 = Float8<2, 15, 0x7c>;

}  // namespace hawser::coll
