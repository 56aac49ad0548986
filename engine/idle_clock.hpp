// SPDX-License-Identifier: Apache-2.0
// Decides how a thread with nothing to do waits. It spins for spin_us, then yields the processor
// for yield_us, then blocks in the kernel. Spinning reacts fastest. Yielding lets other threads on
// the same core run. Blocking leaves the core to them and costs a wake-up.
//
// If other threads want the processor, spinning delays the very threads that would bring work. A
// yield that takes long shows that another thread ran meanwhile. From then on the thread yields at
// once, until yields return quickly again.
#pragma once

#include <cstdint>

#include "hawser/tunables.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine {

class IdleClock {
 public:
  enum class Advice : std::uint8_t { spin, yield, block };

  explicit IdleClock(const Tunables& tunables)
      : spin_(proto::microseconds(tunables.spin_us)),
        yield_(proto::microseconds(tunables.spin_us + tunables.yield_us)) {}

  // The thread had work: the next pause starts from the beginning.
  void progressed() { idle_ = false; }

  // The thread had no work at `now`.
  [[nodiscard]] Advice pause(proto::Time now) {
    if (!idle_) {
      idle_ = true;
      since_ = now;
    }
    const proto::Duration idle = now - since_;
    if (idle < yield_ && (idle >= spin_ || contended_ > 0)) return Advice::yield;
    return idle < spin_ ? Advice::spin : Advice::block;
  }

  // A yield took this long.
  void yielded(proto::Duration took) {
    if (took >= kLate) {
      contended_ = kPrompt;
    } else if (contended_ > 0) {
      --contended_;
    }
  }

  // A yield this long means that another thread ran: the call alone takes less than 1 us.
  static constexpr proto::Duration kLate = proto::microseconds(2);
  // After this many quick yields in a row, no other thread is assumed to want the processor. An
  // interrupt alone can make one yield late. That many yields cost little, as each returns at once.
  static constexpr unsigned kPrompt = 16;

 private:
  proto::Duration spin_;
  proto::Duration yield_;  // counted from the beginning of the pause
  proto::Time since_{};
  bool idle_ = false;
  unsigned contended_ = 0;  // quick yields until the processor counts as free
};

// Spins or yields as advised, and reports yields to the clock. The caller itself handles block.
// Takes a few cycles, or a reschedule.
void pause_briefly(IdleClock::Advice advice, IdleClock& idle) noexcept;

}  // namespace hawser::engine
