// SPDX-License-Identifier: Apache-2.0
// NICs that return with another address (docs/internals/protocol.md §6). The moved end announces
// the address and the peer learns it. Probes then prove each path to or from that NIC before it
// carries data.
//
// Timer of a READY peer: `call_at`, the next announcement, armed until a WELCOME answers one. An
// end that finds no working path announces its addresses too, as an answer shows a way
// (life_cycle.cpp).
//
// Invariant: an address is learned only from a session packet that echoes our token. The paths to
// it are then DOWN, until two full-size probes are answered.
#include <algorithm>
#include <array>

#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

// Tells the peer our NICs' addresses: at once over every NIC of either end; then, until it answers,
// over all pairs in turn.
void Sessions::announce(Peer& peer) {
  peer.session.announcing = true;
  peer.handshake.announced_from = session_sequence_ + 1;
  peer.handshake.calls = 0;
  // Both ends are awake, unlike those of a new session: an answer takes no longer than others.
  peer.handshake.call_interval = std::min(microseconds(turn_.tunables.handshake_retry_us),
                                          peer.response.overdue(turn_.granularity) * 4);
  peer.session.call_at = turn_.now() + peer.handshake.call_interval;
  for (std::uint32_t i = 0; i < peer.paths.pair_count; ++i) {
    send_session(peer, wire::PacketType::hello, peer.slots.pairs[i], 0);
  }
  touched_.add(peer);
}

// Learns the NICs that a peer reports once the session is known. A NIC that takes smaller datagrams
// than the session's fragments need is of no use for it.
void Sessions::learn_addresses(Peer& peer, std::span<const wire::NicRecord> records) {
  if (records.size() != peer.session.remote_nics) {
    if (peer.session.state == SessionState::ready) return reporter_.drop(DropReason::bad_field);
    return learn_nics(peer, records);  // `connect` named others, perhaps those of an older process
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    wire::NicRecord& known = peers_.nic_of(peer, i);
    if (known.address == records[i].address) {
      known.max_datagram = records[i].max_datagram;
      continue;
    }
    sender_.close_remotes(peer, i);
    known = records[i];
    const bool fits = takes_full_packets(peer, known);
    known.state = fits ? 1 : 0;
    paths_.doubt_unbound(peer, i, false);
    for (const std::uint32_t index : std::array(peer.paths.indices)) {
      if (index == kNoIndex || paths_.at(index).remote_nic != i) continue;
      Path& path = paths_.at(index);
      if (path.state != PathState::down) paths_.path_down(peer, path, Reason::moved);
      if (fits) path.probe.timer.arm(turn_.now());
    }
  }
  paths_.pair_anew(peer);
}

}  // namespace hawser::proto
