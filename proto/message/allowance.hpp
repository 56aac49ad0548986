// SPDX-License-Identifier: Apache-2.0
// How many bytes a peer may have in flight to this end that it was not granted: the receive ring,
// shared among the peers that sent data lately.
//
// Time goes in epochs. A peer counts once in each epoch in which it sends, and a share is by the
// larger count of this epoch and the last one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::proto {

class Allowance {
 public:
  static constexpr Duration kEpoch = milliseconds(20);

  // A peer has sent data; `active_epoch` is what this call last left there, 0 at first.
  void count(std::uint32_t& active_epoch) {
    if (active_epoch == epoch_) return;
    active_epoch = epoch_;
    ++peers_;
  }
  // Called once a turn. True: an epoch has begun.
  bool pass(Time now) {
    if (now < epoch_end_) return false;
    last_peers_ = now - epoch_end_ < kEpoch ? peers_ : 0;
    peers_ = 0;
    ++epoch_;
    epoch_end_ = now + kEpoch;
    return true;
  }
  // A peer's share of a ring in KiB, rounded up: at least two full packets.
  [[nodiscard]] std::uint32_t share_kib(std::uint64_t ring_bytes,
                                        std::uint64_t packet_bytes) const {
    const std::uint64_t active = std::max({std::uint32_t{1}, peers_, last_peers_});
    const std::uint64_t bytes = std::max(ring_bytes / active, 2 * packet_bytes);
    return static_cast<std::uint32_t>((bytes + 1023) / 1024);
  }

 private:
  std::uint32_t peers_ = 0;  // that sent in this epoch
  std::uint32_t last_peers_ = 0;
  std::uint32_t epoch_ = 1;
  Time epoch_end_{};
};

}  // namespace hawser::proto
