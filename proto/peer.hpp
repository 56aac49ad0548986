// SPDX-License-Identifier: Apache-2.0
// The state that an endpoint has of one peer, and of the messages and paths between them.
//
// Plain data: the rules live in the files named after the event (session, transmit, path_acks,
// paths, receive, acknowledge, ...). All of it lies in slabs of the Core and is named by index.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hawser/stats.hpp"
#include "hawser/types.hpp"
#include "proto/congestion_window.hpp"

#include "proto/bitmap.hpp"
#include "proto/lanes.hpp"
#include "proto/list.hpp"
#include "proto/message_table.hpp"
#include "proto/nic.hpp"
#include "proto/prefetch.hpp"
#include "proto/prompt_time.hpp"
#include "proto/response_time.hpp"
#include "proto/sent_packets.hpp"
#include "proto/slab.hpp"
#include "proto/time.hpp"
#include "proto/wire.hpp"

namespace hawser::proto {

inline constexpr std::size_t kMaxPaths = 16;
inline constexpr std::size_t kMaxNics = 16;
inline constexpr std::uint32_t kHomePaths = 2;  // how many paths a peer keeps bound

// After this many PTOs in a row, a path that is UP counts for as little as one that is not.
inline constexpr std::uint8_t kTriedInVain = 3;

// The count of unanswered packets ends here: no rule asks for more, and five bits hold it.
inline constexpr std::uint8_t kMostUnanswered = 22;

// The early probes that a path may send before the next acknowledgement.
inline constexpr std::uint8_t kEarlyProbes = 2;

// This many probes that a peer did not answer though it was there count against the NICs.
inline constexpr std::uint8_t kInVain = 3;

inline constexpr Duration kNoSample{INT64_MAX};

// A path as its sender sees it: slot -> (local NIC, remote NIC), over all lanes of the local NIC.
// Paths are many, so the fields stand in the order of their sizes.
struct alignas(kCacheLine) Path {
  std::uint8_t slot = 0;
  std::uint8_t generation = 0;
  std::uint8_t local_nic = 0;
  std::uint8_t remote_nic = 0;
  PathState state = PathState::up;
  // Probes (SUSPECT, PROBING) or PTOs (UP) in a row without an ack, up to kMostUnanswered.
  std::uint8_t unanswered : 5 = 0;
  std::uint8_t early : 2 = 0;     // early probes since the last ack, up to kEarlyProbes
  bool bridge : 1 = false;        // replaces a path that is down; released when that path returns
  bool without_way : 1 = false;   // UP: its driver does not know the way yet; `probe_at` ends that
  std::uint8_t unheard : 2 = 0;   // UP: rounds in a row of packets that only the receiver missed
  std::uint8_t answered : 2 = 0;  // PROBING: full-size probes acknowledged in a row
  bool witness : 1 = false;    // bound to find out whose fault a path's state is; released likewise
  bool for_bulk : 1 = false;   // one of those that max_bulk_paths limits
  bool told_down : 1 = false;  // an event told that it is down, and none that it is back
  bool reordering_proven : 1 = false;  // only time decides about gaps
  bool lost_lately : 1 = false;        // records below `oldest` may still be acknowledged late
  bool any_acked : 1 = false;
  bool resumed : 1 = false;      // after a rest, so the peer's ce_count from before is not known
  bool written_off : 1 = false;  // no path answers; the limit for other peers ignores its packets
  bool prompt : 1 = false;       // what is in flight is acknowledged without delay
  bool acked_in_turn : 1 = false;
  bool any_requested : 1 = false;  // the receiver misses packets that no later packet has overtaken
  bool pto_put_off = false;        // drain-before-declare was used for this arming
  bool probe_put_off = false;
  PromptTime prompt_time;  // how long answers take that the peer doesn't delay
  std::uint8_t lane_turn = 0;
  // For people: probes in a row without an ack though the peer was there. On a bridge also a bit
  // for each remote NIC to which its local NIC sent kInVain such probes.
  std::uint8_t in_vain = 0;
  std::uint16_t tried = 0;
  std::uint32_t ce_count = 0;           // as last reported
  std::uint16_t packets_in_flight = 0;  // up to kPathNumbers
  // Large packets lost since one arrived, and the rounds in which they were lost, up to 255 each. A
  // round has the packets that were sent after the losses of the round before were known.
  std::uint8_t large_lost = 0;
  std::uint8_t large_rounds = 0;
  Time large_lost_at{};

  SentPackets sent;
  Lanes lanes;
  std::uint64_t largest_acked = 0;  // meaningful if any_acked
  std::uint64_t bytes_in_flight = 0;
  std::uint64_t oldest = 0;  // no number below is in flight (a cursor, moved lazily)

  ResponseTime response;
  CongestionWindow window;
  std::uint64_t balance_bytes = 0;    // sent, to decide between equally filled paths
  std::uint64_t delivered_bytes = 0;  // acknowledged since it was bound

  Time last_departed{};    // of the packet sent last
  Time pto_at = kNever;    // armed while something is in flight
  Time unheard_at{};       // when packets were last lost that only the receiver missed
  Time gap_at = kNever;    // when a gap that is still within its patience becomes a loss
  Time probe_at = kNever;  // SUSPECT, DOWN, PROBING: the next probe
  Duration probe_interval{};

  Time heard_at{};  // bound, or acknowledged last
  // For people only.
  Time down_at{};  // when it last went DOWN
  std::uint64_t packets_sent = 0;
  std::uint64_t packets_lost = 0;

  // When the acknowledged packet with the largest number departed; 0 if that isn't known.
  [[nodiscard]] Time newest_departed(SentBlockPool& blocks) {
    return any_acked && sent.contains(largest_acked) ? sent.at(blocks, largest_acked).departed
                                                     : Time{};
  }
  void advance_oldest(SentBlockPool& blocks) {
    while (oldest != sent.next() && sent.at(blocks, oldest).state != SentPacket::State::in_flight) {
      ++oldest;
    }
  }
};
static_assert(sizeof(Path) <= 320);

// The other end of a peer's path: which of its numbers have arrived here.
struct ReceivePath {
  std::uint8_t slot : 4 = 0;
  std::uint8_t local_nic : 4 = 0;  // where its packets arrive
  std::uint8_t generation = 0;
  std::uint8_t unacknowledged = 0;  // packets since the last PATH_ACK of this path, up to 255
  bool ack_due = false;             // something arrived since then
  std::uint32_t ce_count = 0;
  PathWindow window;
  std::uint64_t reach = 0;  // the oldest number that its sender still awaits
  Time largest_arrival{};   // lower bound of when `largest` arrived
  std::uint64_t marks = 0;  // bit i: `largest` - i came marked, and the sender wasn't told
};
static_assert(sizeof(ReceivePath) <= 168);

// How far the caller's wish to cancel a send has come.
enum class Cancel : std::uint8_t {
  none,
  asked,    // nothing new is sent, its envelopes ask to cancel; the receiver decides
  refused,  // it was matched first, so it goes on
};

struct OutgoingMessage {
  OperationId operation = kNoOperation;
  std::uint32_t peer = kNoIndex;
  std::uint32_t moved = 0;  // coarse: when it last made progress, or was answered
  std::uint64_t number = 0;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t tag = 0;
  std::uint16_t context = 0;
  SendOptions options{};

  std::uint32_t fragments = 1;       // an empty message has one
  std::uint32_t next_fragment = 0;   // the first that was never sent, or is to be sent anew
  std::uint32_t sent_before = 0;     // next_fragment as it was before it was set back
  std::uint32_t may_send = 0;        // fragments below it may be sent
  std::uint32_t rx_slot = kNoIndex;  // named by the grant
  std::uint32_t rx_generation = 0;
  std::uint32_t in_flight = 0;  // packets not yet acknowledged nor lost
  std::uint32_t queued = 0;     // entries in the retransmit queue
  std::uint32_t unreaped = 0;   // sends that a NIC may still read from
  bool granted = false;
  bool readable = true;   // by the processor, and not only by a device
  bool stopped = false;   // NO_ROOM: waits for a grant
  bool finished = false;  // has its final status; lives on until the NICs release it
  Cancel cancel = Cancel::none;
  Status result = Status::ok;

  Time ask_at = kNever;  // when to ask for the status
  Duration ask_interval{};
  bool ask_put_off = false;
  std::uint8_t asked = 0;  // how often without an answer since, up to 255
  ListLink send_link;      // on the peer's list of messages with fragments to send
};

// A message that lacks no more than this is at its tail: the receiver waits for the rest (TAIL),
// and the rest goes first. Large fragments have a lower limit, as it is their bytes that take time.
[[nodiscard]] inline std::uint32_t tail_fragments(std::uint32_t fragment_bytes) {
  constexpr std::uint32_t kMostFragments = 32;
  constexpr std::uint32_t kMostBytes = 131'072;
  return std::clamp(kMostBytes / fragment_bytes, 1u, kMostFragments);
}

// The order in which messages get grants.
enum class GrantRank : std::uint8_t {
  ordinary,
  tail,    // little of it is left to grant
  hinted,  // its hint has a priority
  gate,    // its group waits for it
};
inline constexpr std::size_t kGrantRanks = 4;

// A fragment that waits for retransmission.
struct Retransmit {
  SlabId message;
  std::uint32_t fragment = 0;
  ListLink link;
};

struct IncomingMessage {
  std::uint32_t peer = kNoIndex;
  std::uint32_t expect_turn = 0;  // the turn that set expect_at, if nothing was in vain before
  std::uint64_t number = 0;
  std::uint64_t tag = 0;
  std::uint64_t immediate = 0;
  std::uint64_t bytes = 0;
  std::uint16_t context = 0;
  bool delivered_level = false;  // the sender waits for status delivered
  Hint hint{};

  std::uint32_t fragments = 1;
  std::uint32_t moved = 0;  // coarse: when it last made progress
  FragmentBitmap arrived;
  std::uint32_t may_come = 0;  // fragments below it may be sent: unscheduled, then granted
  std::uint32_t granted = 0;   // up_to of the last grant, 0 before
  std::uint64_t awaited = 0;   // bytes that may come and have not, if the message is paced
  std::uint32_t first_chunk = kNoIndex;  // stored payload, while unmatched

  bool half = true;         // fragments of it are missing
  bool in_reserve = false;  // uses the descriptor that is reserved for its peer
  bool processed = false;   // its number's turn for matching has come
  bool claimed = false;     // the caller has its name; it is not in the matching
  bool kept = false;        // its sender was told that it can't be cancelled
  bool outlives = false;    // its session has ended
  std::uint64_t age = 0;    // among the messages without a receive, if it is claimed or held over
  bool matched = false;
  bool no_room = false;  // payload was dropped; the sender waits for a grant
  bool all_sent = false;
  bool say_grant = false;  // in the next control packet
  bool say_request = false;

  // The matched receive.
  OperationId operation = kNoOperation;
  std::byte* buffer = nullptr;
  std::uint64_t buffer_bytes = 0;
  ReceiveOptions options{};

  Time expect_at = kNever;       // detection interval of layer 2
  Time asked_at{};               // when the last grant or request left; 0: answered
  std::uint32_t asked_from = 0;  // a fragment in [asked_from, asked_to) is its answer
  std::uint32_t asked_to = 0;
  std::uint32_t requested_from = kNoIndex;  // the lowest of the last request; one that comes twice
                                            // was asked for too early
  std::uint8_t backoff = 0;
  bool expect_put_off = false;
  bool paced = false;   // matched, and not all of it comes unasked
  GrantRank rank{};     // while it wants a grant
  ListLink say_link;    // on the peer's list of messages with a grant or request due
  ListLink grant_link;  // on the list of its peer's messages that want a grant
  ListLink age_link;    // on the list of all that do
};

// The same status of `run` messages with consecutive numbers.
struct PendingStatus {
  std::uint64_t number = 0;
  wire::MessageStatus status{};
  std::uint16_t run = 1;
  ListLink link;
};

// A NIC of this endpoint and one of a peer, by index.
struct NicPair {
  constexpr NicPair() = default;
  constexpr NicPair(std::size_t local_nic, std::size_t remote_nic)
      : local(local_nic & 15), remote(remote_nic & 15) {}

  std::uint8_t local : 4 = 0;
  std::uint8_t remote : 4 = 0;
  friend constexpr bool operator==(const NicPair&, const NicPair&) = default;
};

[[nodiscard]] inline NicPair pair_of(const Path& path) { return {path.local_nic, path.remote_nic}; }

// How many pairs of NICs a packet of the control queue goes over.
enum class Ways : std::uint8_t {
  one,
  two,
  all,
};
// After being asked in vain this often, a question insists.
inline constexpr std::uint8_t kInsistsAfter = 2;

enum class SessionState : std::uint8_t { idle, calling, answered, ready, failed };

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
  bool announcing = false;     // READY: calls until the peer has our NICs' present addresses
  bool holds_call = false;     // in its first calls, which few peers may be at a time
  bool waits_to_call = false;  // on the list of callers
  bool is_half_open = false;   // on the list of half-open ones
  bool close_sent = false;
  bool close_answered = false;
  std::uint8_t pair_count = 0;  // of `pairs`, below
  NicPair said_over{};          // the pair that control went over last; of several, the first

  // Liveness.
  Time last_heard{};
  Time pending_since{};     // since when something is pending; 0: nothing is
  Time small_only_since{};  // nothing large passes on the only path that is left; 0: not so
  Time keepalive_at = kNever;
  bool timeout_put_off = false;
  bool refused : 1 = false;       // CALLING: the peer answered that it has no place
  bool outdated : 1 = false;      // CALLING: the peer answered that our epoch is no higher
  bool questioned : 1 = false;    // somebody needs to know whether it lives; ends when it is heard
  NicPair route{};                // the pair over which it was last heard
  std::uint8_t turn_slot = 0;     // where the next choice of a path begins
  std::uint32_t insisted_at = 0;  // fine: when a question last went over all pairs; 0: never
  Time stall_at{};                // when to look for stalled operations; 0: nothing is pending
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
  Time solicit_at = kNever;  // when to solicit again
  std::uint8_t solicit_backoff = 0;
  bool solicit_put_off = false;
  bool say_solicitation = false;
  bool reserve_used = false;  // the descriptor reserved for the lowest unprocessed number
  IndexList<IncomingMessage, &IncomingMessage::say_link> to_say;
  IndexList<PendingStatus, &PendingStatus::link> statuses;
  std::uint32_t doubted_at = 0;        // coarse
  ResponseTime response;               // of this peer to our handshakes, grants and requests
  std::uint32_t patience_eighths = 8;  // detection intervals are scaled by it: 8 is 1
  std::uint32_t active_epoch = 0;      // when it last sent data, for the allowance
  std::uint32_t grantee = kNoIndex;    // while its messages are paced

  // Acknowledging.
  std::uint32_t unacknowledged = 0;
  bool ack_now = false;
  bool say_finals = false;    // the peer waits: repeat the final statuses above its floor
  bool finals_again = false;  // the last packet had statuses: repeat them once
  Ways ways = Ways::one;      // for the next control packet: more, if the peer waits for it
  void raise_ways(Ways least) { ways = std::max(ways, least); }
  std::uint32_t granted_all = kNoIndex;  // the message whose last grant is to be repeated once
  Time ack_at = kNever;
  std::uint32_t ack_not_in_turn = 0;  // control due may ride on data that the next turn sends
  std::uint16_t nic_state_due = 0;    // bit per local NIC whose state the peer should hear of
  std::uint16_t doubted = 0;          // a bit per slot over which control got no answer

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
  std::array<wire::NicRecord, 8> nics{};  // the first NICs; Core::nic_of has them all
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
  // Numbers below starved_to were dropped for want of a descriptor. The peer is on the list
  // `starved` until all of them have been processed.
  std::uint64_t starved_to = 0;
  std::uint64_t solicited_to = 0;  // those below it were asked for since solicit_at was armed
  ListLink starved_link;
};
static_assert(sizeof(Peer) <= 1280);

// Peers whose messages were dropped for want of a descriptor, the next one to ask first.
struct StarvedPeers : IndexList<Peer, &Peer::starved_link> {
  std::uint32_t asked = 0;  // messages, in asked_turn
  std::uint32_t asked_turn = 0;
  std::uint32_t reserves_used = 0;  // of all peers
};

// Fragment indices, and the bitmaps over them, have 28 bits: 2^40 bytes in fragments of 4 KiB.
[[nodiscard]] constexpr bool fits_in_fragments(std::uint64_t bytes, std::uint32_t fragment_bytes) {
  return bytes <= std::uint64_t{fragment_bytes} << 28;
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

inline void fetch_paths(const Slab<Path>& paths, const Peer& peer) {
  for_each_bound(peer, [&](std::uint32_t slot) { paths.fetch(peer.paths[slot]); });
}

inline void set_unproven(Peer& peer, std::uint32_t slot) {
  if (peer.paths[slot] == kNoIndex) {
    peer.unproven = static_cast<std::uint16_t>(peer.unproven | 1u << slot);
  }
}

}  // namespace hawser::proto
