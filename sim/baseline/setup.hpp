// SPDX-License-Identifier: Apache-2.0
// What all baselines share: the lengths of packets, and which parts of a NIC are modelled.
#pragma once

#include <cstdint>

#include "sim/fabric/instant.hpp"

namespace hawser::baseline {

// In bytes. The defaults are what Hawser's own packets carry on the fabric, so that no sender wins
// by shorter headers: 4096 of payload in 4266.
struct PacketSizes {
  std::uint32_t payload = 4096;
  std::uint32_t overhead = 170;  // of a data packet: 90 of Ethernet to IB, 80 of the protocol
  std::uint32_t ack = 122;       // all of it: 90, and the 32 that acks say here (ack.hpp)
  bool urgent_acks = true;       // in a class of their own

  [[nodiscard]] std::uint32_t most() const { return payload + overhead; }
};

// The connections' contexts that a NIC holds. It fetches others from the host's memory.
struct ContextCache {
  std::uint32_t contexts = 0;  // 0: it holds all
  fabric::Span miss{};         // how long a fetch takes
  std::uint32_t fetches = 0;   // at the same time, further ones wait; 0: no limit
};

struct Setup {
  PacketSizes sizes;
  ContextCache cache;  // of each NIC
  // The delay-bandwidth product at a port's rate; 0: that of the fabric's longest way.
  std::uint64_t round_trip_bytes = 0;
  std::uint64_t seed = 1;
};

}  // namespace hawser::baseline
