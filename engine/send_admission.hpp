// SPDX-License-Identifier: Apache-2.0
// Charges max_messages_per_peer at the call: how many sends to a peer are unfinished, those that
// wait in the command ring included.
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

  // Any thread: takes a place, or returns false and nothing happens.
  [[nodiscard]] bool admit(PeerId peer);
  // The engine thread: the final status of a send that was admitted is known.
  void finish(PeerId peer);

 private:
  std::uint64_t limit_;
  std::vector<std::atomic<std::uint64_t>> unfinished_;
};

}  // namespace hawser::engine
