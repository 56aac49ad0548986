// SPDX-License-Identifier: Apache-2.0
// Sends that Hawser has no room for yet. They wait here, oldest first, in one queue per peer. Sends
// to one peer thus stay in order, and a full peer delays no other while Hawser has room. One-sided
// operations wait in such queues of their own, and so does what a fence holds up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "hawser/types.hpp"
#include "plugin/ofi/operation.hpp"

namespace hawser::ofi {

class WaitingSends {
 public:
  WaitingSends() = default;
  explicit WaitingSends(std::size_t max_peers) : queues_(max_peers) { peers_.reserve(max_peers); }

  [[nodiscard]] bool empty() const { return peers_.empty(); }
  // True if sends to this peer wait. Later ones must queue behind them.
  [[nodiscard]] bool waits(PeerId peer) const { return !at(peer).empty(); }

  void push(PeerId peer, Operation& operation) {
    OperationQueue& queue = queues_[peer_place(peer)];
    if (queue.empty()) peers_.push_back(peer);
    queue.push(operation);
  }

  // Offers each peer's sends to `submit`, oldest first, until it returns `again`. `end` gets the
  // sends that it refuses for good. Returns true if any was taken.
  template <class Submit, class End>
  bool retry(Submit&& submit, End&& end) {
    bool any = false;
    for (const PeerId peer : peers_) {
      OperationQueue& queue = queues_[peer_place(peer)];
      while (!queue.empty()) {
        const Status status = submit(*queue.front());
        if (status == Status::again) break;
        Operation& operation = *queue.pop();
        any = any || status == Status::ok;
        if (status != Status::ok) end(operation, status);
      }
    }
    std::erase_if(peers_, [this](PeerId peer) { return at(peer).empty(); });
    // Rotate the peers, so that each is first now and then when room is scarce.
    if (peers_.size() > 1) std::rotate(peers_.begin(), peers_.begin() + 1, peers_.end());
    return any;
  }

  // Hands each peer's operations to `begin`, oldest first, as long as `may_begin` agrees.
  template <class MayBegin, class Begin>
  void release(MayBegin&& may_begin, Begin&& begin) {
    for (const PeerId peer : peers_) {
      OperationQueue& queue = queues_[peer_place(peer)];
      while (!queue.empty() && may_begin(peer, *queue.front())) begin(*queue.pop());
    }
    std::erase_if(peers_, [this](PeerId peer) { return at(peer).empty(); });
  }

  // take_all removes the sends to a peer, and hands each to `end`. take removes the oldest send
  // with a context of the program.
  template <class End>
  void take_all(PeerId peer, End&& end) {
    if (peer_place(peer) >= queues_.size() || !waits(peer)) return;
    // Sends to the next peer at the same place may wait in this queue, too.
    queues_[peer_place(peer)].remove_if([&](Operation& operation) {
      if (!operation.is_by_mirror && operation.peer != peer) return false;
      end(operation);
      return true;
    });
    std::erase_if(peers_, [this](PeerId other) { return at(other).empty(); });
  }
  [[nodiscard]] Operation* take(void* op_context) {
    Operation* found = nullptr;
    for (const PeerId peer : peers_) {
      queues_[peer_place(peer)].remove_if([&](Operation& operation) {
        if (found != nullptr || operation.is_silent || operation.context != op_context)
          return false;
        found = &operation;
        return true;
      });
      if (found != nullptr) break;
    }
    std::erase_if(peers_, [this](PeerId peer) { return at(peer).empty(); });
    return found;
  }

 private:
  [[nodiscard]] const OperationQueue& at(PeerId peer) const { return queues_[peer_place(peer)]; }

  std::vector<OperationQueue> queues_;  // by place
  std::vector<PeerId> peers_;           // peers with waiting sends
};

}  // namespace hawser::ofi
