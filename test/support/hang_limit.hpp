// SPDX-License-Identifier: Apache-2.0
// The one limit for waiting, for tests that run by a real clock. It ends a hang and judges nothing:
// a machine that stands still for half a minute fails no test.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>

namespace hawser::test {

inline constexpr std::chrono::seconds kHangLimit{60};
inline constexpr int kHangLimitMs = 60'000;                     // for poll and libfabric
inline constexpr std::uint64_t kHangLimitNs = 60'000'000'000u;  // for Endpoint::wait

// For so long a peer may be silent without being taken for dead. This is shorter than kHangLimit,
// so that a test still sees the death of a peer within that limit.
inline constexpr std::uint64_t kStandstillMs = 30'000;

// Measures kHangLimit from its construction on.
class HangLimit {
 public:
  [[nodiscard]] bool is_over() const { return std::chrono::steady_clock::now() >= end_; }

 private:
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kHangLimit;
};

// Checks once a millisecond until `condition` is true. False if it was not within kHangLimit.
template <class Condition>
[[nodiscard]] bool comes_true(Condition&& condition) {
  for (const HangLimit limit; !condition(); (void)::poll(nullptr, 0, 1)) {
    if (limit.is_over()) return condition();
  }
  return true;
}

}  // namespace hawser::test
