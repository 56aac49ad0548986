// SPDX-License-Identifier: Apache-2.0
// Finds the device over which the kernel's routing tables send to a remote. A NIC stands for a
// device. If two devices lead to a remote equally well, the kernel sends everything by one of them,
// or spreads the flows over both (ECMP). Each NIC then names its own device with each send.
//
// Linux spreads the flows of an IPv6 route with several next hops itself, whatever device a send
// names. There the kernel's choice stands.
//
// A more specific route that leads elsewhere (a tunnel) stays in force. If the tables can't be
// asked, their own choice stands.
#pragma once

#include <cstdint>
#include <string>

#include "engine/descriptor.hpp"
#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

// The route to a remote, as seen by a NIC with a device.
struct UdpRoute {
  bool by_device = false;  // a next hop is on the device that the question is about
  bool by_others = false;  // a next hop is on another device, or the kernel does not list them
  bool has_several_hops = false;
  std::uint8_t prefix_bits = 0;
};

class UdpRoutes {
 public:
  // Keeps one socket for all questions, so that they need no descriptor later. Throws Error, with
  // `name` in its text, if there is none left.
  explicit UdpRoutes(const std::string& name);

  // The device to name when `from`, an address of `device`, sends to `to`. 0: the routing tables
  // already choose the right one.
  [[nodiscard]] std::uint32_t device_to_name(std::uint32_t device, const SocketAddress& from,
                                             const SocketAddress& to);

 private:
  enum class Among : std::uint8_t { all_devices, this_device };
  // Finds the route over any device, or over `device` alone.
  [[nodiscard]] UdpRoute find(std::uint32_t device, const SocketAddress& from,
                              const SocketAddress& to, Among among);

  Descriptor socket_;
  std::uint32_t questions_ = 0;
};

}  // namespace hawser::engine
