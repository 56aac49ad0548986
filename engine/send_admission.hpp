// SPDX-License-Identifier: Apache-2.0
// Enforces max_messages_per_peer at the call. It counts the unfinished sends to each peer,
// including those that wait in the command ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hawser/types.hpp"

namespace hawser::engine {

class SendAdmission {
 public:
  SendAdmission(std::size_t max_peers, std::size_t max_messages_per_peer)
      : limit_(max_messages_per_peer), unfinished_(max_peers) {}

  [[nodiscard]] bool in_range(PeerId peer) const { return peer_place(peer) < unfinished_.size(); }

  // For any thread: takes a place for one send. Returns false, without effect, if none is free.
  [[nodiscard]] bool admit(PeerId peer);
  // For the engine thread: an admitted send has its final status.
  void finish(PeerId peer);

 private:
  std::uint64_t limit_;
  std::vector<std::atomic<std::uint64_t>> unfinished_;
};

}  // namespace hawser::engine
