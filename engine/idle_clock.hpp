// SPDX-License-Identifier: Apache-2.0
// How a thread with nothing to do waits: it spins for spin_us, then yields the processor for
// yield_us, then blocks in the kernel. Spinning is the fastest to react; yielding lets others that
// share the core run; blocking leaves the core to them and costs a wake-up.
//
// Where others want the processor, spinning keeps those from running that would bring something.
// That shows when a yield takes long, as somebody ran meanwhile: then it yields at once, until
// yields come back soon.
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

  // There was something to do: the next pause starts from the beginning.
  void progressed() { idle_ = false; }

  // There was nothing to do at `now`.
  [[nodiscard]] Advice pause(proto::Time now) {
    if (!idle_) {
      idle_ = true;
      since_ = now;
    }
    const proto::Duration idle = now - since_;
    if (idle < yield_ && (idle >= spin_ || contended_ > 0)) return Advice::yield;
    return idle < spin_ ? Advice::spin : Advice::block;
  }

  // A yield took so long.
  void yielded(proto::Duration took) {
    if (took >= kLate) {
      contended_ = kPrompt;
    } else if (contended_ > 0) {
      --contended_;
    }
  }

  // Somebody else ran: the call alone takes less than 1 us.
  static constexpr proto::Duration kLate = proto::microseconds(2);
  // Yields that came back soon, after which nobody else is taken to want the processor. An
  // interrupt makes one late; so many cost little, as each gives back at once.
  static constexpr unsigned kPrompt = 16;

 private:
  proto::Duration spin_;
  proto::Duration yield_;  // from the beginning
  proto::Time since_{};
  bool idle_ = false;
  unsigned contended_ = 0;  // prompt yields until it isn't
};

// Does what the advice says, but for block, which is the caller's, and tells the clock. A few
// cycles, or a reschedule.
void pause_briefly(IdleClock::Advice advice, IdleClock& idle) noexcept;

}  // namespace hawser::engine
