// SPDX-License-Identifier: Apache-2.0
// Memory that is about to be worked on, fetched while something else is done. Of thousands of peers
// few are in the cache, and the lines of one, fetched one after the other as they are come upon,
// take longer than what is done with them. A hint: it changes nothing.
#pragma once

#include <cstddef>

namespace hawser::proto {

inline constexpr std::size_t kCacheLine = 64;

// The lines from `begin` up to `end`, to be written.
inline void prefetch(const void* begin, const void* end) {
  const auto* const last = static_cast<const std::byte*>(end);
  for (const auto* at = static_cast<const std::byte*>(begin); at < last; at += kCacheLine) {
    __builtin_prefetch(at, 1);
  }
}

// The same, only to be read: who else has them keeps them.
inline void prefetch_to_read(const void* begin, const void* end) {
  const auto* const last = static_cast<const std::byte*>(end);
  for (const auto* at = static_cast<const std::byte*>(begin); at < last; at += kCacheLine) {
    __builtin_prefetch(at, 0);
  }
}

}  // namespace hawser::proto
