// SPDX-License-Identifier: Apache-2.0
// Strangers that have called, that nobody here wants, and that have not sent our token. A newcomer
// gets the place of the oldest one (session/places.cpp).
#pragma once

#include <cstdint>

#include "proto/base/list.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_table.hpp"

namespace hawser::proto {

class HalfOpenStrangers {
 public:
  // `peers` outlives it.
  explicit HalfOpenStrangers(PeerTable& peers) : peers_(peers) {}

  // False: it was one before, and keeps its age.
  bool enter(Peer& peer) {
    if (peer.session.half_open.is_listed) return false;
    peer.session.half_open.is_listed = true;
    ++count_;
    by_age_.push_back(peers_, peer.index);
    return true;
  }
  // The peer may have left before.
  void leave(Peer& peer) {
    if (!peer.session.half_open.is_listed) return;
    peer.session.half_open.is_listed = false;
    --count_;
    by_age_.remove(peers_, peer.index);
  }
  [[nodiscard]] static bool contains(const Peer& peer) { return peer.session.half_open.is_listed; }
  // Null: there is none.
  [[nodiscard]] Peer* oldest() { return by_age_.empty() ? nullptr : &peers_.at(by_age_.front()); }
  [[nodiscard]] std::uint32_t size() const { return count_; }

 private:
  PeerTable& peers_;
  IndexList<Peer, &Peer::send_link> by_age_;  // a stranger has nothing to send
  std::uint32_t count_ = 0;
};

}  // namespace hawser::proto
