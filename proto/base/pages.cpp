// SPDX-License-Identifier: Apache-2.0
#include "proto/base/pages.hpp"

#include <sys/mman.h>

#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAWSER_WATCHED_PAGES
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HAWSER_WATCHED_PAGES
#endif

#ifdef HAWSER_WATCHED_PAGES
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>

#include <array>
#include <limits>
#include <mutex>
#include <utility>
#endif

namespace hawser::proto {
namespace {

std::byte* map(std::size_t bytes) {
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(pages);
}

#ifdef HAWSER_WATCHED_PAGES

// The sanitizer's own heap writes to the shadow of each byte that it gives and takes back. Tests
// make many endpoints and use little of each, so most of their time would pass there.

constexpr std::size_t kPage = 4096;

// Mapped bytes: a page that nobody may touch on each side, and the rest of the last page.
std::size_t mapped_for(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - 3 * kPage) throw std::bad_alloc();
  return (bytes + kPage - 1) / kPage * kPage + 2 * kPage;
}

// The blocks given back last, whose addresses nothing else gets meanwhile. Any access is an error.
class Quarantine {
 public:
  void add(std::byte* begin, std::size_t bytes) {
    (void)::madvise(begin, bytes, MADV_DONTNEED);
    if (::mprotect(begin, bytes, PROT_NONE) != 0) {
      ::munmap(begin, bytes);
      return;
    }
    const std::lock_guard lock(mutex_);
    const auto [old, old_bytes] = std::exchange(blocks_[next_], {begin, bytes});
    next_ = (next_ + 1) % blocks_.size();
    if (old != nullptr) ::munmap(old, old_bytes);
  }

 private:
  std::mutex mutex_;
  std::array<std::pair<std::byte*, std::size_t>, 256> blocks_{};
  std::size_t next_ = 0;
};
constinit Quarantine quarantine;

#endif

}  // namespace

#ifdef HAWSER_WATCHED_PAGES

void* take_pages(std::size_t bytes) {
  const std::size_t mapped = mapped_for(bytes);
  std::byte* const begin = map(mapped);
  std::byte* const pages = begin + kPage;
  ASAN_POISON_MEMORY_REGION(begin, kPage);
  ASAN_POISON_MEMORY_REGION(pages + bytes, begin + mapped - (pages + bytes));
  // Memory to which only these pages point is no leak.
  __lsan_register_root_region(pages, bytes);
  return pages;
}

void give_pages(void* pages, std::size_t bytes) noexcept {
  __lsan_unregister_root_region(pages, bytes);
  std::byte* const end = static_cast<std::byte*>(pages) + bytes;
  std::byte* const begin = static_cast<std::byte*>(pages) - kPage;
  const std::size_t mapped = mapped_for(bytes);
  ASAN_UNPOISON_MEMORY_REGION(begin, kPage);
  ASAN_UNPOISON_MEMORY_REGION(end, begin + mapped - end);
  quarantine.add(begin, mapped);
}

#else

void* take_pages(std::size_t bytes) { return map(bytes); }

void give_pages(void* pages, std::size_t bytes) noexcept { ::munmap(pages, bytes); }

#endif

}  // namespace hawser::proto
