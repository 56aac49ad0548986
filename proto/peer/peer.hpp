// SPDX-License-Identifier: Apache-2.0
// The state that an endpoint has of one peer: a part for each folder that has rules for it.
//
// Plain data: the rules live in the folders path/, message/, session/ and endpoint/. All of it lies
// in the slabs of their owners and is named by index.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hawser/stats.hpp"
#include "hawser/types.hpp"
#include "proto/base/list.hpp"
#include "proto/base/prefetch.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/base/timer.hpp"
#include "proto/message/outgoing_message.hpp"
#include "proto/message/peer_messages.hpp"
#include "proto/path/path.hpp"
#include "proto/path/peer_paths.hpp"
#include "proto/path/response_time.hpp"
#include "proto/peer/control_due.hpp"
#include "proto/session/peer_session.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

// After being asked in vain this often, a question insists.
inline constexpr std::uint8_t kInsistsAfter = 2;

// The routes to a peer, as control has shown them. Only ControlRoutes changes them.
class RouteState {
  friend class ControlRoutes;

  std::uint32_t insisted_at = 0;  // fine: when a question last went over all pairs; 0: never
  std::uint32_t doubted_at = 0;   // coarse
  std::uint16_t doubted = 0;      // a bit per slot over which control got no answer
  NicPair sent_over{};            // the pair that control went over last; of several, the first
};

// The messages of a peer that were dropped for want of a descriptor. Only Descriptors changes it.
class Starvation {
  friend class Descriptors;

  Timer timer;                     // when to solicit again
  std::uint64_t starved_to = 0;    // numbers below it were dropped, if they have not arrived since
  std::uint64_t solicited_to = 0;  // those below it were asked for since `timer` was armed
  std::uint8_t backoff = 0;
  bool reserve_used = false;  // the descriptor reserved for the lowest unprocessed number
};

struct alignas(kCacheLine) Peer {
  std::uint32_t index = kNoIndex;  // its name on the wire and in the API
  std::uint32_t messages = 0;      // its descriptors of either direction
  std::uint32_t open_sends = 0;    // outgoing messages without a final status
  RouteState routes;
  PeerSession session;
  PeerPaths paths;
  PeerSilence silence;
  PeerSends sends;
  PeerReceives receives;
  Starvation starvation;
  ResponseTime response;  // of this peer to our handshakes, grants and requests
  ControlDue due;
  ListLink send_link;   // on the endpoint's list of peers with data to send
  ListLink ack_link;    // on the endpoint's list of peers with control to send
  ListLink touch_link;  // on this turn's list of peers whose timers may have changed

  // ---- Ordinary packets and messages need nothing from here on: fetch() stops before it.
  PeerIdentity identity;
  PeerHandshake handshake;
  PeerSlots slots;
  ListLink starved_link;  // on the list of starved peers
};
static_assert(sizeof(Peer) <= 1280);

// Whether this end has called and waits to become READY.
[[nodiscard]] inline bool is_called(const Peer& peer) {
  return peer.session.state == SessionState::calling ||
         peer.session.state == SessionState::answered;
}

// A full packet of a message that begins now.
[[nodiscard]] inline std::uint64_t wire_bytes_of_full_packet(const Peer& peer) {
  return peer.session.fragment_bytes + wire::kDataHeaderBytes;
}
// A full packet of a message that began while the ways carried all that the session agreed on.
[[nodiscard]] inline std::uint64_t wire_bytes_of_longest_packet(const Peer& peer) {
  return peer.session.session_bytes + wire::kDataHeaderBytes;
}

// A NIC of the peer's that has moved may take less than the session's fragments need.
[[nodiscard]] inline bool takes_full_packets(const Peer& peer, const wire::NicRecord& nic) {
  return nic.max_datagram * wire::kWordBytes >= wire_bytes_of_longest_packet(peer);
}
// The least that a NIC record says of a NIC that takes them.
[[nodiscard]] inline std::uint16_t words_of_full_packet(const Peer& peer) {
  return static_cast<std::uint16_t>((wire_bytes_of_longest_packet(peer) + wire::kWordBytes - 1) /
                                    wire::kWordBytes);
}

// A slot that stays unbound for long must not jump by half of the wire's path numbers. A peer that
// remembers its old numbers would take that for a step back. Therefore each epoch of numbers begins
// a new generation.
[[nodiscard]] constexpr std::uint8_t epoch_of(std::uint64_t path_number) {
  return static_cast<std::uint8_t>(path_number >> 30);
}
inline void begin_epoch(Peer& peer, std::uint32_t slot) {
  if (peer.slots.epochs[slot] == epoch_of(peer.slots.path_start)) return;
  peer.slots.epochs[slot] = epoch_of(peer.slots.path_start);
  ++peer.slots.generations[slot];
}

// Prefetches a peer that is about to be used.
inline void fetch(const Peer& peer) { prefetch(&peer, &peer.identity.remote_id); }

inline void set_unproven(Peer& peer, std::uint32_t slot) {
  if (peer.paths.indices[slot] == kNoIndex) {
    peer.paths.unproven = static_cast<std::uint16_t>(peer.paths.unproven | 1u << slot);
  }
}

}  // namespace hawser::proto
