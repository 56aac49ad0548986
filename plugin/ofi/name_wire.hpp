// SPDX-License-Identifier: Apache-2.0
// The datagrams that turn a port name into an address. A request and its answer have the same form
// and size. A request with a forged source therefore can't amplify traffic.
//
//   0        4         5      6      8       16               72
//   +--------+---------+------+------+-------+----------------+
//   | magic  | version | kind | zero | nonce | address        |
//   +--------+---------+------+------+-------+----------------+
//
//   magic    tells strangers' datagrams apart
//   version  1; others are dropped
//   kind     1 request, 2 answer
//   nonce    64 random bits of the asking endpoint, echoed: a host that can't read them can't
//   answer address  of an answer: the endpoint's own (address_format.hpp); of a request zeros
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "plugin/ofi/address_format.hpp"

namespace hawser::ofi {

inline constexpr std::array<char, 4> kNameMagic{'H', 'w', 's', 'N'};
inline constexpr std::uint8_t kNameVersion = 1;

enum class NameKind : std::uint8_t { request = 1, answer = 2 };

struct NamePacket {
  std::array<char, 4> magic = kNameMagic;
  std::uint8_t version = kNameVersion;
  NameKind kind = NameKind::request;
  std::uint16_t zero = 0;
  std::uint64_t nonce = 0;  // only its sender interprets it: no byte order
  AddressBytes address{};
};
static_assert(sizeof(NamePacket) == 72);
static_assert(offsetof(NamePacket, nonce) == 8 && offsetof(NamePacket, address) == 16);

// Returns false if it is not a packet of that kind.
[[nodiscard]] inline bool read_name_packet(std::span<const std::byte> bytes, NameKind kind,
                                           NamePacket& packet) {
  if (bytes.size() != sizeof packet) return false;
  std::memcpy(&packet, bytes.data(), sizeof packet);
  if (packet.magic != kNameMagic || packet.version != kNameVersion || packet.kind != kind) {
    return false;
  }
  const bool has_address = packet.address != AddressBytes{};
  return packet.zero == 0 &&
         (kind == NameKind::request ? !has_address : !unpack_address(packet.address).empty());
}

}  // namespace hawser::ofi
