// SPDX-License-Identifier: Apache-2.0
// How a program that reads again and again, and finds nothing, lets others have the processor.
//
// Libfabric's reads do not block, and libraries call them in a loop that ends when something came.
// Where ranks share a processor, such a loop keeps those from running that would bring it. So reads
// that follow each other closely spin for spin_us, then one yields the processor. How long that
// takes tells whether others want it. If so, each read that follows one in vain yields, until
// yields come back at once. A read that stands alone never yields: its program has something else
// to do.
//
// A read doesn't block instead. The processor of a thread that blocks falls idle where nobody else
// wants it, and to wake it takes longer than a message's round trip: 40 us in a virtual machine.
// Beside programs that compute, a yield costs a time slice, and being woken costs no less.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hawser::ofi {

// Any thread. What threads tell it at the same moment may be lost, which costs a yield.
class IdleReads {
 public:
  explicit IdleReads(std::uint64_t spin_us) : spin_(std::chrono::microseconds(spin_us)) {}

  // A read found something.
  void found() { last_.store(kNever, std::memory_order_relaxed); }
  // A read found nothing. To be called without locks.
  void pause();

 private:
  using Nanos = std::chrono::nanoseconds;
  static constexpr std::int64_t kNever = 0;
  // From one read's end to the next one's that follows it: more than a turn that brings nothing.
  static constexpr Nanos kClosely = std::chrono::microseconds(20);
  // Somebody else ran: the call alone takes less than 1 us.
  static constexpr Nanos kLate = std::chrono::microseconds(2);
  // Yields that came back at once, after which nobody else is taken to want the processor.
  static constexpr unsigned kPrompt = 16;

  Nanos spin_;
  std::atomic<std::int64_t> last_{kNever};  // read in vain; of a steady clock
  std::atomic<std::int64_t> since_{0};      // they have followed each other
  std::atomic<unsigned> contended_{0};      // prompt yields until it isn't
};

}  // namespace hawser::ofi
