// SPDX-License-Identifier: Apache-2.0
// Converts bf16 and IEEE half precision to f32 and back, rounding to nearest even.
//
// The conversions use selects and integer arithmetic without branches, so that loops over them
// vectorise without F16C. The half-precision algorithms are Fabian Giesen's ("float->half
// variants", public domain): scaling by a power of two makes the FPU normalise and round
// subnormals. They need the default floating-point mode (round to nearest, subnormals on).
#pragma once

#include <bit>
#include <cstdint>

namespace hawser::coll {

[[nodiscard]] inline float bf16_to_f32(std::uint16_t value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

[[nodiscard]] inline std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const std::uint32_t quiet_nan = bits | 0x00400000;  // rounding could carry a NaN into infinity
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<std::uint16_t>((is_nan ? quiet_nan : rounded) >> 16);
}

[[nodiscard]] inline float f16_to_f32(std::uint16_t value) noexcept {
  constexpr float kRebias = 0x1p112f;        // 2^(127 - 15)
  constexpr float kInfinityOrNan = 0x1p16f;  // what rebiasing makes of exponent 31
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value & 0x7fff) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * kRebias;
  const std::uint32_t bits =
      std::bit_cast<std::uint32_t>(scaled) | (scaled >= kInfinityOrNan ? 0x7f800000u : 0u);
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000) << 16;
  return std::bit_cast<float>(bits | sign);
}

[[nodiscard]] inline std::uint16_t f32_to_f16(float value) noexcept {
  constexpr std::uint32_t kOverflow = (127 + 16) << 23;  // from 2^16 on the result is infinity
  constexpr std::uint32_t kSmallestNormal = (127 - 14) << 23;  // 2^-14
  constexpr float kSubnormalMagic = 0.5f;  // its unit in the last place is f16's: 2^-24
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;

  const std::uint32_t special = magnitude > 0x7f800000 ? 0x7e00u : 0x7c00u;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + kSubnormalMagic) -
      std::bit_cast<std::uint32_t>(kSubnormalMagic);
  const std::uint32_t odd = (magnitude >> 13) & 1;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfff + odd) >> 13;

  const std::uint32_t finite = magnitude < kSmallestNormal ? subnormal : normal;
  return static_cast<std::uint16_t>(sign | (magnitude >= kOverflow ? special : finite));
}

}  // namespace hawser::coll
