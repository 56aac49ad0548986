// SPDX-License-Identifier: Apache-2.0
#include "engine/doorbell.hpp"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/cancellation.hpp"
#include "engine/system_error.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

Doorbell::Doorbell() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) {
    throw system_error("An event descriptor can't be opened");
  }
}

void Doorbell::ring() noexcept {
  // In the common case nobody sleeps and nothing changes. It must still be a read-modify-write: see
  // doorbell.hpp.
  std::uint32_t state = state_.fetch_or(0, std::memory_order_acq_rel);
  while (state == kArmed) {
    if (state_.compare_exchange_weak(state, kRung, std::memory_order_acq_rel)) {
      const CancellationHold hold;
      const std::uint64_t one = 1;
      const ssize_t written = ::write(event_.get(), &one, sizeof one);
      HAWSER_ASSERT(written == sizeof one, "an eventfd takes 2^64 - 2 rings");
      return;
    }
  }
}

bool Doorbell::arm() noexcept {
  std::uint32_t state = kIdle;
  if (state_.compare_exchange_strong(state, kArmed, std::memory_order_acq_rel)) return true;
  // A failed exchange is not a read-modify-write. Repeat it as one that changes nothing.
  return state_.fetch_or(0, std::memory_order_acq_rel) == kArmed;
}

void Doorbell::disarm() noexcept {
  std::uint32_t state = kArmed;
  if (state_.compare_exchange_strong(state, kIdle, std::memory_order_acq_rel)) return;
  if (state != kRung) return;
  // The waker writes to the descriptor after it has changed the state. If it has not written yet,
  // the state stays kRung: the descriptor is about to be readable, and until then arm returns
  // false.
  const CancellationHold hold;
  std::uint64_t count = 0;
  if (::read(event_.get(), &count, sizeof count) == sizeof count) {
    state_.store(kIdle, std::memory_order_release);
  }
}

}  // namespace hawser::engine
