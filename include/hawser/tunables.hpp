// SPDX-License-Identifier: Apache-2.0
// The table of all tunables: name, unit, default, range, hostile extremes, reason.
//
// `hawser info` prints the table, and a check compares docs/tunables.md with it. The storm draws
// from [hostile_low, hostile_high]; these values may make the engine slow but never wrong. Set a
// tunable in a Tunables value, by `set("name", value)`, or by the environment variable
// HAWSER_<NAME>.
//
// To add a tunable: add a row here, use it through the Tunables that the object was made with, and
// add its row to docs/tunables.md. A value that nobody varies is a constant instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "hawser/status.hpp"

namespace hawser {

// X(name, unit, default, minimum, maximum, hostile_low, hostile_high, reason)
#define HAWSER_TUNABLES(X)                                                                        \
  X(fragment_bytes, "bytes", 30720, 256, 61440, 256, 8192,                                        \
    "largest payload of a full packet; UDP NICs carry at most what the MTU allows, others 4096")  \
  X(unscheduled_bytes, "bytes", 65536, 0, 16777216, 0, 262144,                                    \
    "bytes of a message sent before its receive has matched; the rest waits for a grant")         \
  X(unscheduled_us, "us", 14, 0, 100000, 0, 1000,                                                 \
    "the same limit as a time: what the NICs' links carry in it, if that is known to be more")    \
  X(grant_window_bytes, "bytes", 8388608, 65536, 1073741824, 65536, 16777216,                     \
    "how far a grant reaches beyond a message's first missing fragment")                          \
  X(grant_start_bytes, "bytes", 262144, 4096, 1073741824, 4096, 16777216,                         \
    "granted bytes in flight per NIC until the receiver has measured what it can take")           \
  X(unexpected_bytes, "bytes", 33554432, 65536, 17179869184, 65536, 67108864,                     \
    "memory for payload that arrives before its receive; the sender keeps what exceeds it")       \
  X(max_peers, "count", 256, 1, 65536, 2, 64,                                                     \
    "peers of an endpoint at once; memory for all of them is allocated at the start")             \
  X(max_operations, "count", 8192, 16, 1048576, 32, 4096,                                         \
    "sends and receives that an endpoint holds at once; beyond it calls return `again`")          \
  X(max_messages_per_peer, "count", 2048, 4, 65536, 4, 4096,                                      \
    "unfinished messages to one peer; beyond it sends return `again`")                            \
  X(max_in_flight_packets, "count", 16384, 64, 1048576, 64, 16384,                                \
    "unacknowledged packets, without probes, to all peers that answer; as many again to others")  \
  X(max_receive_messages, "count", 16384, 16, 1048576, 16, 4096,                                  \
    "messages that an endpoint reassembles or holds unmatched; each peer adds one")               \
  X(initial_window_packets, "count", 32, 1, 1024, 1, 256,                                         \
    "a path's congestion window before its first acknowledgement")                                \
  X(delay_target_us, "us", 50, 1, 1000000, 1, 10000,                                              \
    "fabric delay above the path's floor at which its window stops growing (Swift's target)")     \
  X(ack_every_packets, "count", 16, 1, 256, 1, 256,                                               \
    "packets from one peer after which the receiver acknowledges at once")                        \
  X(max_ack_delay_us, "us", 200, 0, 100000, 0, 20000,                                             \
    "longest time that an acknowledgement waits to share a packet")                               \
  X(timer_granularity_us, "us", 200, 1, 100000, 1, 10000,                                         \
    "minimum of 4*RTTVAR in probe timeouts and of the detection interval; shorter times measure " \
    "the host")                                                                                   \
  X(initial_rtt_us, "us", 2000, 1, 10000000, 1, 1000000,                                          \
    "response time assumed before the first sample")                                              \
  X(reorder_packets, "count", 3, 1, 1024, 1, 64,                                                  \
    "packets of one path by which a gap must be overtaken to count as loss (RFC 9002: 3)")        \
  X(path_probe_min_us, "us", 2000, 100, 10000000, 100, 1000000,                                   \
    "first interval between probes of a path that is down")                                       \
  X(path_probe_max_us, "us", 500000, 1000, 3600000000, 1000, 10000000,                            \
    "the interval that probing backs off to")                                                     \
  X(max_path_slots, "count", 16, 1, 16, 1, 16, "paths to one peer")                               \
  X(max_bulk_paths, "count", 16384, 0, 1048576, 0, 64,                                            \
    "paths of all peers together that carry bulk alone, beyond two home paths of each peer")      \
  X(peer_timeout_ms, "ms", 10000, 10, 86400000, 10, 60000,                                        \
    "silence on every path after which the operations to a peer fail")                            \
  X(rest_after_ms, "ms", 5000, 0, 86400000, 0, 60000,                                             \
    "idle time after which a peer's paths are freed and only its session is remembered")          \
  X(handshake_retry_us, "us", 20000, 100, 10000000, 100, 1000000,                                 \
    "first interval between handshake attempts; it doubles each time, with jitter")               \
  X(max_outstanding_handshakes, "count", 64, 1, 65536, 1, 64,                                     \
    "handshakes that an endpoint begins at once; others wait their turn")                         \
  X(max_half_open_sessions, "count", 64, 0, 65536, 0, 64,                                         \
    "half-made sessions of strangers; beyond it (or max_peers/4) strangers prove their address")  \
  X(longest_absence_ms, "ms", 0, 0, 65535, 0, 1000,                                               \
    "longest time between two polls of the program; peers add it to their peer_timeout_ms")       \
  X(close_timeout_ms, "ms", 1000, 0, 600000, 0, 10000,                                            \
    "how long closing waits for final statuses")                                                  \
  X(late_wakeup_us, "us", 1000, 1, 10000000, 1, 100000,                                           \
    "after a poll this late, expired timers first wait for one drain and one SRTT")               \
  X(poll_budget_packets, "count", 128, 8, 65536, 8, 1024,                                         \
    "packets received from a NIC's queue in one turn")                                            \
  X(send_budget_packets, "count", 64, 1, 65536, 1, 1024,                                          \
    "data packets sent in one turn; the last of them see the turn's length as delay")             \
  X(initial_sequence, "number", 0, 0, 1099511627776u, 0, 1099511627776u,                          \
    "first message and path number of a session; tests use it to make the numbers wrap soon")     \
  X(nic_receive_bytes, "bytes", 4194304, 65536, 1073741824, 65536, 4194304,                       \
    "data receive buffer of a NIC: of a UDP socket, where the kernel may grant less, or of an "   \
    "RDMA port's ring")                                                                           \
  X(verbs_traffic_class, "number", 0, 0, 255, 0, 252,                                             \
    "traffic class of verbs packets on RoCE, 4 times their DSCP; the low two bits are ECN's")     \
  X(verbs_service_level, "number", 0, 0, 15, 0, 15,                                               \
    "service level of verbs packets on InfiniBand, and their priority on RoCE")                   \
  X(packet_buffers, "count", 8192, 256, 1048576, 256, 8192,                                       \
    "header buffers of an endpoint's pool")                                                       \
  X(max_registrations, "count", 1024, 0, 65536, 0, 64,                                            \
    "registrations of memory by the program that an endpoint holds at once")                      \
  X(registration_cache_bytes, "bytes", 1073741824, 0, 1099511627776, 0, 16777216,                 \
    "memory of sends that the cache keeps registered, counted once per NIC; 0 turns it off")      \
  X(registration_cache_entries, "count", 1024, 0, 65536, 0, 64,                                   \
    "buffers of sends that the cache keeps registered; 0 turns it off")                           \
  X(registration_min_bytes, "bytes", 16384, 1, 1099511627776, 1, 1048576,                         \
    "shorter sends are copied: pinning pages costs more than copying few bytes")                  \
  X(spin_us, "us", 20, 0, 1000000, 0, 1000,                                                       \
    "how long a wait spins before it yields the processor")                                       \
  X(yield_us, "us", 200, 0, 1000000, 0, 1000,                                                     \
    "how long a wait yields before it blocks in the kernel")                                      \
  X(command_budget, "count", 64, 1, 4096, 1, 64,                                                  \
    "commands that an engine thread takes from an endpoint's ring in one poll")

struct Tunables {
#define HAWSER_FIELD(name, unit, dflt, min, max, low, high, reason) std::uint64_t name = dflt;
  HAWSER_TUNABLES(HAWSER_FIELD)
#undef HAWSER_FIELD

  // Sets one tunable. `invalid_argument`: no tunable of that name, or the value is out of its
  // range; nothing changed.
  [[nodiscard]] inline Status set(std::string_view name, std::uint64_t value) noexcept;
};

struct TunableRow {
  std::string_view name;
  std::string_view unit;
  std::uint64_t default_value;
  std::uint64_t minimum;
  std::uint64_t maximum;
  std::uint64_t hostile_low;
  std::uint64_t hostile_high;
  std::string_view reason;
  std::uint64_t Tunables::*field;
};

inline constexpr auto kTunables = std::to_array<TunableRow>({
#define HAWSER_ROW(name, unit, dflt, min, max, low, high, reason) \
  TunableRow{#name, unit, dflt, min, max, low, high, reason, &Tunables::name},
    HAWSER_TUNABLES(HAWSER_ROW)
#undef HAWSER_ROW
});

inline Status Tunables::set(std::string_view name, std::uint64_t value) noexcept {
  for (const TunableRow& row : kTunables) {
    if (row.name != name) continue;
    if (value < row.minimum || value > row.maximum) return Status::invalid_argument;
    this->*row.field = value;
    return Status::ok;
  }
  return Status::invalid_argument;
}

}  // namespace hawser
