// SPDX-License-Identifier: Apache-2.0
// Short addresses of endpoints, for launchers and libraries that carry few bytes.
//
// Endpoint::address() names every NIC and takes 32 bytes and 48 more per NIC. Launchers and
// libraries often pass on 56 or 64 bytes at most. A short address names the endpoint and as many of
// its NICs as fit, the first ones first. `connect` takes either form. The handshake exchanges the
// other NICs, so an established session is the same with both. The first handshake packets go only
// to the NICs that the short address names. If all of them are dead, `connect` doesn't find the
// peer (the peer may still call this endpoint).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hawser {

// Longest address, long or short.
inline constexpr std::size_t kMaxAddressBytes = 2048;

// Writes the short form of `address` to `out`: 11 bytes, and 11 (UDP over IPv4) to 41 bytes per
// NIC. Copies an address that is short already, if all of it fits. Returns the number of bytes
// written; 0 if `address` is not an address, or if not even its first NIC fits.
[[nodiscard]] std::size_t shorten_address(std::span<const std::byte> address,
                                          std::span<std::byte> out) noexcept;

// The stable id (EndpointConfig::endpoint_id) of the endpoint that a long or short address names;
// 0 if it is not an address.
[[nodiscard]] std::uint64_t endpoint_id_of(std::span<const std::byte> address) noexcept;

// Describes a long or short address for people: "endpoint 7: udp:10.0.0.1 (ports 4711 and 4712),
// RoCE 10.0.1.1". Programs should not parse it: the words may change.
[[nodiscard]] std::string describe_address(std::span<const std::byte> address);

}  // namespace hawser
