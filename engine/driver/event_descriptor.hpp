// SPDX-License-Identifier: Apache-2.0
// A descriptor that one thread raises and another waits for.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "engine/cancellation.hpp"
#include "engine/descriptor.hpp"
#include "engine/system_error.hpp"

namespace hawser::engine {

// Throws Error, with `whose` in its text.
[[nodiscard]] inline Descriptor make_event_descriptor(const std::string& whose) {
  Descriptor fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) throw system_error(whose + ": an event descriptor can't be opened");
  return fd;
}

inline void raise_event(int fd) {
  const CancellationHold hold;
  const std::uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);  // if it is full, it is readable anyway
}

inline void lower_event(int fd) {
  const CancellationHold hold;
  std::uint64_t count = 0;
  (void)!::read(fd, &count, sizeof count);
}

// Waits until the descriptor is readable or the time is over; -1 means without limit.
inline void wait_for_event(int fd, int milliseconds) {
  const CancellationHold hold;
  pollfd polled{fd, POLLIN, 0};
  (void)::poll(&polled, 1, milliseconds);
}

}  // namespace hawser::engine
