// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/userfault.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "engine/background_thread.hpp"
#include "engine/clock.hpp"
#include "engine/own_process.hpp"
#include "engine/system_error.hpp"

// Missing in older headers: handle only faults of user mode, which needs no privilege.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace hawser::engine {
namespace {

constexpr std::uint64_t kEvents =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP;
constexpr std::size_t kBatch = 16;
// A removal is over this long after its event, unless its thread waits for a processor for longer.
constexpr proto::Duration kRemovalTime = proto::milliseconds(1000);

// The descriptor that a child of fork closes. If the child kept it open, the parent's events would
// still wait for a reader after the parent has closed its own.
std::atomic<int> inherited{-1};

// No thread forks while `inherited` and the open descriptor may differ: fork takes this mutex. Its
// holders wait for no other thread.
std::mutex forking;
void before_fork() { forking.lock(); }
void after_fork_in_parent() { forking.unlock(); }
void after_fork_in_child() {
  const int fd = inherited.exchange(-1);
  if (fd >= 0) ::close(fd);
  forking.unlock();
}

Descriptor open_userfaultfd() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  Descriptor fd(static_cast<int>(::syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY)));
  if (!fd && errno == EINVAL) fd = Descriptor(static_cast<int>(::syscall(SYS_userfaultfd, kFlags)));
  if (!fd) throw system_error("the kernel denies this process a userfaultfd");
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kEvents;
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0) {
    throw system_error("the kernel's userfaultfd doesn't report unmapped memory");
  }
  if ((api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) == 0) {
    throw Error("the kernel's userfaultfd lacks write protection (Linux 5.7 or later has it)");
  }
  return fd;
}

// A process's object, while it has users. In a child of fork the parent's object is a copy without
// a thread, and another thread may have held a lock of it, or this one, at the fork. A child
// therefore never touches its parent's, and begins with one of its own.
struct Current {
  OwnProcess owner;
  std::mutex mutex;
  std::weak_ptr<Userfault> object;
  Current* before = nullptr;  // the parent's
};

Current& current_here() {
  static std::atomic<Current*> current{nullptr};
  Current* found = current.load(std::memory_order_acquire);
  while (found == nullptr || !found->owner.is_here()) {
    auto made = std::make_unique<Current>();
    made->before = found;
    if (current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
      return *made.release();
    }
  }
  return *found;
}

}  // namespace

std::shared_ptr<Userfault> Userfault::shared(std::string& why) {
  Current& current = current_here();
  const std::lock_guard lock(current.mutex);
  if (auto found = current.object.lock()) return found;
  try {
    std::shared_ptr<Userfault> made(new Userfault);
    current.object = made;
    return made;
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

Userfault::Userfault() : stop_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!stop_) throw system_error("an event descriptor can't be opened");
  static const int once = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  static_cast<void>(once);
  {
    const std::lock_guard no_fork(forking);
    events_ = open_userfaultfd();
    inherited.store(events_.get());
  }
  try {
    thread_ = start_background_thread("hawser-unmap", [this] { run(); });
  } catch (...) {
    close_events();
    throw;
  }
}

Userfault::~Userfault() {
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Userfault::run() {
  for (;;) {
    std::array<pollfd, 2> fds{{{events_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    (void)::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) read_events();
    if (fds[1].revents != 0) break;
  }
  // Close it here and not later: nobody reads any more, and memory that a thread frees at its end
  // may be watched.
  const std::lock_guard lock(mutex_);
  close_events();
}

void Userfault::close_events() {
  const std::lock_guard no_fork(forking);
  int own = events_.get();
  inherited.compare_exchange_strong(own, -1);
  events_.reset();
}

void Userfault::read_events() {
  const std::lock_guard lock(mutex_);
  in_doubt_.store(true, std::memory_order_seq_cst);
  std::array<uffd_msg, kBatch> messages;
  for (;;) {
    const ssize_t got = ::read(events_.get(), messages.data(), sizeof messages);
    if (got <= 0) break;
    const auto count = static_cast<std::size_t>(got) / sizeof(uffd_msg);
    for (std::size_t i = 0; i < count; ++i) {
      const uffd_msg& message = messages[i];
      if (message.event == UFFD_EVENT_UNMAP || message.event == UFFD_EVENT_REMOVE) {
        const PageRange pages{message.arg.remove.start, message.arg.remove.end};
        if (message.event == UFFD_EVENT_REMOVE) {
          removals_[next_removal_++ % kRemovals] = {pages, monotonic_now()};
        }
        mark(pages);
      } else if (message.event == UFFD_EVENT_REMAP) {
        const auto& remap = message.arg.remap;
        mark({remap.from, remap.from + remap.len});
        // The moved pages took the registration along to their new address, where nobody asked for
        // it.
        ignore({remap.to, remap.to + remap.len});
      }
    }
  }
  in_doubt_.store(false, std::memory_order_release);
}

void Userfault::mark(const PageRange& pages) {
  for (Watch* watch = first_; watch != nullptr; watch = watch->next) {
    if (!watch->pages.overlaps(pages)) continue;
    if (watch->mapping.changed.exchange(true, std::memory_order_release)) continue;
    if (watch->news != nullptr) watch->news->tell();
  }
}

// Ignores only the parts that no watch needs.
void Userfault::ignore(const PageRange& pages) const {
  std::uintptr_t begin = pages.begin;
  while (begin < pages.end) {
    std::uintptr_t end = pages.end;
    std::uintptr_t after = pages.end;  // end of the watch at which the part ends
    for (const Watch* watch = first_; watch != nullptr; watch = watch->next) {
      if (watch->pages.end <= begin || watch->pages.begin >= pages.end) continue;
      if (watch->pages.begin <= begin) {
        end = begin;
        after = watch->pages.end;
        break;
      }
      if (watch->pages.begin < end) {
        end = watch->pages.begin;
        after = watch->pages.end;
      }
    }
    if (end > begin) {
      uffdio_range range{begin, end - begin};
      (void)::ioctl(events_.get(), UFFDIO_UNREGISTER,
                    &range);  // what is unmapped is not registered
    }
    begin = after;
  }
}

bool Userfault::watch(Watch& watch) {
  const std::lock_guard lock(mutex_);
  watch.mapping.changed.store(false, std::memory_order_relaxed);
  watch.mapping.in_doubt = &in_doubt_;
  watch.previous = nullptr;
  watch.next = first_;
  if (first_ != nullptr) first_->previous = &watch;
  first_ = &watch;
  uffdio_register request{};
  request.range = {watch.pages.begin, watch.pages.bytes()};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(events_.get(), UFFDIO_REGISTER, &request) == 0) return true;
  unlink(watch);
  return false;
}

void Userfault::unwatch(Watch& watch) {
  const std::lock_guard lock(mutex_);
  unlink(watch);
  ignore(watch.pages);
}

bool Userfault::was_removed_lately(const PageRange& pages, proto::Time now) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(removals_, [&](const Removal& removal) {
    return removal.pages.overlaps(pages) && now - removal.at < kRemovalTime;
  });
}

void Userfault::unlink(Watch& watch) {
  (watch.previous == nullptr ? first_ : watch.previous->next) = watch.next;
  if (watch.next != nullptr) watch.next->previous = watch.previous;
  watch.previous = watch.next = nullptr;
}

}  // namespace hawser::engine
