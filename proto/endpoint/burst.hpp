// SPDX-License-Identifier: Apache-2.0
// Packets on the way to their NICs (transmitter.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/message/pick.hpp"
#include "proto/nic.hpp"
#include "proto/path/path.hpp"

namespace hawser::proto {

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
