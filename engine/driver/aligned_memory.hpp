// Raw memory that starts on a cache line; its pages are touched only when used.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace hawser::engine {

inline constexpr std::size_t kCacheLine = 64;

struct FreeAligned {
  void operator()(std::byte* memory) const {
    ::operator delete[](memory, std::align_val_t{kCacheLine});
  }
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;

[[nodiscard]] inline AlignedMemory allocate_aligned(std::size_t bytes) {
  return AlignedMemory(
      static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kCacheLine})));
}

}  // namespace hawser::engine
