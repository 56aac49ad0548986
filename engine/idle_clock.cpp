// SPDX-License-Identifier: Apache-2.0
#include "engine/idle_clock.hpp"

#include <rte_config.h>
#include <rte_pause.h>
#include <sched.h>

#include "engine/clock.hpp"

namespace hawser::engine {

void pause_briefly(IdleClock::Advice advice, IdleClock& idle) noexcept {
  if (advice == IdleClock::Advice::yield) {
    const proto::Time from = monotonic_now();
    ::sched_yield();
    idle.yielded(monotonic_now() - from);
  } else {
    rte_pause();
  }
}

}  // namespace hawser::engine
