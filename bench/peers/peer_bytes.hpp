// SPDX-License-Identifier: Apache-2.0
// What one more peer takes of an endpoint's memory, measured from what the endpoint took from the
// heap and what of that is resident.
#pragma once

#include <cstdint>

namespace hawser::bench {

struct PeerBytes {
  double at_rest = 0;          // what it takes at start for each of max_peers, and what it keeps
  double awake = 0;            // after a message
  double under_way = 0;        // and with a message each way under way, of all peers at once
  std::uint64_t endpoint = 0;  // all of it, with all peers at rest
};

// From 4096 peers on all that doesn't grow with them has been used when half of them are there.
inline constexpr std::uint32_t kPeersToMeasure = 4096;

[[nodiscard]] PeerBytes measure_peer_bytes(std::uint32_t peers);

}  // namespace hawser::bench
