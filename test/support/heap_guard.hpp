// SPDX-License-Identifier: Apache-2.0
// Counts what a piece of code takes from the heap: "no heap after start" is a promise that tests
// hold.
//
// Linking heap_guard.cpp replaces the program's operators new and delete.
#pragma once

#include <cstdint>

namespace hawser::test {

// Allocations of this thread since the guard was made.
class HeapGuard {
 public:
  HeapGuard();
  [[nodiscard]] std::uint64_t allocations() const;

 private:
  std::uint64_t before_;
};

}  // namespace hawser::test
