// SPDX-License-Identifier: Apache-2.0
// Time as the protocol sees it: nanoseconds counted by the caller. proto/ never reads a clock.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace hawser::proto {

// A span of time in nanoseconds; may be negative.
struct Duration {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
  friend constexpr Duration operator*(Duration a, std::int64_t k) { return {a.ns * k}; }
  friend constexpr Duration operator/(Duration a, std::int64_t k) { return {a.ns / k}; }
};

[[nodiscard]] constexpr Duration nanoseconds(std::uint64_t n) {
  return {static_cast<std::int64_t>(n)};
}
[[nodiscard]] constexpr Duration microseconds(std::uint64_t n) { return nanoseconds(n * 1000); }
[[nodiscard]] constexpr Duration milliseconds(std::uint64_t n) { return nanoseconds(n * 1000000); }

// A point of the monotonic clock of this host. The epoch is arbitrary; 0 is never a real moment.
struct Time {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time t, Duration d) { return {t.ns + d.ns}; }
  friend constexpr Time operator-(Time t, Duration d) { return {t.ns - d.ns}; }
  friend constexpr Duration operator-(Time a, Time b) { return {a.ns - b.ns}; }
};

// A moment to about a millisecond, enough for durations of seconds: units of 2^20 ns, which wrap
// every seven weeks.
[[nodiscard]] constexpr std::uint32_t coarse(Time time) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(time.ns) >> 20);
}
// The difference in those units.
[[nodiscard]] constexpr std::int32_t coarse_since(std::uint32_t then, Time now) {
  return static_cast<std::int32_t>(coarse(now) - then);
}

// A moment to about a microsecond, for durations below half an hour: units of 2^10 ns.
[[nodiscard]] constexpr std::uint32_t fine(Time time) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(time.ns) >> 10);
}

// The deadline of a timer that is not armed: in a century, and early enough for 63 bits (Timer).
inline constexpr Time kNever{std::numeric_limits<std::int64_t>::max() / 2};

[[nodiscard]] constexpr Time earlier(Time a, Time b) { return a < b ? a : b; }
[[nodiscard]] constexpr Time later(Time a, Time b) { return a < b ? b : a; }

}  // namespace hawser::proto
