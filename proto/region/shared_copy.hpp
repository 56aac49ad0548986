// SPDX-License-Identifier: Apache-2.0
// Copies memory that the program may change meanwhile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hawser::proto {

// Copies the first bytes if they are an aligned word. Returns how many those were.
template <class Word>
std::size_t copy_shared_word(std::byte* to, std::byte* from, std::size_t bytes) {
  if (bytes < sizeof(Word) || reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) != 0) return 0;
  const Word word = std::atomic_ref(*reinterpret_cast<Word*>(from)).load(std::memory_order_relaxed);
  std::memcpy(to, &word, sizeof word);
  return sizeof word;
}

// Each aligned word of 8 bytes is read whole, and so is one of 4 bytes at either end. Words may be
// of different moments.
inline void copy_shared(std::byte* to, const std::byte* from, std::size_t bytes) {
  auto* at = const_cast<std::byte*>(from);  // std::atomic_ref takes nothing constant
  while (bytes > 0) {
    std::size_t copied = copy_shared_word<std::uint64_t>(to, at, bytes);
    if (copied == 0) copied = copy_shared_word<std::uint32_t>(to, at, bytes);
    if (copied == 0) copied = copy_shared_word<std::byte>(to, at, bytes);
    to += copied;
    at += copied;
    bytes -= copied;
  }
}

}  // namespace hawser::proto
