// SPDX-License-Identifier: Apache-2.0
// Addresses of endpoints, where a carrier has little room for them.
//
// Endpoint::address() names every NIC and takes 32 + 48 bytes a NIC. Launchers and libraries often
// hand on 56 or 64 bytes at most. A short address names the endpoint and as many of its NICs as
// fit, first ones first; `connect` takes it as it takes a long one, and the handshake tells the
// rest, so that afterwards there is no difference. Until then only the NICs that it names are
// called: if all of them are dead, the peer is not found (it may still call itself).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hawser {

// Longest address, long or short.
inline constexpr std::size_t kMaxAddressBytes = 2048;

// Writes the short form of `address` to `out`: 11 bytes, and for each NIC 11 (UDP over IPv4) to
// 41. Returns how many bytes that are; 0 if `address` is not one, or not even its first NIC fits.
// An address that is short already is copied, if all of it fits.
[[nodiscard]] std::size_t shorten_address(std::span<const std::byte> address,
                                          std::span<std::byte> out) noexcept;

// The stable id (EndpointConfig::endpoint_id) of the endpoint that a long or short address names;
// 0 if it is not an address.
[[nodiscard]] std::uint64_t endpoint_id_of(std::span<const std::byte> address) noexcept;

// What a long or short address names, for people: "endpoint 7: udp:10.0.0.1 (ports 4711 and 4712),
// RoCE 10.0.1.1". Not for programs: the words may change.
[[nodiscard]] std::string describe_address(std::span<const std::byte> address);

}  // namespace hawser
