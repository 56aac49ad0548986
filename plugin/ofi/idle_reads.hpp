// SPDX-License-Identifier: Apache-2.0
// Yields the processor for a program that reads repeatedly and finds nothing.
//
// Libfabric's reads do not block, and libraries call them in a loop until something comes. If ranks
// share a processor, such a loop delays the very ranks that would send something. Reads that follow
// each other closely therefore spin for spin_us, and then one yields the processor. The time that
// the yield takes shows whether other threads want the processor. If so, each further read without
// result yields, until yields return at once. A single read never yields, because its program has
// other work.
//
// A read yields rather than blocks. If no other thread wants the processor of a blocked thread, the
// processor falls idle. Waking it takes longer than a message's round trip: 40 us in a virtual
// machine. If other programs compute on that processor, a yield costs a time slice, but waking
// costs no less.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hawser::ofi {

// For any thread. An update may be lost if two threads make it at once, which costs a yield.
class IdleReads {
 public:
  explicit IdleReads(std::uint64_t spin_us) : spin_(std::chrono::microseconds(spin_us)) {}

  // A read begins, and will make progress.
  void begin();
  // It found something.
  void found() { last_.store(kNever, std::memory_order_relaxed); }
  // It found nothing. Call it without locks.
  void pause();

 private:
  using Nanos = std::chrono::nanoseconds;
  static constexpr std::int64_t kNever = 0;
  // Longest time from one read's end to the beginning of the next, if they follow each other. The
  // progress in between doesn't count, as a turn may take long on a slow or busy machine.
  static constexpr Nanos kClosely = std::chrono::microseconds(20);
  // A yield this long means that another thread ran: the call alone takes less than 1 us.
  static constexpr Nanos kLate = std::chrono::microseconds(2);
  // After this many quick yields in a row, no other thread is assumed to want the processor.
  static constexpr unsigned kPrompt = 16;

  Nanos spin_;
  std::atomic<std::int64_t> last_{
      kNever};                          // end of the last read without result, by a steady clock
  std::atomic<bool> follows_{false};    // this read follows that one closely
  std::atomic<std::int64_t> since_{0};  // start of the present series of reads
  std::atomic<unsigned> contended_{0};  // quick yields until the processor counts as free
};

}  // namespace hawser::ofi
