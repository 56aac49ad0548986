// SPDX-License-Identifier: Apache-2.0
// Counters and gauges of an endpoint. Counters start at 0 with the endpoint and are never reset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/events.hpp"
#include "hawser/types.hpp"

namespace hawser {

// Reasons to drop a received packet, or a part of it. Each is counted, never asserted on.
#define HAWSER_DROP_REASONS(X)                                          \
  X(too_short, "shorter than its headers state")                        \
  X(bad_version, "another wire version")                                \
  X(bad_type, "unknown packet or block type")                           \
  X(bad_checksum, "CRC32C differs")                                     \
  X(bad_field, "a field is out of its range")                           \
  X(bad_mac, "handshake with a wrong MAC")                              \
  X(unknown_receiver, "no peer at that index")                          \
  X(screened, "filtered by the NIC: not for this endpoint")             \
  X(wrong_token, "token of another session")                            \
  X(stale_session, "handshake of an older incarnation")                 \
  X(stale_path, "path slot of an older generation")                     \
  X(old_path_number, "path number behind the window, or seen before")   \
  X(below_floor, "message finished and forgotten at both ends")         \
  X(beyond_window, "message number or fragment beyond what is allowed") \
  X(duplicate_fragment, "fragment received before")                     \
  X(bad_slot, "granted fragment whose slot and message disagree")       \
  X(no_room, "unexpected payload with no room; the envelope was kept")  \
  X(no_descriptor, "no free descriptor for the envelope")               \
  X(not_connected, "data before the session is established")            \
  X(limit, "handshake beyond a limit")

enum class DropReason : std::uint8_t {
#define HAWSER_ENUM(name, text) name,
  HAWSER_DROP_REASONS(HAWSER_ENUM)
#undef HAWSER_ENUM
      count_
};
inline constexpr std::size_t kDropReasons = static_cast<std::size_t>(DropReason::count_);

struct DropReasonText {
  std::string_view name;
  std::string_view text;
};
inline constexpr std::array<DropReasonText, kDropReasons> kDropReasonTexts{{
#define HAWSER_TEXT(name, text) {#name, text},
    HAWSER_DROP_REASONS(HAWSER_TEXT)
#undef HAWSER_TEXT
}};

// True for reasons that occur even in runs without any fault: the packet came twice, or its
// session, path or message had ended. Any other reason shows a sender that misbehaves, or a limit
// that is too low.
[[nodiscard]] constexpr bool is_late(DropReason reason) noexcept {
  using enum DropReason;
  return reason == stale_session || reason == stale_path || reason == old_path_number ||
         reason == below_floor || reason == duplicate_fragment;
}

// X(name, text)
#define HAWSER_COUNTERS(X)                                                                    \
  X(data_packets_sent, "packets with a path number, retransmits included")                    \
  X(data_bytes_sent, "payload bytes in data packets sent")                                    \
  X(packed_packets_sent, "data packets that carry several messages")                          \
  X(packed_messages_sent, "messages in packed packets")                                       \
  X(data_packets_received, "packets with a path number that were applied")                    \
  X(data_bytes_received, "payload bytes placed, each once")                                   \
  X(control_packets_sent, "acknowledgements, statuses, requests, grants sent")                \
  X(control_packets_received, "acknowledgements, statuses, requests, grants received")        \
  X(packets_lost, "packets declared lost")                                                    \
  X(lost_by_gap, "packets declared lost by the gap rule")                                     \
  X(lost_by_request, "packets declared lost because the receiver requested them")             \
  X(lost_by_evacuation, "packets declared lost as their path was silent or dead")             \
  X(fragments_retransmitted, "fragments retransmitted")                                       \
  X(bytes_retransmitted, "payload bytes retransmitted")                                       \
  X(spurious_retransmits, "retransmitted fragments whose first packet arrived after all")     \
  X(duplicate_fragments, "fragments received more than once")                                 \
  X(requests_sent, "requests for missing fragments sent")                                     \
  X(requests_received, "requests for missing fragments received")                             \
  X(ptos, "probe timeouts")                                                                   \
  X(path_probes_sent, "probes of paths")                                                      \
  X(message_probes_sent, "envelopes sent to request a message's status")                      \
  X(evacuations, "paths evacuated because they were silent")                                  \
  X(paths_down, "paths gone DOWN")                                                            \
  X(paths_returned, "paths back from DOWN to UP")                                             \
  X(no_room_answers, "messages answered NO_ROOM")                                             \
  X(unexpected_messages, "messages that arrived before their receive")                        \
  X(messages_sent, "sends completed ok or truncated")                                         \
  X(messages_received, "receives completed ok or truncated")                                  \
  X(writes_completed, "writes completed ok, their signals included")                          \
  X(reads_completed, "reads completed ok")                                                    \
  X(atomics_completed, "atomics completed ok")                                                \
  X(writes_placed, "peers' writes of which every byte was placed")                            \
  X(reads_answered, "peers' reads granted, each with one reply")                              \
  X(atomics_executed, "peers' atomics and signals executed")                                  \
  X(one_sided_repeats, "packets answered by the kept status of a one-sided operation")        \
  X(one_sided_refused, "peers' one-sided operations refused, or ended by a withdrawal")       \
  X(handshakes_sent, "handshake packets sent")                                                \
  X(challenges_sent, "handshakes answered by a challenge to their sender's address")          \
  X(late_acknowledgements, "acknowledgements of paths that had been given up")                \
  X(resets_sent, "packets of ended sessions answered by a reset")                             \
  X(sessions_established, "sessions that became ready")                                       \
  X(peers_rested, "times that a quiet peer was put to rest")                                  \
  X(peers_woken, "times that a resting peer was woken")                                       \
  X(peers_forgotten, "peers with an ended session whose place a new peer got")                \
  X(calls_refused, "handshakes refused because all max_peers places were in use")             \
  X(peer_failures, "sessions that failed")                                                    \
  X(operations_stalled, "times that an operation with a heard peer stalled for peer_timeout") \
  X(late_turns, "polls that came later than requested, or stalled half-way")                  \
  X(packets_marked, "data packets that switches marked (ECN CE)")                             \
  X(host_overruns, "packets lost in this host's own receive queues")                          \
  X(window_limited, "times that data waited for a congestion window")                         \
  X(nic_backpressure, "times that a NIC accepted fewer packets than offered")                 \
  X(events_lost, "events discarded unpolled because their ring was full")                     \
  X(payload_bytes_in_place, "payload bytes that RDMA devices read in place")                  \
  X(payload_bytes_copied, "bytes copied for RDMA devices: unregistered payload, padding")     \
  X(registration_hits, "sends whose memory was already registered")                           \
  X(registration_misses, "sends long enough for the cache whose memory was not registered")   \
  X(registrations_made, "registrations that the cache made")                                  \
  X(registrations_refused, "registrations refused: memory not watchable, or not lockable")    \
  X(registrations_evicted, "registrations that the cache evicted for others")                 \
  X(registrations_stale, "registrations ended because their memory was unmapped or moved")    \
  X(datagrams_fragmented, "datagrams longer than their route's MTU, sent as IP fragments")    \
  X(segmentation_refused, "times that the kernel refused to segment sends to a remote NIC")   \
  X(segmentation_resumed, "times that the kernel segmented such sends again")                 \
  X(datagrams_by_other_devices, "datagrams that arrived through another device than their NIC's")

struct EndpointStats {
#define HAWSER_FIELD(name, text) std::uint64_t name = 0;
  HAWSER_COUNTERS(HAWSER_FIELD)
#undef HAWSER_FIELD
  std::array<std::uint64_t, kDropReasons> drops{};

  // Gauges: values at this moment.
  std::uint64_t operations_pending = 0;
  std::uint64_t packets_in_flight = 0;
  std::uint64_t sends_unreleased = 0;  // have their final status, but a NIC still holds their bytes
  std::uint64_t buffers_in_use = 0;    // packet buffers taken from the pool; 0 when all is quiet
  std::uint64_t unexpected_bytes_held = 0;
  std::uint64_t messages_unmatched = 0;  // here or announced, without a receive; claimed ones too
  std::uint64_t messages_claimed = 0;
  std::uint64_t regions_exposed = 0;  // withdrawn ones too, while a NIC reads from them
  std::uint64_t replies_pending = 0;  // to peers' reads and fetching atomics
  std::uint64_t peers_awake = 0;
  std::uint64_t peers_at_rest = 0;  // known peers that are kept only as a record of their session
  std::uint64_t registrations = 0;  // of memory, by the program and by the cache
  std::uint64_t registered_bytes = 0;
};

struct CounterRow {
  std::string_view name;
  std::string_view text;
  std::uint64_t EndpointStats::*field;
};
inline constexpr auto kCounters = std::to_array<CounterRow>({
#define HAWSER_ROW(name, text) CounterRow{#name, text, &EndpointStats::name},
    HAWSER_COUNTERS(HAWSER_ROW)
#undef HAWSER_ROW
});

// State of a path, or of all paths of a NIC together.
enum class PathState : std::uint8_t { up, suspect, down, probing };
[[nodiscard]] constexpr std::string_view to_string(PathState state) noexcept {
  switch (state) {
    case PathState::up: return "UP";
    case PathState::suspect: return "SUSPECT";
    case PathState::down: return "DOWN";
    case PathState::probing: return "PROBING";
  }
  return "?";
}

// One local NIC as this endpoint sees it, summed over all peers.
struct NicStats {
  std::string name;
  // The best state of the NIC's paths. An UP path counts only if the peer was heard on it since a
  // path of this NIC went DOWN. An UP path that leaves three probe timeouts unanswered counts as
  // SUSPECT.
  PathState state = PathState::up;
  std::uint64_t packets_sent = 0;
  std::uint64_t data_packets_sent = 0;  // those with a path number, which can be detected as lost
  std::uint64_t bytes_sent = 0;         // on the wire, headers included
  std::uint64_t packets_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t packets_lost = 0;
  std::uint64_t retransmits = 0;
  std::uint64_t overruns = 0;
  std::uint64_t srtt_ns = 0;       // mean over its UP paths; 0 before the first sample
  std::uint64_t window_bytes = 0;  // sum of its paths' congestion windows
  std::uint64_t bytes_in_flight = 0;
};

struct PathStats {
  std::uint8_t slot = 0;
  std::uint8_t generation = 0;
  std::uint8_t local_nic = 0;
  std::uint8_t remote_nic = 0;
  PathState state = PathState::up;
  std::uint64_t srtt_ns = 0;
  std::uint64_t rttvar_ns = 0;
  std::uint64_t min_fabric_delay_ns = 0;
  std::uint64_t delivered_bytes = 0;  // acknowledged so far
  std::uint64_t window_bytes = 0;
  std::uint64_t bytes_in_flight = 0;
  std::uint64_t packets_sent = 0;
  std::uint64_t packets_lost = 0;
};

struct PeerStats {
  PeerId peer = kAnyPeer;
  std::uint64_t endpoint_id = 0;
  bool established = false;
  bool at_rest = false;  // has been quiet, and has no paths until it is woken
  Status failure = Status::ok;
  std::uint32_t fragment_bytes = 0;      // payload of a full packet, as the ways carry it now
  std::uint32_t session_bytes = 0;       // the most that it may be in this session; 0: no session
  Reason failure_reason = Reason::none;  // why it failed, as its event says
  std::uint64_t sends_pending = 0;
  std::uint64_t last_heard_ns_ago = 0;
  std::vector<PathStats> paths;
};

}  // namespace hawser
