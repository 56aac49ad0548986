// SPDX-License-Identifier: Apache-2.0
// Packets that an attacker makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace hawser::tool {

// The longest that a UDP datagram over IPv4 carries.
inline constexpr std::size_t kMaxDatagramBytes = 65507;

class PacketForge {
 public:
  explicit PacketForge(std::uint64_t seed) : dice_(seed) {}

  // Each writes a packet into `room`, which has kMaxDatagramBytes, and returns its length.
  std::size_t garbage(std::span<std::byte> room);
  std::size_t truncated(std::span<std::byte> room);

  // Changes a packet of a rank so that its checksum is right again.
  void forge(std::span<std::byte> packet);

  // A number below `limit`, which is above 0.
  std::uint64_t below(std::uint64_t limit) { return dice_() % limit; }

 private:
  void fill(std::span<std::byte> bytes);
  std::size_t well_formed(std::span<std::byte> room);

  std::mt19937_64 dice_;
};

// The length of the first packet in what went over the wire as one send of equal packets, but for
// the last; 0 if its checksum tells that it is none of ours.
[[nodiscard]] std::size_t first_packet(std::span<const std::byte> sent,
                                       std::uint64_t fragment_bytes);

// Sets the checksum; without effect on what is too short to have one.
void put_checksum_right(std::span<std::byte> packet);

}  // namespace hawser::tool
