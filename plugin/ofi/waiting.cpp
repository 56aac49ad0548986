// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/waiting.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "plugin/ofi/uncancelled.hpp"

namespace hawser::ofi {

Waiting::Waiting()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), bell_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (epoll_ < 0 || bell_ < 0) {
    const int error = errno;
    if (epoll_ >= 0) ::close(epoll_);
    if (bell_ >= 0) ::close(bell_);
    throw std::system_error(error, std::generic_category(), "epoll or eventfd");
  }
  watch(bell_);
}

Waiting::~Waiting() {
  const Uncancelled uncancelled;
  ::close(bell_);
  ::close(epoll_);
}

void Waiting::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
}

void Waiting::forget(int descriptor) {
  epoll_event event{};
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, &event);
}

void Waiting::ring() {
  const Uncancelled uncancelled;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(bell_, &one, sizeof one);
}

void Waiting::quiet() {
  const Uncancelled uncancelled;
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t taken = ::read(bell_, &rings, sizeof rings);
}

void Waiting::wait(int timeout_ms) const {
  // The event is never read. It is not on the stack, because AddressSanitizer doesn't clear the
  // frames of a cancelled thread.
  thread_local epoll_event event;
  ::epoll_wait(epoll_, &event, 1, timeout_ms);
}

bool is_offered(fi_wait_obj object) {
  return object == FI_WAIT_NONE || object == FI_WAIT_UNSPEC || object == FI_WAIT_FD ||
         object == FI_WAIT_YIELD;
}

}  // namespace hawser::ofi
