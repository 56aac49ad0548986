// SPDX-License-Identifier: Apache-2.0
// What is kept of a peer that has been quiet: enough to go on with its session as if nothing had
// been, in less than an eighth of a Peer. rest.cpp decides when, and makes the one of the other.
//
// Nothing is pending then, nothing is in flight, and everything that was owed has been said; so
// what is left is who it is, where it is, and how far all numbers have come.
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
  // A peer of more NICs stays awake, and so does one whose addresses are longer than those of the
  // drivers that exist (UDP 22 bytes, memory 24, verbs 32): the rest of a NicAddress is zero.
  static constexpr std::size_t kMostNics = 8;
  static constexpr std::size_t kAddressBytes = 32;
  // Messages whose final status the peer may not know yet; one that lacks more stays awake.
  static constexpr std::uint32_t kMostFinals = 32;

  // Identity, numbers, and how it was; by size, so that nothing is lost between them.
  std::uint64_t remote_id = 0;
  std::uint64_t remote_epoch = 0;
  std::uint64_t remote_token = 0;
  std::uint64_t token = 0;
  std::uint64_t next_number = 0;  // and the floor
  std::uint64_t first_remote_number = 0;
  std::uint64_t next_to_process = 0;
  std::uint64_t finals = 0;      // 2 bits each of the statuses below next_to_process, oldest lowest
  std::uint64_t path_start = 0;  // no path has used this path number, nor one above it
  Time last_heard{};

  std::uint32_t remote_counter = 0;
  std::uint32_t remote_sequence = 0;
  std::uint32_t remote_index = 0;
  std::uint32_t counter = 0;
  std::uint32_t fragment_bytes = 0;
  std::uint32_t remote_unscheduled = 0;  // capped
  std::uint32_t smoothed_ns = 0;         // of the response time; capped
  std::uint32_t variance_ns = 0;
  std::uint32_t allowance_kib = 0;
  std::uint32_t nic_news = 0;  // what it has been told of our NICs
  std::array<std::uint32_t, kMostNics> nic_sequences{};

  std::uint16_t absence_ms = 0;
  std::uint16_t unproven = 0;  // of the slots
  SessionState state = SessionState::ready;
  Status failure = Status::ok;
  Reason failure_reason = Reason::none;
  bool wanted = false;
  bool verified = false;  // the epoch and the counter
  std::uint8_t final_count = 0;
  std::uint8_t patience_eighths = 8;
  NicPair route{};
  std::uint8_t nic_count = 0;
  std::uint8_t nics_up = 0;  // bit per NIC, by its word
  std::array<std::uint8_t, kMaxPaths> generations{};
  std::array<std::uint8_t, kMaxPaths> receive_generations{};
  std::array<std::array<std::byte, kAddressBytes>, kMostNics> addresses{};
};
static_assert(sizeof(RestingPeer) <= 456);
static_assert(RestingPeer::kMostFinals * 2 <= 64 && RestingPeer::kMostNics <= 8);

}  // namespace hawser::proto
