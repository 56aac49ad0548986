// How a thread with nothing to do waits: it spins for spin_us, then yields the processor for
// yield_us, then blocks in the kernel. Spinning is the fastest to react; yielding lets others that
// share the core run; blocking leaves the core to them and costs a wake-up.
#pragma once

#include <cstdint>

#include "hawser/tunables.hpp"
#include "proto/time.hpp"

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
    if (idle < spin_) return Advice::spin;
    return idle < yield_ ? Advice::yield : Advice::block;
  }

 private:
  proto::Duration spin_;
  proto::Duration yield_;  // from the beginning
  proto::Time since_{};
  bool idle_ = false;
};

// Does what the advice says, but for block, which is the caller's. A few cycles, or a reschedule.
void pause_briefly(IdleClock::Advice advice) noexcept;

}  // namespace hawser::engine
