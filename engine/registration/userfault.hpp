// SPDX-License-Identifier: Apache-2.0
// Learns from the kernel when watched addresses come to mean other memory: munmap, mremap,
// madvise(MADV_DONTNEED and the like), brk, and a mapping placed over them.
//
// A userfaultfd is registered for write protection that is never used, so nobody ever faults: what
// it brings are the events. The kernel keeps a thread that changes a watched mapping in its system
// call until the event is read, and reading is done between two marks:
//
//   in doubt := true;  read the event;  mark the watches that it concerns;  in doubt := false
//
// So once the call has returned, whoever looks sees the doubt or the mark, and never a mapping that
// only seems to hold (proto::Mapping). This is how libfabric's and UCX's monitors do it, with a
// lock where there is a doubt here: nobody who sends waits.
//
// Deadlock. Any thread may be in such a call, holding whatever it holds, an allocator's locks too,
// until this thread has read. So the thread neither allocates nor frees nor logs, and the only lock
// that it takes is held by others for a few ioctls and never over anything that maps or unmaps.
//
// One a process: a mapping has only one userfaultfd. A forked child has no part in it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/descriptor.hpp"
#include "engine/registration/news.hpp"
#include "engine/registration/page_range.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// Its owner's; from watch to unwatch it stays where it is.
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
  // The process's; it ends with its last user. Null if the kernel refuses: `why` is a sentence
  // then.
  [[nodiscard]] static std::shared_ptr<Userfault> shared(std::string& why);
  ~Userfault();
  Userfault(const Userfault&) = delete;
  Userfault& operator=(const Userfault&) = delete;

  // Any thread but this one's own; neither allocates. The mapping of `watch` holds from here on
  // until it changes. False: this memory can't be watched (not all of it is mapped, or somebody
  // else watches it).
  [[nodiscard]] bool watch(Watch& watch);
  void unwatch(Watch& watch);

 private:
  Userfault();  // throws Error
  void run();
  void read_events();
  void mark(const PageRange& pages);
  void ignore(const PageRange& pages) const;
  void unlink(Watch& watch);

  Descriptor events_;
  Descriptor stop_;
  std::atomic<bool> in_doubt_{false};
  std::mutex mutex_;  // over the list, and over what is registered with the kernel
  Watch* first_ = nullptr;
  std::thread thread_;
};

}  // namespace hawser::engine
