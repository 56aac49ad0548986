// SPDX-License-Identifier: Apache-2.0
// Large tables as pages of their own, which go back to the system with their owner.
//
// From the heap they would not: an allocator that has once given a large block back keeps what it
// gets next (glibc raises its threshold for mapping, mallopt(3)), and each new endpoint would touch
// other pages of what is kept. Endpoints that are made and ended in turns would take ever more.
#pragma once

#include <cstddef>

namespace hawser::proto {

// Below it the heap serves: a map call and its page faults cost more than they save. A sanitizer
// that watches the ends of blocks gets all of them.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr std::size_t kLeastPages = ~std::size_t{0};
#else
inline constexpr std::size_t kLeastPages = 256 * 1024;
#endif

// Zeros, which cost memory when they are first written. Throws std::bad_alloc.
[[nodiscard]] void* take_pages(std::size_t bytes);
void give_pages(void* pages, std::size_t bytes) noexcept;

}  // namespace hawser::proto
