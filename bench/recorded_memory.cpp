// SPDX-License-Identifier: Apache-2.0
#include "bench/recorded_memory.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

struct Range {
  void* begin = nullptr;
  std::size_t bytes = 0;
};
// The allocations that operator new made while `recording`.
bool recording = false;
std::array<Range, 256> ranges;
std::size_t range_count = 0;

void* take(std::size_t bytes, std::size_t alignment) {
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(std::max<std::size_t>(bytes, 1))
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  if (recording) {
    if (range_count == ranges.size()) std::abort();
    ranges[range_count++] = {memory, bytes};
  }
  return memory;
}

}  // namespace

// Not inlined: a compiler that sees malloc() or free() inside one of these reports a mismatched
// pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return take(bytes, 1); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return take(bytes, 1); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace hawser::bench {

void prepare_recording() {
  (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  (void)mallopt(M_MMAP_THRESHOLD, 64 * 1024);  // fixed: large blocks get fresh pages of their own
}

void start_recording() {
  range_count = 0;
  recording = true;
}

void stop_recording() { recording = false; }

std::uint64_t resident() {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t bytes = 0;
  std::vector<unsigned char> in_core;
  for (std::size_t i = 0; i < range_count; ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(ranges[i].begin);
    const std::uintptr_t first = begin / page * page;
    const std::size_t pages = (begin + ranges[i].bytes - first + page - 1) / page;
    if (ranges[i].bytes < 2 * page) {
      bytes += ranges[i].bytes;
      continue;
    }
    in_core.resize(pages);
    if (mincore(reinterpret_cast<void*>(first), pages * page, in_core.data()) != 0) std::abort();
    bytes += page * static_cast<std::uint64_t>(std::ranges::count_if(
                        in_core, [](unsigned char p) { return (p & 1) != 0; }));
  }
  return bytes;
}

}  // namespace hawser::bench
