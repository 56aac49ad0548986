// SPDX-License-Identifier: Apache-2.0
// Large tables as pages of their own, which go back to the system with their owner.
//
// Heap memory would not go back: an allocator that has once freed a large block keeps the next ones
// (glibc raises its mmap threshold, mallopt(3)). Each new endpoint would then touch other pages of
// the kept memory. Creating and ending endpoints in turns would use ever more memory.
#pragma once

#include <cstddef>

namespace hawser::proto {

// Below this size the heap serves: a map call and its page faults cost more than they save.
inline constexpr std::size_t kLeastPages = 256 * 1024;

// Zeroed pages, which cost memory only once written. The address sanitizer watches their ends, and
// for a while their use after give_pages. Throws std::bad_alloc.
[[nodiscard]] void* take_pages(std::size_t bytes);
void give_pages(void* pages, std::size_t bytes) noexcept;

}  // namespace hawser::proto
