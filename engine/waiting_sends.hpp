// Sends that were accepted and that the protocol can't take yet, since a pool that all peers share
// is empty for the moment (message descriptors, handshakes). They wait here, in order, per peer; so
// the commands behind them in the ring, to other peers, don't. At most one entry an operation
// index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hawser/types.hpp"

namespace hawser::engine {

class WaitingSends {
 public:
  WaitingSends(std::size_t max_peers, std::size_t max_operations)
      : next_(max_operations), queues_(max_peers) {
    peers_.reserve(max_peers);
  }

  [[nodiscard]] bool empty() const { return peers_.empty(); }
  // Sends to this peer wait: later ones must queue behind them.
  [[nodiscard]] bool waits(PeerId peer) const { return at(peer).head != kNone; }

  void push(PeerId peer, std::uint32_t operation_index) {
    Queue& queue = queues_[static_cast<std::size_t>(peer)];
    next_[operation_index] = kNone;
    if (queue.head == kNone) {
      queue.head = operation_index;
      peers_.push_back(static_cast<std::uint32_t>(peer));
    } else {
      next_[queue.tail] = operation_index;
    }
    queue.tail = operation_index;
  }

  // Offers each peer's sends to `take`, oldest first, until it answers false for one. True if any
  // was taken.
  template <class Take>
  bool retry(Take&& take) {
    bool any = false;
    std::size_t kept = 0;
    for (const std::uint32_t peer : peers_) {
      Queue& queue = queues_[peer];
      while (queue.head != kNone && take(queue.head)) {
        queue.head = next_[queue.head];
        any = true;
      }
      if (queue.head != kNone) peers_[kept++] = peer;
    }
    peers_.resize(kept);
    return any;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Queue {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  [[nodiscard]] const Queue& at(PeerId peer) const {
    return queues_[static_cast<std::size_t>(peer)];
  }

  std::vector<std::uint32_t> next_;   // by operation index
  std::vector<Queue> queues_;         // by peer
  std::vector<std::uint32_t> peers_;  // that have any
};

}  // namespace hawser::engine
