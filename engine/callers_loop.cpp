// SPDX-License-Identifier: Apache-2.0
#include "engine/callers_loop.hpp"

#include <sys/timerfd.h>

#include <algorithm>

#include "engine/system_error.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::kNever;
using proto::Time;

CallersLoop::CallersLoop(const PollSet& sources)
    : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  if (!timer_) throw system_error("A timer descriptor can't be opened");
  set_.add(timer_.get());
  set_.add(sources.descriptor());
}

int CallersLoop::descriptor() const noexcept {
  // Events before this call set no timer. Make the descriptor readable, so that the caller polls
  // once.
  if (!used_) {
    armed_ = Time{1};
    set_timer(armed_);
  }
  used_ = true;
  return set_.descriptor();
}

void CallersLoop::wake_at(Time now, Time when) noexcept {
  if (!used_) return;
  const bool is_readable = armed_ <= now;
  // A readable descriptor stays readable. A timer that is too early costs one useless poll, which
  // is cheaper than setting it with every turn.
  if (is_readable ? when <= now : armed_ <= when) return;
  set_timer(when);
  armed_ = when;
}

void CallersLoop::set_timer(Time when) const noexcept {
  itimerspec timer{};  // all zero: never
  if (when != kNever) {
    const std::int64_t ns = std::max<std::int64_t>(when.ns, 1);
    timer.it_value.tv_sec = ns / 1'000'000'000;
    timer.it_value.tv_nsec = ns % 1'000'000'000;
  }
  const int set = ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
  HAWSER_ASSERT(set == 0);
}

}  // namespace hawser::engine
