// SPDX-License-Identifier: Apache-2.0
// Detects that calls keep finding no room while no operation ends.
#pragma once

#include <chrono>
#include <cstdint>

namespace hawser::ofi {

class Stall {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kLong{10};

  // A call found no room; `ended` operations have ended so far. Returns true, once, when that has
  // gone on for long.
  [[nodiscard]] bool no_room(Time now, std::uint64_t ended) {
    if (ended != ended_) {
      ended_ = ended;
      since_ = now;
    }
    if (said_ || now - since_ < kLong) return false;
    said_ = true;
    return true;
  }

 private:
  std::uint64_t ended_ = ~std::uint64_t{0};
  Time since_{};
  bool said_ = false;
};

}  // namespace hawser::ofi
