// SPDX-License-Identifier: Apache-2.0
// Learns from the kernel when watched addresses come to refer to other memory: by munmap, mremap,
// madvise(MADV_DONTNEED and the like), brk, or a mapping placed over them.
//
// A userfaultfd is registered for write protection that is never used, so nobody ever faults, and
// only its events arrive. The kernel blocks a thread that changes a watched mapping in its system
// call until the event is read. Reading happens between two marks:
//
//   in doubt := true;  read the event;  mark the watches that it concerns;  in doubt := false.
//
// Once the call has returned, other threads therefore see the doubt or the mark. They never see a
// mapping that only seems to hold (proto::Mapping). The monitors of libfabric and UCX work the same
// way, with a lock in place of the doubt. With the doubt no sender waits.
//
// Deadlock. Any thread may be blocked in such a call until this thread has read the event. It may
// hold any locks, even an allocator's. This thread therefore neither allocates nor frees nor logs.
// It takes only one lock, which others hold for a few ioctls and never while they map or unmap.
//
// There is one per process, because a mapping can have only one userfaultfd. A forked child has no
// part in its parent's, and makes its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/descriptor.hpp"
#include "engine/registration/news.hpp"
#include "engine/registration/page_range.hpp"
#include "proto/base/time.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// A watch. Its owner keeps it at the same address from watch to unwatch.
struct Watch {
  PageRange pages;
  News* news = nullptr;  // told when the mapping changes
  proto::Mapping mapping;

 private:
  friend class Userfault;
  Watch* previous = nullptr;
  Watch* next = nullptr;
};

class Userfault {
 public:
  // Returns the process's object, which ends with its last user. Returns null if the kernel
  // refuses, with a sentence in `why`.
  [[nodiscard]] static std::shared_ptr<Userfault> shared(std::string& why);
  ~Userfault();
  Userfault(const Userfault&) = delete;
  Userfault& operator=(const Userfault&) = delete;

  // For any thread but this object's own. Neither call allocates. From here on the mapping of
  // `watch` holds until it changes. False: this memory can't be watched (not all of it is mapped,
  // or another userfaultfd watches it).
  [[nodiscard]] bool watch(Watch& watch);
  void unwatch(Watch& watch);

  // For any thread. True if madvise has removed watched pages of this range lately, and may still
  // be at it. The kernel drops the pages only after their event has been read. Pages that are
  // pinned in between are the old ones, and no watch that begins in between hears of it.
  [[nodiscard]] bool was_removed_lately(const PageRange& pages, proto::Time now);

 private:
  Userfault();  // throws Error
  void run();
  void read_events();
  void close_events();
  void mark(const PageRange& pages);
  void ignore(const PageRange& pages) const;
  void unlink(Watch& watch);

  Descriptor events_;
  Descriptor stop_;
  std::atomic<bool> in_doubt_{false};
  std::mutex mutex_;  // guards the list, the removals, and the registrations with the kernel
  Watch* first_ = nullptr;
  // The newest removals. A thread removes one range at a time, so the ring holds those that may
  // still be under way in this many threads.
  struct Removal {
    PageRange pages;
    proto::Time at{};
  };
  static constexpr std::size_t kRemovals = 64;
  std::array<Removal, kRemovals> removals_{};
  std::size_t next_removal_ = 0;
  std::thread thread_;
};

}  // namespace hawser::engine
