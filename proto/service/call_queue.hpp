// SPDX-License-Identifier: Apache-2.0
// Whose turn it is to call its peer. At most max_outstanding_handshakes peers are in their first
// calls. The others wait, in the order in which they were wanted.
//
// Invariant: a peer waits only while as many as may call are calling.
#pragma once

#include <cstdint>

#include "proto/base/assert.hpp"
#include "proto/base/list.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_table.hpp"

namespace hawser::proto {

class CallQueue {
 public:
  // `peers` outlives it.
  CallQueue(PeerTable& peers, std::uint64_t most) : peers_(peers), most_(most) {}

  // The peer, which neither calls nor waits, is to be called. True: it calls from now on. False: it
  // waits until `end` returns it.
  [[nodiscard]] bool begin(Peer& peer) {
    HAWSER_ASSERT(!peer.session.call_state.calls && !peer.session.call_state.waits);
    if (calling_ < most_) {
      peer.session.call_state.calls = true;
      ++calling_;
      return true;
    }
    peer.session.call_state.waits = true;
    waiting_.push_back(peers_, peer.index);
    return false;
  }
  // The peer was answered, failed, or was called in vain for a while. Returns the peer whose turn
  // has come, null if there is none. That peer calls from now on.
  [[nodiscard]] Peer* end(Peer& peer) {
    if (peer.session.call_state.waits) {
      peer.session.call_state.waits = false;
      waiting_.remove(peers_, peer.index);
    }
    if (!peer.session.call_state.calls) return nullptr;
    peer.session.call_state.calls = false;
    --calling_;
    if (waiting_.empty()) return nullptr;
    Peer& next = peers_.at(waiting_.pop_front(peers_));
    next.session.call_state.waits = false;
    next.session.call_state.calls = true;
    ++calling_;
    return &next;
  }
  [[nodiscard]] static bool waits(const Peer& peer) { return peer.session.call_state.waits; }

 private:
  PeerTable& peers_;
  const std::uint64_t most_;
  std::uint64_t calling_ = 0;
  IndexList<Peer, &Peer::send_link> waiting_;  // a peer without a session has nothing to send yet
};

}  // namespace hawser::proto
