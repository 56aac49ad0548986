// SPDX-License-Identifier: Apache-2.0
// The network device that has a NIC's address, and the device's present addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

struct UdpDevice {
  std::uint32_t index = 0;  // 0: none
  std::string name;
};

// The name of the device that has an address which getifaddrs lists under `label`. The label of an
// IPv4 address may have an ending of its own ("eth0:1").
[[nodiscard]] std::string name_of_device(const char* label);

// The device that has exactly this address; if several have it, the one with the index `preferred`.
// Returns none for loopback: each of its addresses counts as a NIC, for tests and demonstrations.
[[nodiscard]] UdpDevice device_of(const SocketAddress& local, std::uint32_t preferred = 0);

// The same device now, whatever its name. If no device has its index, the one that was made anew
// under its name. If there is none either, `before`.
[[nodiscard]] UdpDevice device_again(const UdpDevice& before);

// The address that a NIC is configured with, and the length of its network's prefix.
struct UdpHome {
  SocketAddress address;
  std::uint32_t prefix_bits = 0;
};
[[nodiscard]] UdpHome home_at(const SocketAddress& local);

// How well an address stands in for the configured one. Peers probably reach an address of the same
// network, and perhaps another one of the same scope (RFC 3927, RFC 4193).
enum class Closeness : std::uint8_t { none, other_scope, same_scope, same_network, same };
[[nodiscard]] constexpr Closeness closer_than(Closeness closeness) {
  return static_cast<Closeness>(static_cast<std::uint8_t>(closeness) + 1);
}
[[nodiscard]] Closeness closeness_of(const SocketAddress& address, const UdpHome& home);

// True if this host has the address and sockets may use it: it is neither tentative nor a
// duplicate.
[[nodiscard]] bool is_usable(const SocketAddress& local);

// The closest usable address for a NIC: its configured one, or one of its device that is at least
// this close.
[[nodiscard]] std::optional<SocketAddress> closest_address(const UdpHome& home,
                                                           const UdpDevice& device,
                                                           Closeness least);

}  // namespace hawser::engine
