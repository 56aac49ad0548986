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
  std::uint8_t order = 0;  // among the picks for several paths
  std::uint8_t share = 0;  // of those paths: whose it is (Division)
};

// Packets under construction: for one path, in the first row, or for several, in a row for each
// NIC.
struct Burst {
  static constexpr std::size_t kMost = 64;
  std::array<std::array<Pick, kMost>, kMaxNics> picks;
  std::array<std::array<TxPacket, kMost>, kMaxNics> packets;
  std::array<std::uint8_t, kMaxNics> rows{};  // packets in each row, of several paths
  std::array<PacketBuffer*, kMost> buffers{};
  RemoteHandle remote = kNoRemote;
  std::uint32_t size = 0;  // packets in all rows
};

}  // namespace hawser::proto
