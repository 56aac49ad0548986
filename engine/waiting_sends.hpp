// SPDX-License-Identifier: Apache-2.0
// Sends that the endpoint has accepted but the protocol can't take yet, because a pool that all
// peers share is empty (message descriptors, handshakes). They wait here, in order, per peer, so
// that commands to other peers behind them in the ring don't wait. Each operation index has at most
// one entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hawser/types.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

class WaitingSends {
 public:
  WaitingSends(std::size_t max_peers, std::size_t max_operations)
      : next_(max_operations, kNotHere), queues_(max_peers) {
    peers_.reserve(max_peers);
  }

  [[nodiscard]] bool empty() const { return peers_.empty(); }
  // True if sends to this peer wait. Later ones must queue behind them.
  [[nodiscard]] bool waits(PeerId peer) const { return at(peer).head != kNone; }

  [[nodiscard]] bool holds(std::uint32_t operation_index) const {
    return next_[operation_index] != kNotHere;
  }

  void push(PeerId peer, std::uint32_t operation_index) {
    Queue& queue = queues_[peer_place(peer)];
    next_[operation_index] = kNone;
    if (queue.head == kNone) {
      queue.head = operation_index;
      peers_.push_back(peer_place(peer));
    } else {
      next_[queue.tail] = operation_index;
    }
    queue.tail = operation_index;
  }

  // Removes a held send, wherever it is in its peer's queue.
  void remove(std::uint32_t operation_index) {
    HAWSER_ASSERT(holds(operation_index));
    for (std::size_t p = 0; p < peers_.size(); ++p) {
      Queue& queue = queues_[peers_[p]];
      std::uint32_t before = kNone;
      for (std::uint32_t index = queue.head; index != kNone; before = index, index = next_[index]) {
        if (index != operation_index) continue;
        (before == kNone ? queue.head : next_[before]) = next_[index];
        if (queue.tail == index) queue.tail = before;
        next_[index] = kNotHere;
        if (queue.head == kNone) peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(p));
        return;
      }
    }
  }

  // Whether one to this peer fulfils the condition.
  template <class Condition>
  [[nodiscard]] bool any(PeerId peer, Condition&& condition) const {
    for (std::uint32_t index = at(peer).head; index != kNone; index = next_[index]) {
      if (condition(index)) return true;
    }
    return false;
  }

  // Offers each peer's sends to `take`, oldest first, until it returns false for one. Returns true
  // if any was taken.
  template <class Take>
  bool retry(Take&& take) {
    bool any = false;
    std::size_t kept = 0;
    for (const std::uint32_t peer : peers_) {
      Queue& queue = queues_[peer];
      while (queue.head != kNone && take(queue.head)) {
        queue.head = std::exchange(next_[queue.head], kNotHere);
        any = true;
      }
      if (queue.head != kNone) peers_[kept++] = peer;
    }
    peers_.resize(kept);
    return any;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::uint32_t kNotHere = 0xfffffffeu;
  struct Queue {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  [[nodiscard]] const Queue& at(PeerId peer) const { return queues_[peer_place(peer)]; }

  std::vector<std::uint32_t> next_;   // by operation index
  std::vector<Queue> queues_;         // by place
  std::vector<std::uint32_t> peers_;  // places of peers with waiting sends
};

}  // namespace hawser::engine
