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

// The device that has exactly this address. Returns none for loopback: each of its addresses counts
// as a NIC, for tests and demonstrations.
[[nodiscard]] UdpDevice device_of(const SocketAddress& local);

// True if this host has the address and it is not tentative.
[[nodiscard]] bool is_usable(const SocketAddress& local);

// A usable address of that device for a NIC that had `before`, of the same family and scope.
[[nodiscard]] std::optional<SocketAddress> address_like(const SocketAddress& before,
                                                        const std::string& device);

}  // namespace hawser::engine
