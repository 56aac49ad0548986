// SPDX-License-Identifier: Apache-2.0
// Whether anything waits for a peer, and how long the peer may be silent then
// (docs/internals/protocol.md §6).
#pragma once

#include "proto/base/time.hpp"
#include "proto/base/turn.hpp"
#include "proto/peer/peer.hpp"

namespace hawser::proto {

// Whether an operation of the caller, or half of a message, waits for the peer.
[[nodiscard]] inline bool any_operation(const Peer& peer) {
  return peer.open_sends + peer.receives.open + peer.receives.posted + peer.receives.half_messages >
         0;
}

// Whether anybody waits for the peer: an operation of the caller, half of a message, or a newcomer
// that needs its place.
[[nodiscard]] inline bool is_waited_for(const Peer& peer) {
  if (any_operation(peer) || peer.session.questioned) return true;
  // Or some message beyond a missing one has arrived.
  return peer.receives.table.is_open() &&
         peer.receives.table.size() > peer.receives.next_to_process - peer.receives.remote_floor;
}

// Whether the peer must be heard: somebody waits for it, or its floor is awaited before a rest.
[[nodiscard]] inline bool is_pending(const Peer& peer) {
  return peer.session.floor_awaited || is_waited_for(peer);
}

// How long the peer may be silent: it may be away for as long as it announced. A peer that only has
// to prove that it lives gets half of the timeout, because somebody waits for its place.
[[nodiscard]] inline Duration patience_with(const Turn& turn, const Peer& peer) {
  const int part = peer.session.questioned && !any_operation(peer) ? 2 : 1;
  return milliseconds(turn.tunables.peer_timeout_ms) / part + peer.session.remote_absence;
}

}  // namespace hawser::proto
