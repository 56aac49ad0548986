// SPDX-License-Identifier: Apache-2.0
// The MTU of the path from an address of this host to a remote, according to the kernel's routes. A
// route's MTU may be smaller than its device's (VPN, WireGuard, Cilium). The kernel also learns it
// from routers on the path (path MTU discovery).
//
// Nothing is cached: each question goes to the kernel, so the answer is current. It takes about
// five system calls, and briefly a port.
#pragma once

#include <cstdint>
#include <string>

#include "engine/descriptor.hpp"
#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

inline constexpr std::uint32_t kMaxIpBytes = 65535;

// Bytes of the IP and UDP headers of a datagram.
[[nodiscard]] constexpr std::uint32_t udp_headers(bool is_v6) { return 8 + (is_v6 ? 40 : 20); }

class UdpWays {
 public:
  // For addresses of the family of `local`. Keeps one socket for all questions, so that a session's
  // size does not depend on whether a descriptor is free when it begins. Throws Error, with `name`
  // in its text, if the system gives no socket.
  UdpWays(const SocketAddress& local, const std::string& name);

  // The MTU of the path from `local` to `remote`, by the device with this index unless it is 0.
  // Returns 0 if no port is free, or there is no route to `remote`.
  [[nodiscard]] std::uint32_t mtu(const SocketAddress& local, const SocketAddress& remote,
                                  std::uint32_t device = 0) const;

  // The longest datagram, without headers, that goes there unfragmented; 0 as above.
  [[nodiscard]] std::uint32_t longest_whole_datagram(const SocketAddress& local,
                                                     const SocketAddress& remote,
                                                     std::uint32_t device = 0) const;

 private:
  Descriptor socket_;  // without address and port between questions
};

}  // namespace hawser::engine
