// SPDX-License-Identifier: Apache-2.0
// Converts eight 16-bit floats at a time to f32 and back, with processor instructions (F16C, AVX2).
//
// The portable conversions of float16.hpp vectorise too, but narrowing is much slower there:
// bench/reduce_kernels measured 60-75 GB/s against 5 for f16, and 45-75 against 9-20 for bf16.
#pragma once

#include "coll/processor.hpp"

#if defined(HAWSER_X86_64_V3)
#include <immintrin.h>

#include <cstdint>

namespace hawser::coll {

inline constexpr std::uint64_t kEight = 8;

struct EightF16 {
  HAWSER_X86_64_V3 static void load(float* to, const std::uint16_t* from) noexcept {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    _mm256_storeu_ps(to, _mm256_cvtph_ps(halves));
  }
  HAWSER_X86_64_V3 static void store(std::uint16_t* to, const float* from) noexcept {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
  }
};

struct EightBf16 {
  HAWSER_X86_64_V3 static void load(float* to, const std::uint16_t* from) noexcept {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    _mm256_storeu_ps(to, _mm256_castsi256_ps(bits));
  }
  // As f32_to_bf16.
  HAWSER_X86_64_V3 static void store(std::uint16_t* to, const float* from) noexcept {
    const __m256 value = _mm256_loadu_ps(from);
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet_nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i words = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet_nan, is_nan), 16);
    const __m128i halves =
        _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
  }
};

}  // namespace hawser::coll
#endif
