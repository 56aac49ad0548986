// SPDX-License-Identifier: Apache-2.0
// Counts what a piece of code takes from the heap, for tests of the promise "no heap after start".
//
// Linking heap_guard.cpp replaces the program's operators new and delete.
#pragma once

#include <cstdint>

namespace hawser::test {

// Counts the allocations of this thread since the guard was made.
class HeapGuard {
 public:
  HeapGuard();
  [[nodiscard]] std::uint64_t allocations() const;

 private:
  std::uint64_t before_;
};

}  // namespace hawser::test
