// SPDX-License-Identifier: Apache-2.0
// Time, lengths and rates of a fabric, in whole picoseconds. A byte takes 10 ps at 800 Gb/s, so
// that a cable's times are exact and no rounding of packets adds up. 63 bits of picoseconds are 106
// days.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace hawser::fabric {

struct Span {
  std::int64_t ps = 0;
  friend constexpr auto operator<=>(Span, Span) = default;
  friend constexpr Span operator+(Span a, Span b) { return {a.ps + b.ps}; }
  friend constexpr Span operator-(Span a, Span b) { return {a.ps - b.ps}; }
  friend constexpr Span operator*(Span a, std::int64_t k) { return {a.ps * k}; }
};

[[nodiscard]] constexpr Span picoseconds(std::int64_t n) { return {n}; }
[[nodiscard]] constexpr Span nanoseconds(std::int64_t n) { return {n * 1000}; }
[[nodiscard]] constexpr Span microseconds(std::int64_t n) { return {n * 1000000}; }

// Time since the start of the run.
struct Instant {
  std::int64_t ps = 0;
  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant t, Span d) { return {t.ps + d.ps}; }
  friend constexpr Span operator-(Instant a, Instant b) { return {a.ps - b.ps}; }
};

inline constexpr Instant kNever{std::numeric_limits<std::int64_t>::max()};

inline constexpr std::uint64_t kGigabit = 1'000'000'000;
// The lowest and the highest rate of a link, in bits per second. The lowest is such that 64 bits
// can hold the time of all that a queue can hold.
inline constexpr std::uint64_t kSlowest = 10'000'000;
inline constexpr std::uint64_t kFastest = 10'000 * kGigabit;

// A rate as the time of a byte, in 1024ths of a picosecond: exact for 25 to 800 Gb/s, and within
// 1e-6 for any other up to that.
class Pace {
 public:
  // `bits_per_s` is kSlowest to kFastest.
  static constexpr Pace of(std::uint64_t bits_per_s) {
    Pace pace;
    pace.per_byte_ = ((kPsPerSecond * 8 << kBits) + bits_per_s / 2) / bits_per_s;
    return pace;
  }
  [[nodiscard]] constexpr Span time_of(std::uint64_t bytes) const {
    return {static_cast<std::int64_t>(bytes * per_byte_ >> kBits)};
  }

 private:
  static constexpr std::uint64_t kPsPerSecond = 1'000'000'000'000;
  static constexpr unsigned kBits = 10;
  std::uint64_t per_byte_ = 0;
};

}  // namespace hawser::fabric
