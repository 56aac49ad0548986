// SPDX-License-Identifier: Apache-2.0
// The cost of the death of a NIC. One of a host's two NICs dies while each peer is awake and has a
// message of 4 KiB under way. The host and the peers are real endpoints, unchanged. Each peer has
// one NIC, and limits for one peer.
//
// All peers have the same history, so one NIC carries the messages to all of them. That NIC dies
// and reports `down`, and every message is lost with it.
//
// Time is virtual. A turn of the host takes 200 ns and 40 ns more for each packet. The host's
// packets reach a peer 10 us later, and answers take no time. The processor's clock times the
// host's half turns alone. The peers run on the same processor between the host's turns, so its
// caches hold little of the host.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::bench {

// The longest half turn of the host, from the death until all messages are complete.
struct LongestHalf {
  double median_us = 0;  // of all runs
  double worst_us = 0;
};

struct NicDeath {
  LongestHalf begin_turn;
  LongestHalf finish_turn;
  // These are the same in every run.
  std::uint64_t turns = 0;   // from the death until all messages are complete
  double virtual_us = 0;     // the same
  std::uint64_t lost = 0;    // packets of the dead NIC that were in flight
  std::uint64_t resent = 0;  // fragments that the host retransmitted
  std::string complaint;     // what went wrong; empty if all messages are complete and `ok`
};

// The host's pool has a header buffer for each of so many packets in flight, and as many more.
inline constexpr std::uint32_t kMostDeathPeers = 4096;

// `dies`: false gives the baseline, in which both NICs live. Each of the `runs` (at least 1) begins
// anew with connecting.
[[nodiscard]] NicDeath measure_nic_death(std::uint32_t peers, bool dies, std::uint32_t runs);

}  // namespace hawser::bench
