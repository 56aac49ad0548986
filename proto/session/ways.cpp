// SPDX-License-Identifier: Apache-2.0
// The ways between the NICs of both ends (docs/internals/protocol.md §6). Their drivers say what a
// way carries in one piece. The narrowest way decides what this end offers for a new session.
// Later, it decides the size class of messages that begin.
//
// A driver says that its answers may have changed. Each peer then asks when its next message
// begins, because every answer may cost system calls. While a peer's class is not 0 it also asks
// every kLookAgain.
//
// No timer is armed here: nothing depends on a class before a message begins.
#include <algorithm>

#include "proto/peer/peer_table.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {
constexpr Duration kLookAgain = milliseconds(30'000);
}

// The most payload that all ways between the NICs of both ends carry now, within what this end's
// NICs and the tunable allow.
std::uint32_t Sessions::ask_ways(Peer& peer) {
  constexpr std::uint32_t kHeaders = wire::kDataHeaderBytes;
  constexpr std::uint32_t kWhole = 16;  // payload is a multiple of it
  peer.session.ways_known = ways_.newest();
  std::uint32_t most = sender_.limits().fragment_bytes + kHeaders;
  for (const LocalNic& local : nics_) {
    for (std::uint32_t i = 0; i < peer.session.remote_nics; ++i) {
      const NicAddress& address = peers_.nic_of(peer, i).address;
      if (!local.nic->can_address(address)) continue;
      most = std::min(most, local.nic->max_datagram_to(address));
    }
  }
  return (std::max(most, wire::kMinFragmentBytes + kHeaders) - kHeaders) / kWhole * kWhole;
}

void Sessions::follow_ways(Peer& peer) {
  PeerSession& session = peer.session;
  if (session.state != SessionState::ready) return;
  // The other peers with a class follow.
  if (session.ways_known == ways_.newest()) ways_.note();
  session.ways_known = ways_.newest();
  if (!peer.handshake.size_classes) return;
  session.size_class = wire::class_within(ask_ways(peer), session.session_bytes) & 0xf;
  session.fragment_bytes = wire::bytes_of_class(session.size_class, session.session_bytes);
  if (session.size_class != 0 && turn_.now() >= ways_.look_at)
    ways_.look_at = turn_.now() + kLookAgain;
}

}  // namespace hawser::proto
