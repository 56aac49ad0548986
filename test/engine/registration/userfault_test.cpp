// SPDX-License-Identifier: Apache-2.0
// The watch on the process's mappings, with real mappings. Where the kernel gives no userfaultfd,
// each test says so and ends.
#include "engine/registration/userfault.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "engine/clock.hpp"
#include "engine/registration/mappings.hpp"

namespace hawser::engine {
namespace {

// Declare it before its Userfault, so that it is unmapped after it. A page that a test unmaps or
// moves no longer belongs to it: the next mapping may get that address.
class Pages {
 public:
  explicit Pages(std::size_t count, int flags = MAP_PRIVATE | MAP_ANONYMOUS) : owned_(count, true) {
    void* const data = ::mmap(nullptr, count * page_bytes(), PROT_READ | PROT_WRITE, flags, -1, 0);
    REQUIRE(data != MAP_FAILED);
    data_ = static_cast<std::byte*>(data);
    std::memset(data_, 1, count * page_bytes());
  }
  ~Pages() { (void)unmap(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] std::byte* page(std::size_t i) const { return data_ + i * page_bytes(); }
  [[nodiscard]] PageRange range(std::size_t first, std::size_t count) const {
    return pages_of(page(first), count * page_bytes());
  }
  // Makes one system call for each run of pages it still owns. False if one has failed.
  bool unmap(std::size_t first, std::size_t count) {
    bool all = true;
    const std::size_t end = first + count;
    while (first < end) {
      std::size_t run = 0;
      while (first + run < end && owned_[first + run]) ++run;
      if (run > 0) all &= ::munmap(page(first), run * page_bytes()) == 0;
      disown(first, run);
      first += run + 1;
    }
    return all;
  }
  bool unmap() { return unmap(0, owned_.size()); }
  // Notes that the test has moved or unmapped these pages.
  void disown(std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) owned_[i] = false;
  }

 private:
  std::vector<bool> owned_;
  std::byte* data_ = nullptr;
};

std::shared_ptr<Userfault> userfault_or_reason() {
  std::string why;
  auto userfault = Userfault::shared(why);
  if (userfault == nullptr) WARN("skipped: " << why);
  return userfault;
}

#define HAWSER_USERFAULT(name)                    \
  const auto name##_held = userfault_or_reason(); \
  if (name##_held == nullptr) return;             \
  Userfault& name = *name##_held

bool starts(Userfault& userfault, Watch& watch, const PageRange& pages) {
  watch.pages = pages;
  return userfault.watch(watch);
}

}  // namespace

TEST_CASE("Userfault__an_unmapped_range_does_not_hold_when_munmap_has_returned") {
  HAWSER_USERFAULT(userfault);
  for (int round = 0; round < 500; ++round) {
    Pages pages(4);
    Watch watch;
    REQUIRE(starts(userfault, watch, pages.range(0, 4)));
    REQUIRE(watch.mapping.holds());
    REQUIRE(pages.unmap());
    REQUIRE_FALSE(watch.mapping.holds());
    userfault.unwatch(watch);
    REQUIRE(watch.mapping.changed.load());
  }
}

// The watch that is marked before `watch` lies on a page where writes block until the test lets
// them go on. This stops the marking thread between reading the event and marking `watch`.
TEST_CASE("Userfault__does_not_hold_either_while_the_change_is_being_written_down") {
  Pages pages(1);
  Pages slow(1);
  HAWSER_USERFAULT(userfault);
  const Descriptor barrier(
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
  REQUIRE(barrier);
  uffdio_api api{UFFD_API, UFFD_FEATURE_PAGEFAULT_FLAG_WP, 0};
  REQUIRE(::ioctl(barrier.get(), UFFDIO_API, &api) == 0);
  const auto where = reinterpret_cast<std::uint64_t>(slow.page(0));
  uffdio_register covered{{where, page_bytes()}, UFFDIO_REGISTER_MODE_WP, 0};
  REQUIRE(::ioctl(barrier.get(), UFFDIO_REGISTER, &covered) == 0);
  const auto protect = [&](std::uint64_t mode) {
    uffdio_writeprotect request{{where, page_bytes()}, mode};
    return ::ioctl(barrier.get(), UFFDIO_WRITEPROTECT, &request) == 0;
  };

  Watch watch;
  Watch& first = *new (slow.page(0)) Watch;
  REQUIRE(starts(userfault, watch, pages.range(0, 1)));
  REQUIRE(starts(userfault, first, pages.range(0, 1)));
  REQUIRE(protect(UFFDIO_WRITEPROTECT_MODE_WP));
  const bool unmapped = pages.unmap();
  const bool held = watch.mapping.holds();
  const bool was_changed = watch.mapping.changed.load();
  REQUIRE(protect(0));
  CHECK(unmapped);
  CHECK_FALSE(held);
  CHECK_FALSE(was_changed);
  userfault.unwatch(first);
  userfault.unwatch(watch);
  CHECK(watch.mapping.changed.load());
}

TEST_CASE("Userfault__tells_only_those_that_it_concerns") {
  Pages pages(8);
  HAWSER_USERFAULT(userfault);
  News news;
  Watch first;
  Watch both;
  Watch last;
  both.news = &news;
  REQUIRE(starts(userfault, first, pages.range(0, 2)));
  REQUIRE(starts(userfault, both, pages.range(1, 5)));
  REQUIRE(starts(userfault, last, pages.range(6, 2)));
  CHECK_FALSE(news.take());
  SECTION("part of it is unmapped") { REQUIRE(pages.unmap(4, 1)); }
  SECTION("its pages are given back") {
    REQUIRE(::madvise(pages.page(3), page_bytes(), MADV_DONTNEED) == 0);
  }
  SECTION("its pages may be taken") {
    REQUIRE(::madvise(pages.page(3), page_bytes(), MADV_FREE) == 0);
  }
  SECTION("another mapping is placed over it") {
    REQUIRE(::mmap(pages.page(4), page_bytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pages.page(4));
  }
  SECTION("it shrinks and moves") {
    const std::size_t bytes = 2 * page_bytes();
    void* const moved = ::mremap(pages.page(4), bytes, 16 * bytes, MREMAP_MAYMOVE);
    REQUIRE(moved != MAP_FAILED);
    pages.disown(4, 2);
    CHECK(moved != static_cast<void*>(pages.page(4)));
    // At its new place the memory is not watched, so a new watch can start.
    Watch there;
    REQUIRE(starts(userfault, there, pages_of(moved, bytes)));
    CHECK(there.mapping.holds());
    REQUIRE(::munmap(moved, 16 * bytes) == 0);
    CHECK_FALSE(there.mapping.holds());
    userfault.unwatch(there);
  }
  CHECK_FALSE(both.mapping.holds());
  // The doubt about the other two watches ends by itself.
  while (!first.mapping.holds()) std::this_thread::yield();
  CHECK(last.mapping.holds());
  CHECK(news.take());
  CHECK_FALSE(news.take());
  for (Watch* const watch : {&first, &both, &last}) userfault.unwatch(*watch);
}

TEST_CASE("Userfault__use_of_the_memory_is_no_change") {
  Pages pages(4);
  HAWSER_USERFAULT(userfault);
  Watch watch;
  REQUIRE(starts(userfault, watch, pages.range(0, 4)));
  std::memset(pages.page(0), 2, 4 * page_bytes());
  REQUIRE(::mprotect(pages.page(0), page_bytes(), PROT_READ) == 0);
  REQUIRE(::mprotect(pages.page(0), page_bytes(), PROT_READ | PROT_WRITE) == 0);
  std::memset(pages.page(0), 3, page_bytes());
  CHECK(watch.mapping.holds());
  userfault.unwatch(watch);
}

TEST_CASE("Userfault__ending_one_watch_leaves_the_others") {
  Pages pages(6);
  HAWSER_USERFAULT(userfault);
  Watch left;
  Watch right;
  REQUIRE(starts(userfault, left, pages.range(0, 4)));
  REQUIRE(starts(userfault, right, pages.range(2, 4)));
  userfault.unwatch(left);
  REQUIRE(pages.unmap(0, 1));
  CHECK(right.mapping.holds());
  REQUIRE(::madvise(pages.page(2), page_bytes(), MADV_DONTNEED) == 0);
  CHECK_FALSE(right.mapping.holds());
  userfault.unwatch(right);
}

TEST_CASE("Userfault__remembers_for_a_while_what_madvise_removed") {
  Pages pages(4);
  HAWSER_USERFAULT(userfault);
  Watch watch;
  REQUIRE(starts(userfault, watch, pages.range(0, 4)));
  const proto::Time before = monotonic_now();
  REQUIRE_FALSE(userfault.was_removed_lately(pages.range(0, 4), before));
  REQUIRE(::madvise(pages.page(1), page_bytes(), MADV_DONTNEED) == 0);
  CHECK(userfault.was_removed_lately(pages.range(0, 2), before));
  // The removal was noted before that answer, but perhaps after madvise had returned.
  const proto::Time after = monotonic_now();
  CHECK_FALSE(userfault.was_removed_lately(pages.range(0, 1), before));
  CHECK_FALSE(userfault.was_removed_lately(pages.range(2, 2), before));
  CHECK_FALSE(userfault.was_removed_lately(pages.range(0, 2), after + proto::milliseconds(1000)));
  // A mapping is gone before its event comes.
  REQUIRE(pages.unmap(3, 1));
  CHECK_FALSE(userfault.was_removed_lately(pages.range(3, 1), before));
  userfault.unwatch(watch);
}

TEST_CASE("Userfault__what_is_not_mapped_can_not_be_watched") {
  Pages pages(3);
  HAWSER_USERFAULT(userfault);
  REQUIRE(pages.unmap(1, 1));
  Watch watch;
  CHECK_FALSE(starts(userfault, watch, pages.range(1, 1)));
  CHECK(starts(userfault, watch, pages.range(2, 1)));
  userfault.unwatch(watch);
}

TEST_CASE("Userfault__a_child_has_no_part_in_it") {
  Pages pages(2);
  HAWSER_USERFAULT(userfault);
  Watch watch;
  REQUIRE(starts(userfault, watch, pages.range(0, 2)));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // If the child's unmapping raised an event, no thread would read it, and munmap would hang.
    ::_exit(::munmap(pages.page(0), 2 * page_bytes()) == 0 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(watch.mapping.holds());
  userfault.unwatch(watch);
}

TEST_CASE("Userfault__a_child_has_one_of_its_own") {
  Pages pages(2);
  HAWSER_USERFAULT(userfault);
  Watch watch;
  REQUIRE(starts(userfault, watch, pages.range(0, 1)));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    std::string why;
    const auto own = Userfault::shared(why);
    if (own == nullptr || own.get() == &userfault) ::_exit(1);
    if (Userfault::shared(why) != own) ::_exit(2);
    Watch other;
    if (!starts(*own, other, pages.range(1, 1)) || !other.mapping.holds()) ::_exit(3);
    (void)::madvise(pages.page(1), page_bytes(), MADV_DONTNEED);
    ::_exit(other.mapping.holds() ? 4 : 0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(watch.mapping.holds());
  userfault.unwatch(watch);
}

// True if this process has an open userfaultfd. Allocates nothing, since another thread may have
// held the allocator's locks at the fork.
bool has_userfaultfd() {
  for (int fd = 0; fd < 1024; ++fd) {
    char path[32];
    char to[64] = {};
    (void)std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (::readlink(path, to, sizeof to - 1) > 0 && std::strstr(to, "userfaultfd")) return true;
  }
  return false;
}

// If a child kept the descriptor, the parent's events would wait for a reader for ever.
TEST_CASE("Userfault__no_child_keeps_the_descriptor_of_one_that_begins_or_ends") {
  if (userfault_or_reason() == nullptr) return;
  std::atomic<bool> stop{false};
  std::thread maker([&] {
    std::string why;
    while (!stop) (void)Userfault::shared(why);
  });
  int kept = 0;
  for (int round = 0; round < 300; ++round) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(has_userfaultfd() ? 1 : 0);
    int status = -1;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) ++kept;
  }
  stop = true;
  maker.join();
  CHECK(kept == 0);
}

TEST_CASE("Userfault__threads_that_allocate_and_unmap_do_not_stop_each_other") {
  HAWSER_USERFAULT(userfault);
  std::atomic<int> wrong{0};
  const auto unmap = [&] {
    for (int round = 0; round < 200; ++round) {
      void* const data = ::mmap(nullptr, 2 * page_bytes(), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      Watch watch;
      wrong += starts(userfault, watch, pages_of(data, 2 * page_bytes())) ? 0 : 1;
      ::munmap(data, 2 * page_bytes());
      wrong += watch.mapping.holds() ? 1 : 0;
      userfault.unwatch(watch);
    }
  };
  // The blocks are so long that the allocator maps and unmaps them, watched pages included.
  const auto allocate = [&] {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::byte> memory(std::size_t{1} << 20);
      Watch watch;
      wrong += starts(userfault, watch, pages_of(memory.data(), memory.size())) ? 0 : 1;
      std::vector<std::byte>().swap(memory);
      userfault.unwatch(watch);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(unmap);
    threads.emplace_back(allocate);
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("Mappings__only_private_memory_of_no_file") {
  Pages own(4);
  CHECK(is_private_memory(own.range(0, 4)));
  CHECK(is_private_memory(own.range(1, 1)));
  // Split the memory into several mappings side by side.
  REQUIRE(::mprotect(own.page(1), page_bytes(), PROT_READ) == 0);
  CHECK(is_private_memory(own.range(0, 4)));
  REQUIRE(own.unmap(2, 1));
  CHECK_FALSE(is_private_memory(own.range(0, 4)));
  CHECK_FALSE(is_private_memory(own.range(2, 1)));
  CHECK(is_private_memory(own.range(3, 1)));
  const Pages shared(2, MAP_SHARED | MAP_ANONYMOUS);
  CHECK_FALSE(is_private_memory(shared.range(0, 2)));
  static const char of_a_file[] = "a constant of this program";
  CHECK_FALSE(is_private_memory(pages_of(of_a_file, sizeof of_a_file)));
  const std::vector<std::byte> heap(100'000);
  CHECK(is_private_memory(pages_of(heap.data(), heap.size())));
  const int on_the_stack = 0;
  CHECK(is_private_memory(pages_of(&on_the_stack, sizeof on_the_stack)));
}

}  // namespace hawser::engine
