// SPDX-License-Identifier: Apache-2.0
// Over which device the kernel's routing tables send to a remote. A NIC is a device. Where two
// devices lead to a remote equally well, the kernel sends everything by one of them, so each NIC
// names its own with what it sends.
//
// A more specific route that leads elsewhere (a tunnel) stays in force. Where the tables can't be
// asked, their own choice does.
#pragma once

#include <cstdint>

#include "engine/descriptor.hpp"
#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

struct UdpRoute {
  std::uint32_t device = 0;  // its index; 0: there is no route, or none that leads over one device
  std::uint8_t prefix_bits = 0;
};

class UdpRoutes {
 public:
  UdpRoutes();

  // By any device, or by that one alone.
  [[nodiscard]] UdpRoute find(const SocketAddress& from, const SocketAddress& to,
                              std::uint32_t device = 0) const;

  // The device that must be named with what `from`, an address of `device`, sends to `to`. 0: the
  // tables' own choice is right.
  [[nodiscard]] std::uint32_t device_to_name(std::uint32_t device, const SocketAddress& from,
                                             const SocketAddress& to) const;

 private:
  Descriptor socket_;
};

}  // namespace hawser::engine
