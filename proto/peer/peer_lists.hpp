// SPDX-License-Identifier: Apache-2.0
// The lists of peers that a turn works on: those with timers to look at, and those with data.
#pragma once

#include "proto/base/list.hpp"
#include "proto/peer/peer_table.hpp"

namespace hawser::proto {

// The peers whose timers may have changed in this turn.
class TouchedPeers : public IndexList<Peer, &Peer::touch_link> {
 public:
  explicit TouchedPeers(PeerTable& peers) : peers_(peers) {}

  void add(const Peer& peer) {
    if (!contains(peer)) push_back(peers_, peer.index);
  }

 private:
  PeerTable& peers_;
};

// The peers with data to send, in the order of their turns.
class Senders : public IndexList<Peer, &Peer::send_link> {
 public:
  explicit Senders(PeerTable& peers) : peers_(peers) {}

  // Adds the peer if it has something to send: for new data, and when a path may have room again.
  void want(const Peer& peer) {
    if (peer.session.state == SessionState::ready &&
        (!peer.sends.to_send.empty() || !peer.sends.retransmits.empty()) && !contains(peer)) {
      push_back(peers_, peer.index);
    }
  }

 private:
  PeerTable& peers_;
};

}  // namespace hawser::proto
