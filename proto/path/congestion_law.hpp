// SPDX-License-Identifier: Apache-2.0
// A congestion law decides how many bytes may be in flight on one path. A new law is a class that
// satisfies the concept CongestionLaw below. Only congestion_controller.hpp names the law in use;
// no other file of the protocol changes. The guide is docs/internals/congestion_law.md: what a law
// hears and when, its limits, and its tests.
//
// A law hears of two things. An acknowledgement brings delays, marks, newly acknowledged packets,
// and how much was in flight, to compare the window with (path_acks.cpp). Packets are lost if later
// ones overtook them (loss_detector.cpp). Other losses report 0 packets, as they show that a path
// or a receiver failed, and not that the fabric is full.
//
// Each path has a law of its own, and there are up to 16 paths a peer, so a law is small: Path has
// a limit on its size.
#pragma once

#include <concepts>
#include <cstdint>

#include "proto/base/time.hpp"

namespace hawser::proto {

struct CongestionConfig {
  std::uint32_t packet_bytes = 4096;  // a full packet
  std::uint64_t initial_packets = 32;
  Duration delay_target{};                    // above the path's least delay
  std::uint64_t spread_link_bytes_per_s = 0;  // of the local link; 0: unknown, or there is one lane
};

// The facts that an acknowledgement shows of one path. Packets that it names for the first time are
// newly acknowledged.
struct CongestionAck {
  Time now{};
  std::uint64_t acked_bytes = 0;
  std::uint64_t in_flight_before = 0;  // bytes, this ack's included
  Duration fabric_delay{};
  Duration host_delay{};  // the rest of the response time: the time in both hosts
  bool has_delay = false;
  bool is_large = true;              // the size of the packet that gave the delay
  std::uint64_t marked_packets = 0;  // newly marked with ECN CE
  std::uint64_t acked_packets = 0;
  Duration round{};  // smoothed response time: two decreases are at least this far apart
};

template <class Law>
concept CongestionLaw = std::default_initializable<Law> && std::copyable<Law> &&
    std::constructible_from<Law, const CongestionConfig&> &&
    requires(Law& law, const Law& same, const CongestionAck& ack, std::uint64_t packets) {
  law.on_ack(ack);
  law.on_lost(packets);
  // How many bytes may be in flight: never fewer than two full packets.
  { same.bytes() } -> std::same_as<std::uint64_t>;
  // For reports: the least delay of the fabric that was seen; 0 where the law keeps none.
  { same.fabric_floor() } -> std::same_as<Duration>;
};

}  // namespace hawser::proto
