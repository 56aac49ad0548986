// SPDX-License-Identifier: Apache-2.0
// Fetches memory that is about to be used, while something else is done. With thousands of peers
// few are in the cache. Fetching one peer's lines one after the other takes longer than the work on
// them. A hint: it changes nothing.
#pragma once

#include <cstddef>

namespace hawser::proto {

inline constexpr std::size_t kCacheLine = 64;

// Prefetches the lines from `begin` up to `end` for writing.
inline void prefetch(const void* begin, const void* end) {
  const auto* const last = static_cast<const std::byte*>(end);
  for (const auto* at = static_cast<const std::byte*>(begin); at < last; at += kCacheLine) {
    __builtin_prefetch(at, 1);
  }
}

// The same for reading only: other caches keep their copies.
inline void prefetch_to_read(const void* begin, const void* end) {
  const auto* const last = static_cast<const std::byte*>(end);
  for (const auto* at = static_cast<const std::byte*>(begin); at < last; at += kCacheLine) {
    __builtin_prefetch(at, 0);
  }
}

}  // namespace hawser::proto
