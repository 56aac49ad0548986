// SPDX-License-Identifier: Apache-2.0
// Cancellation of a thread (pthread_cancel) during a call into the library.
//
// A thread that ended in the middle of a turn would leave an endpoint half changed. One that ended
// in a destructor, or in a noexcept function, would end the process. Cancellation therefore acts in
// one place only: where Endpoint::wait blocks (wait_readable). That code holds no lock, runs no
// turn and has no completion in hand. Every other system call that is a cancellation point
// (pthreads(7)) runs under a CancellationHold. test/engine/cancellation_test.cpp makes all calls
// from a thread that has been cancelled before.
#pragma once

#include <pthread.h>

namespace hawser::engine {

// Disables cancellation of the current thread during its lifetime. Holds may nest.
class CancellationHold {
 public:
  CancellationHold() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationHold() { ::pthread_setcancelstate(before_, nullptr); }
  CancellationHold(const CancellationHold&) = delete;
  CancellationHold& operator=(const CancellationHold&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace hawser::engine
