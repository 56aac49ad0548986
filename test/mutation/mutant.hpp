// SPDX-License-Identifier: Apache-2.0
// The switch of the mutation check: which of the bugs that mutate.py compiled in is on.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hawser {

extern std::uint32_t mutant_on;  // 0: none
extern bool mutant_reached;      // the mutant's place was reached since this was set to false

// Whether the bug at this place is on. In constant expressions no bug is.
[[nodiscard]] constexpr bool mutated(std::uint32_t mutant) {
  if (std::is_constant_evaluated() || mutant != mutant_on) return false;
#ifndef HAWSER_MUTANTS_UNTRACKED  // a bench would measure the store
  mutant_reached = true;
#endif
  return true;
}

}  // namespace hawser
