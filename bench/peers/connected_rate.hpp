// SPDX-License-Identifier: Apache-2.0
// The same messages by a NIC with a connection, a queue pair, for each peer: the baseline `rc`
// (docs/lab/baselines.md). Its NICs hold the contexts of so many connections and fetch the others.
#pragma once

#include <cstdint>

#include "sim/baseline/setup.hpp"

namespace hawser::bench {

struct ConnectedRate {
  bool all = false;
  std::uint32_t queue_pairs = 0;  // of the sender: peers that had a message
  double messages_per_s = 0;
  double misses_a_packet = 0;  // for each packet that the sender's NIC sent or acknowledged
};

// Sends messages from the host in port 0 to random peers, `under_way` at once, over the fabric of
// FabricWorld.
[[nodiscard]] ConnectedRate connected_rate(std::uint32_t peers, std::uint64_t messages,
                                           std::uint32_t bytes, std::uint32_t under_way,
                                           const baseline::ContextCache& cache);

}  // namespace hawser::bench
