// SPDX-License-Identifier: Apache-2.0
// Packets that an attacker makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "proto/wire/layout.hpp"

namespace hawser::tool {

// The longest payload of a UDP datagram over IPv4.
inline constexpr std::size_t kMaxDatagramBytes = 65507;

class PacketForge {
 public:
  explicit PacketForge(std::uint64_t seed) : dice_(seed) {}

  // Each writes a packet into `room`, which has kMaxDatagramBytes, and returns its length.
  std::size_t garbage(std::span<std::byte> room);
  std::size_t truncated(std::span<std::byte> room);

  // Changes a packet of a rank and makes its checksum right again.
  void forge(std::span<std::byte> packet);

  // A number below `limit`, which is above 0.
  std::uint64_t below(std::uint64_t limit) { return dice_() % limit; }

 private:
  void fill(std::span<std::byte> bytes);
  std::size_t well_formed(std::span<std::byte> room);
  // Gives a WRITE, READ or ATOMIC fields that pass the checks of its format.
  void make_one_sided(std::span<std::byte> packet, proto::wire::PacketType type);

  std::mt19937_64 dice_;
};

// The length of the first packet in a send of equal packets, of which the last may be shorter. 0 if
// its checksum shows that it is not Hawser's.
[[nodiscard]] std::size_t first_packet(std::span<const std::byte> sent,
                                       std::uint64_t fragment_bytes);

// Sets the checksum; does nothing to a packet that is too short to have one.
void put_checksum_right(std::span<std::byte> packet);

}  // namespace hawser::tool
