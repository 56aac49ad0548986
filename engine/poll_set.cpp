// SPDX-License-Identifier: Apache-2.0
#include "engine/poll_set.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

#include "engine/system_error.hpp"

namespace hawser::engine {

PollSet::PollSet() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) {
    throw system_error("An epoll descriptor can't be opened");
  }
}

void PollSet::add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw system_error("A descriptor can't be added to epoll");
  }
}

void PollSet::remove(int fd) noexcept { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void PollSet::wait(proto::Time now, proto::Time until) const {
  wait_readable(epoll_.get(), now, until);
}

void wait_readable(int fd, proto::Time now, proto::Time until) {
  if (until <= now) return;
  // ppoll takes nanoseconds. epoll_wait takes milliseconds, longer than many of the timers here.
  timespec timeout{};
  if (until != proto::kNever) {
    const std::int64_t left = (until - now).ns;
    timeout.tv_sec = left / 1'000'000'000;
    timeout.tv_nsec = left % 1'000'000'000;
  }
  pollfd readable{fd, POLLIN, 0};
  ::ppoll(&readable, 1, until == proto::kNever ? nullptr : &timeout, nullptr);
}

}  // namespace hawser::engine
