// SPDX-License-Identifier: Apache-2.0
// The only place that reads a clock. Poll loops read it once a turn and pass the value down.
#pragma once

#include <time.h>

#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::engine {

// CLOCK_MONOTONIC: the time of all timers and of everything in proto/. Steps of the wall clock
// don't change it, and it stops only while the machine is suspended.
[[nodiscard]] inline proto::Time monotonic_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return {static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec};
}

// Nanoseconds since 1970. Epochs use it, because a restarted process then gets a higher number than
// before.
[[nodiscard]] inline std::uint64_t wall_clock_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace hawser::engine
