// SPDX-License-Identifier: Apache-2.0
// Packets on the way to their NICs (transmit.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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
  bool at_end = false;           // when it was written, all of its message had been picked
  bool carries_control = false;  // what was due to the peer rides on it
  std::uint8_t order = 0;        // among the picks for several paths
  std::uint8_t share = 0;        // of those paths: whose it is (Division)
};

// Packets under construction: for one path, in the first row, or for several, in a row for each
// NIC of the endpoint.
struct Burst {
  static constexpr std::size_t kMost = 64;
  struct Row {
    std::array<Pick, kMost> picks;
    std::array<TxPacket, kMost> packets;
    std::uint8_t count = 0;  // of packets of several paths
  };

  explicit Burst(std::size_t nics) : rows(nics) {}

  std::vector<Row> rows;
  std::array<PacketBuffer*, kMost> buffers{};
  RemoteHandle remote = kNoRemote;
  std::uint32_t size = 0;  // packets in all rows
};

}  // namespace hawser::proto
