// SPDX-License-Identifier: Apache-2.0
// Finds the device over which the kernel's routing tables send to a remote. A NIC stands for a
// device. If two devices lead to a remote equally well, the kernel sends everything by one of them,
// so each NIC names its own device with each send.
//
// A more specific route that leads elsewhere (a tunnel) stays in force. If the tables can't be
// asked, their own choice stands.
#pragma once

#include <cstdint>

#include "engine/descriptor.hpp"
#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

struct UdpRoute {
  std::uint32_t device = 0;  // its index; 0: no route, or none over a single device
  std::uint8_t prefix_bits = 0;
};

class UdpRoutes {
 public:
  UdpRoutes();

  // Finds the route by any device, or by `device` alone if it isn't 0.
  [[nodiscard]] UdpRoute find(const SocketAddress& from, const SocketAddress& to,
                              std::uint32_t device = 0) const;

  // The device to name when `from`, an address of `device`, sends to `to`. 0: the routing tables
  // already choose the right one.
  [[nodiscard]] std::uint32_t device_to_name(std::uint32_t device, const SocketAddress& from,
                                             const SocketAddress& to) const;

 private:
  Descriptor socket_;
};

}  // namespace hawser::engine
