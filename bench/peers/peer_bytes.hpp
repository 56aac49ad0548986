// SPDX-License-Identifier: Apache-2.0
// What one more peer takes of an endpoint's memory: the resident part of what the endpoint took
// from the heap.
#pragma once

#include <cstdint>

namespace hawser::bench {

struct PeerBytes {
  double at_rest = 0;          // reserved at start for each of max_peers, and kept
  double awake = 0;            // once it has exchanged a message
  double under_way = 0;        // and with a message each way under way, for all peers at once
  std::uint64_t endpoint = 0;  // the whole endpoint, with all peers at rest
};

// From 4096 peers on, half of them have used all memory that doesn't grow with the peers.
inline constexpr std::uint32_t kPeersToMeasure = 4096;

[[nodiscard]] PeerBytes measure_peer_bytes(std::uint32_t peers);

}  // namespace hawser::bench
