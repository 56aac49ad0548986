// SPDX-License-Identifier: Apache-2.0
// When the ways to peers have to be asked about again (ways.cpp).
#pragma once

#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::proto {

class WayChanges {
 public:
  // A peer whose size class is not 0 asks again from then on, whatever its driver has said: the
  // kernel forgets what it learned of a narrow way without a word.
  Time look_at{};

  // The drivers' answers may have changed.
  void note() { ++newest_; }
  // A peer holds the newest change for which it has asked. It misses far fewer than 2^16.
  [[nodiscard]] std::uint16_t newest() const { return newest_; }
  // For a peer that must ask in any case.
  [[nodiscard]] std::uint16_t before_newest() const {
    return static_cast<std::uint16_t>(newest_ - 1);
  }

 private:
  std::uint16_t newest_ = 0;
};

}  // namespace hawser::proto
