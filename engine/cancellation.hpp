// SPDX-License-Identifier: Apache-2.0
// Cancellation of a thread (pthread_cancel) that is in one of our calls.
//
// A thread that ended in the middle of a turn would leave an endpoint half changed. One that ended
// in a destructor, or in a function that is noexcept, would end the process. Cancellation acts in
// one place only: where Endpoint::wait blocks (wait_readable). No lock is taken there, no turn is
// under way, and no completion is in hand. Every other system call that is a cancellation point
// (pthreads(7)) is made under a CancellationHold. test/engine/cancellation_test.cpp makes all calls
// from a thread that has been cancelled before.
#pragma once

#include <pthread.h>

namespace hawser::engine {

// Holds off the cancellation of the thread that makes it until it goes. They nest.
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
