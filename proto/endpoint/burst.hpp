// SPDX-License-Identifier: Apache-2.0
// Packets for one remote, on the way to their NIC (transmit.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/base/slab.hpp"
#include "proto/nic.hpp"

namespace hawser::proto {

// A fragment chosen for sending. Or the first of several messages of one fragment each; then `more`
// says how many follow it by number.
struct Pick {
  std::uint32_t message = kNoIndex;
  std::uint32_t fragment = 0;
  std::uint32_t more = 0;
  bool again = false;
  bool at_end = false;  // written: all of its message was picked by then
};

// A burst under construction.
struct Burst {
  static constexpr std::size_t kMost = 64;
  std::array<Pick, kMost> picks;
  std::array<TxPacket, kMost> packets;
  std::array<PacketBuffer*, kMost> buffers{};
  // Of a burst that is divided among paths: whose share each packet is, and all sorted by that.
  std::array<std::uint8_t, kMost> shares;
  std::array<TxPacket, kMost> sorted;
  RemoteHandle remote = kNoRemote;
  std::size_t size = 0;
};

}  // namespace hawser::proto
