// SPDX-License-Identifier: Apache-2.0
// The record of a peer that has been quiet. It suffices to continue the session as if nothing had
// happened, in less than an eighth of a Peer. rest.cpp decides when, and converts one into the
// other.
//
// Nothing is pending then, nothing is in flight, and no control is due. The record therefore holds
// the peer's identity, its addresses, and how far all numbers have come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hawser/status.hpp"
#include "proto/base/time.hpp"
#include "proto/nic.hpp"
#include "proto/path/path.hpp"
#include "proto/session/session_state.hpp"

namespace hawser::proto {

struct RestingPeer {
  // Peers with more NICs stay awake. Peers with longer addresses than those of today's drivers (UDP
  // 22 bytes, memory 24, verbs 32) do too: the rest of a NicAddress must be zero.
  static constexpr std::size_t kMostNics = 8;
  static constexpr std::size_t kAddressBytes = 32;
  // Messages whose final status the peer may not know yet. A peer with more of them stays awake.
  static constexpr std::uint32_t kMostFinals = 32;

  // Identity, numbers and state; in the order of size, to avoid padding.
  std::uint64_t remote_id = 0;
  std::uint64_t remote_epoch = 0;
  std::uint64_t remote_token = 0;
  std::uint64_t token = 0;
  std::uint64_t next_number = 0;  // and the floor
  std::uint64_t first_remote_number = 0;
  std::uint64_t next_to_process = 0;
  std::uint64_t finals = 0;  // 2 bits each for the statuses below next_to_process, oldest lowest
  std::uint64_t path_start = 0;  // this path number and all above are unused
  Time last_heard{};

  std::uint32_t remote_counter = 0;
  std::uint32_t remote_sequence = 0;
  std::uint32_t remote_index = 0;
  std::uint32_t counter = 0;
  std::uint32_t session_bytes = 0;
  std::uint32_t remote_unscheduled = 0;  // capped
  std::uint32_t smoothed_ns = 0;         // of the response time; capped
  std::uint32_t variance_ns = 0;
  std::uint32_t allowance_kib = 0;
  std::uint32_t nic_news = 0;  // the newest change of our NICs that the peer heard of
  std::array<std::uint32_t, kMostNics> nic_sequences{};

  std::uint16_t absence_ms = 0;
  std::uint16_t unproven = 0;  // of the slots
  SessionState state = SessionState::ready;
  Status failure = Status::ok;
  Reason failure_reason = Reason::none;
  bool wanted : 1 = false;
  bool one_sided : 1 = false;
  bool size_classes : 1 = false;
  bool verified : 1 = false;  // the epoch and the counter
  std::uint8_t final_count = 0;
  std::uint8_t patience_eighths = 8;
  NicPair route{};
  std::uint8_t nic_count = 0;
  std::uint8_t nics_up = 0;   // bit per NIC, by its word
  std::uint8_t nics_fit = 0;  // bit per NIC: it takes full packets
  std::array<std::uint8_t, kMaxPaths> generations{};
  std::array<std::array<std::byte, kAddressBytes>, kMostNics> addresses{};
};
static_assert(sizeof(RestingPeer) <= 440);
static_assert(RestingPeer::kMostFinals * 2 <= 64 && RestingPeer::kMostNics <= 8);

}  // namespace hawser::proto
