// SPDX-License-Identifier: Apache-2.0
#include "engine/own_process.hpp"

#include <sys/mman.h>

namespace hawser::engine {
namespace {

constexpr std::size_t kMarkBytes = 4096;

// Returns a page that the kernel zeroes in a child of fork (MADV_WIPEONFORK, Linux 4.14). On older
// kernels a child keeps the parent's mark and is not detected.
std::atomic<std::uint32_t>* make_mark() noexcept {
  static std::atomic<std::uint32_t> without_page{0};
  void* const page =
      ::mmap(nullptr, kMarkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return &without_page;
  static_cast<void>(::madvise(page, kMarkBytes, MADV_WIPEONFORK));
  return new (page) std::atomic<std::uint32_t>(0);
}

// The largest number given so far, in this process or in its ancestors.
std::atomic<std::uint32_t> given{0};

}  // namespace

OwnProcess::OwnProcess() noexcept {
  static std::atomic<std::uint32_t>* const mark = make_mark();
  mark_ = mark;
  std::uint32_t number = mark->load(std::memory_order_relaxed);
  if (number == 0) {
    const std::uint32_t mine = given.fetch_add(1, std::memory_order_relaxed) + 1;
    // Another thread may have been faster. Its number is then the process's.
    if (mark->compare_exchange_strong(number, mine, std::memory_order_relaxed)) number = mine;
  }
  number_ = number;
}

}  // namespace hawser::engine
