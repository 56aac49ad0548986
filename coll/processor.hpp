// SPDX-License-Identifier: Apache-2.0
// Which instructions this processor has beyond those of the build's baseline.
//
// A function marked HAWSER_X86_64_V3 may use AVX2, BMI and F16C, whatever the build is for. Only
// has_x86_64_v3 permits to call it. Without the macro there are no such functions.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

#define HAWSER_X86_64_V3 __attribute__((target("avx2,bmi,bmi2,f16c")))

namespace hawser::coll {

[[nodiscard]] inline bool has_x86_64_v3() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  // No builtin of every compiler knows F16C. The one for AVX2 also asks whether the system saves
  // the registers.
  const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  return has_f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
         __builtin_cpu_supports("bmi2") != 0;
}

}  // namespace hawser::coll
#endif
