// SPDX-License-Identifier: Apache-2.0
// Programs end their progress threads by pthread_cancel. Cancellation acts where fi_cq_sread,
// fi_cntr_wait and fi_eq_sread wait, and nowhere else: what is noexcept, or has changed half of a
// queue, calls the system under an Uncancelled.
#pragma once

#include <pthread.h>

namespace hawser::ofi {

// As long as it lives its thread isn't cancelled.
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
