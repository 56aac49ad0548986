// SPDX-License-Identifier: Apache-2.0
#include "test/support/heap_guard.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t allocations = 0;

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  ++allocations;
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace hawser::test {

HeapGuard::HeapGuard() : before_(::allocations) {}
std::uint64_t HeapGuard::allocations() const { return ::allocations - before_; }

}  // namespace hawser::test

// Replaces all forms: the library's array and nothrow forms call these, but a sanitizer's don't.
void* operator new(std::size_t bytes) { return take_or_throw(bytes, 1); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, 1); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return take(bytes, static_cast<std::size_t>(alignment));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
