// SPDX-License-Identifier: Apache-2.0
// Raw memory that starts on a cache line. The system backs a page only when it is first used. Large
// blocks return to the system when their owner is destroyed (proto/base/pages.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "proto/base/pages.hpp"

namespace hawser::engine {

inline constexpr std::size_t kCacheLine = 64;

struct FreeAligned {
  std::size_t bytes = 0;
  // Whether the system has given the memory, all zeros, for this owner.
  [[nodiscard]] bool began_zeroed() const { return bytes >= proto::kLeastPages; }
  void operator()(std::byte* memory) const {
    if (began_zeroed()) {
      proto::give_pages(memory, bytes);
    } else {
      ::operator delete[](memory, std::align_val_t{kCacheLine});
    }
  }
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;

[[nodiscard]] inline AlignedMemory allocate_aligned(std::size_t bytes) {
  void* const memory = bytes >= proto::kLeastPages
                           ? proto::take_pages(bytes)
                           : ::operator new[](bytes, std::align_val_t{kCacheLine});
  return {static_cast<std::byte*>(memory), FreeAligned{bytes}};
}

}  // namespace hawser::engine
