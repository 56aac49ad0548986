// SPDX-License-Identifier: Apache-2.0
// One NIC of the endpoint, shared by all of its peers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "proto/base/time.hpp"
#include "proto/nic.hpp"
#include "proto/path/lanes.hpp"
#include "proto/path/reordering.hpp"

namespace hawser::proto {

struct LocalNic {
  Nic* nic = nullptr;
  bool up = true;              // by word of the driver
  std::uint32_t sequence = 0;  // of NIC_STATE
  Time path_down_at{};         // when one of its paths last went DOWN
  // The newest of NicNews that say so: it changed in any way, went down or came up, went down or
  // moved, moved.
  std::uint32_t changed = 0;
  std::uint32_t switched = 0;
  std::uint32_t fell = 0;
  std::uint32_t moved = 0;
  // Everything that lay in its data ring when turn `drained` began has been taken. Turn `marked` is
  // drained too once four rings' worth have been received since `marked_bytes`.
  std::uint32_t drained = 0;
  std::uint32_t marked = 0;
  std::uint64_t marked_bytes = 0;
  std::uint64_t taken_bytes = 0;  // from its data ring, of any kind
  NicAddress address{};           // as told to the peers
  bool has_moved = false;         // since the endpoint was made
  bool gathers = false;           // it may hold packets back until it is flushed
  std::uint16_t lanes = 1;        // a power of two
  std::uint16_t lane_turn = 0;    // of packets without a path number
  Reordering reordering{};
  double ns_per_byte = 0;  // of the cable, nominal; 0: not known
  Time idle_at{};          // when everything given to it has left, at that rate
  Time planned_idle_at{};  // the same with packets that are being written
  std::uint64_t packets_sent = 0;
  std::uint64_t data_packets_sent = 0;  // of these, with a path number
  std::uint64_t bytes_sent = 0;
  std::uint64_t packets_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t packets_lost = 0;
  std::uint64_t retransmits = 0;

  // A packet was given to the NIC.
  void give(Time now, std::size_t bytes) {
    ++packets_sent;
    bytes_sent += bytes;
    idle_at = later(idle_at, now) + time_of(bytes);
  }
  // The time that the cable takes for the bytes.
  [[nodiscard]] Duration time_of(std::uint64_t bytes) const {
    return {static_cast<std::int64_t>(static_cast<double>(bytes) * ns_per_byte)};
  }

  // For a packet without a path number.
  [[nodiscard]] std::uint16_t next_entropy() {
    return static_cast<std::uint16_t>(lane_turn++ & (lanes - 1u));
  }
};

// Whether a change of a NIC (NicNews) came after the change `known`.
[[nodiscard]] constexpr bool is_newer(std::uint32_t news, std::uint32_t known) {
  return static_cast<std::int32_t>(news - known) > 0;
}

// How much data NICs get ahead of time. New packets wait behind everything that the NIC already
// has, even the retransmission of a lost packet.
struct Pace {
  Duration late_by{};      // how late this turn began
  Duration away_lately{};  // the longest recent turn, its delay included
  Time data_at = kNever;   // data waits until then, because the NICs have enough to send

  // Starts the sending half of a turn that has taken `took` so far.
  void start(Duration took) {
    constexpr int kFading = 64;  // turns
    away_lately = std::max(late_by + took, away_lately - away_lately / kFading);
    data_at = kNever;
  }
  // How long a NIC's own queue should last.
  [[nodiscard]] Duration enough() const { return std::max(away_lately * 2, microseconds(1)); }
  // Whether the NIC's own queue lasts until this end is back. If so, data waits until half of it
  // has left.
  [[nodiscard]] bool has_enough(Time idle_at, Time now) {
    if (idle_at <= now + enough()) return false;
    data_at = earlier(data_at, idle_at - enough() / 2);
    return true;
  }
  // How many packets of that size give a NIC enough: at least one.
  [[nodiscard]] std::uint64_t packets_to_enough(const LocalNic& nic, Time now,
                                                std::uint64_t bytes) const {
    const std::int64_t each = nic.time_of(bytes).ns;
    if (each == 0) return ~std::uint64_t{0};
    const Duration room = now + enough() - later(nic.idle_at, now);
    return static_cast<std::uint64_t>(std::max(room, Duration{}).ns / each) + 1;
  }
};

// The number of lanes: the entropies over which a path's packets spread.
[[nodiscard]] inline std::uint16_t lanes_of(const NicCaps& caps) {
  return std::bit_floor(std::clamp<std::uint16_t>(caps.entropies, 1, kMostLanes));
}

}  // namespace hawser::proto
