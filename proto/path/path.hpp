// SPDX-License-Identifier: Apache-2.0
// A path of a peer as either end sees it, and the pair of NICs that it goes over. Plain data: the
// rules live in the files of this folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hawser/stats.hpp"
#include "proto/base/bitmap.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/base/timer.hpp"
#include "proto/path/congestion_controller.hpp"
#include "proto/path/lanes.hpp"
#include "proto/path/prompt_time.hpp"
#include "proto/path/response_time.hpp"
#include "proto/path/sent_packets.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::proto {

inline constexpr std::size_t kMaxPaths = 16;
inline constexpr std::size_t kMaxNics = wire::kMaxNics;
inline constexpr std::uint32_t kHomePaths = 2;  // how many paths a peer keeps bound

// Path numbers reserved for probes: if data had all of them in flight and lost, no probe could ask.
inline constexpr std::uint64_t kKeptForProbes = 2;

// After this many PTOs in a row, a path that is UP counts for as little as one that is not.
inline constexpr std::uint8_t kTriedInVain = 3;

// The count of unanswered packets ends here: no rule asks for more, and five bits hold it.
inline constexpr std::uint8_t kMostUnanswered = 22;

// The early probes that a path may send before the next acknowledgement.
inline constexpr std::uint8_t kEarlyProbes = 2;

// This many probes that a peer did not answer though it was there count against the NICs.
inline constexpr std::uint8_t kInVain = 3;

inline constexpr Duration kNoSample{INT64_MAX};

// The purposes of a path besides data.
struct PathRole {
  bool bridge : 1 = false;    // replaces a path that is down; released when that path returns
  bool witness : 1 = false;   // bound to find out whose fault a path's state is; released likewise
  bool for_bulk : 1 = false;  // one of those that max_bulk_paths limits
};

struct PathProbes {
  Timer timer;  // SUSPECT, DOWN, PROBING: the next probe
  Duration interval{};
};

// Events in a row that say something about the path, not about the fabric's load.
struct PathCounts {
  std::uint8_t in_vain = 0;  // probes without an ack though the peer was there
  // Large packets lost since one arrived, and the rounds in which they were lost, up to 15 each. A
  // round has the packets that were sent after the losses of the round before were known.
  std::uint8_t large_lost : 4 = 0;
  std::uint8_t large_rounds : 4 = 0;
  std::uint8_t unheard : 2 = 0;   // UP: rounds of packets that only the receiver missed
  std::uint8_t answered : 2 = 0;  // PROBING: full-size probes acknowledged
  std::uint8_t early : 2 = 0;     // early probes since the last ack, up to kEarlyProbes
};

struct PathTraffic {
  std::uint64_t balance_bytes = 0;    // sent, to decide between equally filled paths
  std::uint64_t delivered_bytes = 0;  // acknowledged since it was bound
  std::uint64_t packets_sent = 0;     // this and the next are for people only
  std::uint64_t packets_lost = 0;
};

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
  bool without_way : 1 =
      false;                   // UP: its driver does not know the way yet; `probe.timer` ends that
  bool told_down : 1 = false;  // an event told that it is down, and none that it is back
  bool reordering_proven : 1 = false;  // only time decides about gaps
  bool lost_lately : 1 = false;        // records below `oldest` may still be acknowledged late
  bool any_acked : 1 = false;
  bool resumed : 1 = false;      // after a rest, so the peer's ce_count from before is not known
  bool written_off : 1 = false;  // it doesn't answer; the limit for other peers ignores its packets
  bool prompt : 1 = false;       // what is in flight is acknowledged without delay
  bool acked_in_turn : 1 = false;
  bool any_requested : 1 = false;  // the receiver misses packets that no later packet has overtaken
  std::uint8_t lane_turn = 0;
  PromptTime prompt_time;   // how long answers take that the peer doesn't delay
  std::uint16_t tried = 0;  // of a bridge: bit i: its NIC sent kInVain such probes to remote NIC i
  std::uint32_t ce_count = 0;           // as last reported
  std::uint16_t packets_in_flight = 0;  // up to kPathNumbers
  PathCounts counts;
  PathRole role;
  std::uint8_t proven_epoch = 0;  // the last order_epoch in which reordering was proven

  SentPackets sent;
  Lanes lanes;
  std::uint64_t largest_acked = 0;  // meaningful if any_acked
  std::uint64_t bytes_in_flight = 0;
  std::uint64_t oldest = 0;  // no number below is in flight (a cursor, moved lazily)

  ResponseTime response;
  CongestionController window;
  PathTraffic traffic;

  Time last_departed{};  // of the packet sent last
  Timer pto_timer;       // armed while something is in flight
  PathProbes probe;
  Time large_lost_at{};  // when the last round of lost large packets began
  Time unheard_at{};     // when packets were last lost that only the receiver missed
  Time gap_at = kNever;  // when a gap that is still within its patience becomes a loss

  Time heard_at{};  // bound, or acknowledged last
  Time down_at{};   // when it last went DOWN

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

// A NIC of this endpoint and one of a peer, by index.
struct NicPair {
  constexpr NicPair() = default;
  constexpr NicPair(std::size_t local_nic, std::size_t remote_nic)
      : local(local_nic & 15), remote(remote_nic & 15) {}

  std::uint8_t local : 4 = 0;
  std::uint8_t remote : 4 = 0;
  friend constexpr bool operator==(const NicPair&, const NicPair&) = default;
};

// The path numbers, counted in units of as many as may be in flight. It wraps.
[[nodiscard]] constexpr std::uint8_t order_epoch(std::uint64_t path_number) {
  return static_cast<std::uint8_t>(path_number / kPathNumbers);
}

[[nodiscard]] inline NicPair pair_of(const Path& path) { return {path.local_nic, path.remote_nic}; }

}  // namespace hawser::proto
