// SPDX-License-Identifier: Apache-2.0
// Programs end their progress threads by pthread_cancel. Cancellation acts only where fi_cq_sread,
// fi_cntr_wait and fi_eq_sread wait. All other code that is noexcept, or that has changed half of a
// queue, makes its system calls under an Uncancelled.
#pragma once

#include <pthread.h>

namespace hawser::ofi {

// Disables cancellation of its thread during its lifetime.
class Uncancelled {
 public:
  Uncancelled() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_); }
  ~Uncancelled() { ::pthread_setcancelstate(state_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int state_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace hawser::ofi
