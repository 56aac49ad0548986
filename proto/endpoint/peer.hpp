// SPDX-License-Identifier: Apache-2.0
// The state that an endpoint has of one peer, and of the messages and paths between them.
//
// Plain data: the rules live in the folders path/, message/, session/ and endpoint/. All of it lies
// in slabs of the Core and is named by index.
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
#include "proto/endpoint/control_due.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/message_table.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/path/path.hpp"
#include "proto/path/response_time.hpp"
#include "proto/session/session_state.hpp"
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

  Time at = kNever;                // when to solicit again
  std::uint64_t starved_to = 0;    // numbers below it were dropped, if they have not arrived since
  std::uint64_t solicited_to = 0;  // those below it were asked for since `at` was armed
  std::uint8_t backoff = 0;
  bool put_off = false;
  bool reserve_used = false;  // the descriptor reserved for the lowest unprocessed number
};

// Whether a peer is in its first calls, or waits for its turn. Only CallQueue changes it.
class CallState {
  friend class CallQueue;

  bool calls = false;
  bool waits = false;
};

// Whether a peer is a stranger that is half open. Only HalfOpenStrangers changes it.
class HalfOpenMark {
  friend class HalfOpenStrangers;

  bool is_listed = false;
};

struct alignas(kCacheLine) Peer {
  std::uint32_t index = kNoIndex;  // its name on the wire and in the API
  SessionState state = SessionState::idle;
  Status failure = Status::ok;  // FAILED: why
  Reason failure_reason = Reason::none;
  bool wanted = false;  // connect was called or operations were posted here

  std::uint32_t remote_index = 0xffffffffu;
  std::uint32_t fragment_bytes = 0;
  std::uint64_t remote_token = 0;
  std::uint64_t token = 0;  // ours: the peer must send it
  std::uint32_t remote_nics = 0;
  std::uint32_t remotes = kNoIndex;  // of RemoteHandles
  Duration remote_absence{};

  // Handshake and closing.
  Time call_at = kNever;
  bool announcing = false;  // READY: calls until the peer has our NICs' present addresses
  CallState call_state;
  HalfOpenMark half_open;
  bool close_sent = false;
  bool close_answered = false;
  std::uint8_t pair_count = 0;  // of `pairs`, below

  // Liveness.
  Time last_heard{};
  Time pending_since{};     // since when something is pending; 0: nothing is
  Time small_only_since{};  // nothing large passes on the only path that is left; 0: not so
  Time keepalive_at = kNever;
  bool timeout_put_off = false;
  bool refused : 1 = false;     // called: the peer answered that it has no place
  bool outdated : 1 = false;    // called: the peer answered that our epoch is no higher
  bool questioned : 1 = false;  // somebody needs to know whether it lives; ends when it is heard
  NicPair route{};              // the pair over which it was last heard
  std::uint8_t turn_slot = 0;   // where the next choice of a path begins
  RouteState routes;
  Time stall_at{};             // when to look for stalled operations; 0: nothing is pending
  Time used_at{};              // the last call on it, or the last moment at which it could not rest
  Time rest_at = kNever;       // when to check whether it has been quiet
  std::uint32_t messages = 0;  // its descriptors of either direction
  std::uint32_t posted_receives = 0;  // receives posted for exactly this peer
  std::uint32_t open_sends = 0;       // outgoing messages without a final status
  std::uint32_t half_messages = 0;    // incoming messages that arrived in part
  std::uint32_t open_receives = 0;    // matched, not finished

  // Sending.
  std::array<std::uint32_t, kMaxPaths> paths{};  // slab index or kNoIndex, by slot
  std::uint16_t unproven = 0;  // a bit for each first slot that must be proven once it is bound
  std::uint16_t bound = 0;     // a bit per slot that has a path
  Time crowded_at{};           // when more than the home paths were last needed
  Time trim_at{};              // when to look for paths that are not needed
  std::uint64_t next_number = 0;
  std::uint64_t floor = 0;
  std::uint64_t told_floor = 0;  // a packet has left with it
  MessageTable outgoing;
  IndexList<OutgoingMessage, &OutgoingMessage::send_link> to_send;
  IndexList<Retransmit, &Retransmit::link> retransmits;
  std::uint64_t allowance = 0;  // bytes in flight per remote NIC, as the peer last said

  // Silence (§10): the peer would have taken out of its rings whatever was sent until
  // `settled_sent`. Whatever arrived by turn `doubt_turn` was sent until `doubt_sent`. A turn that
  // began later and emptied the rings settles it.
  std::uint32_t ack_turn = 0;
  bool any_turn = false;
  bool acked_in_turn = false;  // gaps and silence are judged once this turn has received everything
  std::uint16_t nic_news = 0;  // the newest change of our NICs that its paths know (NicNews)
  Time ack_info_at{};          // the newest ACK_INFO
  std::uint16_t behind = 0;    // turns, from that block
  std::uint32_t doubt_turn = 0;
  Time doubt_sent{};
  Duration fastest = kNoSample;  // shortest response time that this turn's acknowledgements show
  Time newest_acked_sent{};
  Time settled_sent{};

  // Receiving.
  std::array<std::uint32_t, kMaxPaths> receive_paths{};
  std::uint64_t remote_floor = 0;
  std::uint64_t next_to_process = 0;
  MessageTable incoming;
  [[no_unique_address]] Starvation starvation;  // so that the next field lies in its last word
  std::uint32_t patience_eighths = 8;           // detection intervals are scaled by it: 8 is 1
  ResponseTime response;             // of this peer to our handshakes, grants and requests
  std::uint32_t active_epoch = 0;    // when it last sent data, for the allowance
  std::uint32_t grantee = kNoIndex;  // while its messages are paced

  ControlDue due;
  ListLink send_link;   // on the endpoint's list of peers with data to send
  ListLink ack_link;    // on the endpoint's list of peers with control to send
  ListLink touch_link;  // on this turn's list of peers whose timers may have changed

  // ---- Ordinary packets and messages need nothing from here on: fetch() stops before it.

  // Identity (§6). Incarnations are (epoch, counter).
  std::uint64_t remote_id = 0;
  std::uint64_t remote_epoch = 0;
  std::uint32_t remote_counter = 0;
  std::uint32_t remote_sequence = 0;      // newest session packet applied
  std::uint64_t verified_epoch = 0;       // the incarnation that was READY here last
  std::uint32_t verified_counter = 0;     // 0: none
  std::uint32_t counter = 0;              // of our handshake
  std::array<wire::NicRecord, 8> nics{};  // the first NICs; PeerTable::nic_of has them all
  std::array<std::uint32_t, kMaxNics> remote_nic_sequences{};  // of its newest NIC_STATE
  std::uint64_t remote_unscheduled = 0;  // bytes of a message that it sends before a grant

  // Handshake and closing.
  Duration call_interval{};
  std::uint32_t calls = 0;
  std::uint8_t close_part_count = 0;  // of the peer's CLOSE; 0: not known
  std::uint16_t call_turn = 0;        // where the next choice of a pair to call over begins
  std::uint32_t announced_from = 0;   // sequence of the first HELLO that told our NICs' addresses
  std::uint32_t offered_bytes = 0;    // fragment_bytes as we tell it; with our token it is fixed
  Time called_at{};                   // of the newest HELLO: its answer measures the response time
  Time calling_since{};
  std::uint64_t cookie = 0;  // from the newest CHALLENGE of our HELLO
  static constexpr std::size_t kMaxCloseParts = 128;
  std::array<std::uint64_t, kMaxCloseParts / 64> close_parts{};  // that are here, a bit each
  Time close_at{};
  Time answer_at{};  // the next RESET or CLOSE to a peer that still sends goes no sooner

  // Paths, and the first of their numbers.
  std::array<NicPair, kMaxPaths> pairs{};  // of the first slots
  std::array<std::uint8_t, kMaxPaths> generations{};
  std::array<std::uint8_t, kMaxPaths> epochs{};  // of path numbers, in which slots began
  std::uint64_t path_start = 0;                  // the first number of newly bound paths
  std::array<std::uint8_t, kMaxPaths> receive_generations{};  // known before its rest; 0: none
  std::uint64_t first_remote_number = 0;
  ListLink starved_link;  // on the list of starved peers
};
static_assert(sizeof(Peer) <= 1280);

// Whether this end has called and waits to become READY.
[[nodiscard]] inline bool is_called(const Peer& peer) {
  return peer.state == SessionState::calling || peer.state == SessionState::answered;
}

// This turn's list of peers whose timers may have changed.
struct TouchedPeers : IndexList<Peer, &Peer::touch_link> {
  template <class Peers>
  void touch(Peers& peers, const Peer& peer) {
    if (!contains(peer)) push_back(peers, peer.index);
  }
};

// Fragment indices, and the bitmaps over them, have 28 bits: 2^40 bytes in fragments of 4 KiB.
[[nodiscard]] constexpr bool fits_in_fragments(std::uint64_t bytes, std::uint32_t fragment_bytes) {
  return bytes <= std::uint64_t{fragment_bytes} << 28;
}

[[nodiscard]] inline std::uint64_t wire_bytes_of_full_packet(const Peer& peer) {
  return peer.fragment_bytes + wire::kDataHeaderBytes;
}

// A NIC of the peer's that has moved may take less than the session's fragments need.
[[nodiscard]] inline bool takes_full_packets(const Peer& peer, const wire::NicRecord& nic) {
  return nic.max_datagram * wire::kWordBytes >= wire_bytes_of_full_packet(peer);
}

// The bytes of a message that a fragment carries.
[[nodiscard]] inline std::span<const std::byte> payload_of(const Peer& peer,
                                                           const OutgoingMessage& message,
                                                           std::uint32_t fragment) {
  const std::uint64_t begin = std::uint64_t{fragment} * peer.fragment_bytes;
  if (begin >= message.bytes) return {};
  const std::uint64_t left = message.bytes - begin;
  return {message.data + begin,
          static_cast<std::size_t>(left < peer.fragment_bytes ? left : peer.fragment_bytes)};
}

// A slot that stays unbound for long must not jump by half of the wire's path numbers. A peer that
// remembers its old numbers would take that for a step back. Therefore each epoch of numbers begins
// a new generation.
[[nodiscard]] constexpr std::uint8_t epoch_of(std::uint64_t path_number) {
  return static_cast<std::uint8_t>(path_number >> 30);
}
inline void begin_epoch(Peer& peer, std::uint32_t slot) {
  if (peer.epochs[slot] == epoch_of(peer.path_start)) return;
  peer.epochs[slot] = epoch_of(peer.path_start);
  ++peer.generations[slot];
}

// Prefetches a peer that is about to be used.
inline void fetch(const Peer& peer) { prefetch(&peer, &peer.remote_id); }

// Calls visit(slot) for each slot with a path, lowest first; a visit may bind and release any.
template <class Visit>
void for_each_bound(const Peer& peer, Visit&& visit) {
  for (std::uint32_t slot = 0; peer.bound >> slot != 0; ++slot) {
    slot += static_cast<std::uint32_t>(std::countr_zero(std::uint32_t{peer.bound} >> slot));
    visit(slot);
  }
}

// Calls visit(path) for each path, as above.
template <class Visit>
void for_each_path(Slab<Path>& paths, const Peer& peer, Visit&& visit) {
  for_each_bound(peer, [&](std::uint32_t slot) { visit(paths.at(peer.paths[slot])); });
}

inline void fetch_paths(const Slab<Path>& paths, const Peer& peer) {
  for_each_bound(peer, [&](std::uint32_t slot) { paths.fetch(peer.paths[slot]); });
}

inline void set_unproven(Peer& peer, std::uint32_t slot) {
  if (peer.paths[slot] == kNoIndex) {
    peer.unproven = static_cast<std::uint16_t>(peer.unproven | 1u << slot);
  }
}

}  // namespace hawser::proto
