// SPDX-License-Identifier: Apache-2.0
// Packets on the way to their NICs (transmit.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/base/slab.hpp"
#include "proto/nic.hpp"
#include "proto/path/path.hpp"

namespace hawser::proto {

// A fragment chosen for sending. Or the first of several messages of one fragment each; then `more`
// says how many follow it by number.
struct Pick {
  std::uint32_t message = kNoIndex;
  std::uint32_t fragment = 0;
  std::uint32_t more = 0;
  bool again = false;
  bool at_end = false;     // when it was written, all of its message had been picked
  std::uint8_t order = 0;  // of several paths: among all picks
  std::uint8_t share = 0;  // of several paths: in the division
};

// Packets under construction: a burst for one path, or rows for the NICs of several paths.
struct Burst {
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kRow = 32;  // places of a NIC, from kRow times its index on
  std::array<Pick, kMaxNics * kRow> picks;
  std::array<TxPacket, kMaxNics * kRow> packets;
  std::array<PacketBuffer*, kMost> buffers{};
  RemoteHandle remote = kNoRemote;
  std::uint32_t size = 0;  // packets of all paths
  std::array<std::uint8_t, kMaxNics> rows{};
};
static_assert(Burst::kMost <= kMaxNics * Burst::kRow);

}  // namespace hawser::proto
