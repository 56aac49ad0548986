#include "engine/idle_clock.hpp"

#include <rte_pause.h>
#include <sched.h>

namespace hawser::engine {

void pause_briefly(IdleClock::Advice advice) noexcept {
  if (advice == IdleClock::Advice::yield) {
    ::sched_yield();
  } else {
    rte_pause();
  }
}

}  // namespace hawser::engine
