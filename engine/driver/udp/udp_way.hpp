// SPDX-License-Identifier: Apache-2.0
// The way from an address of this host to a remote, as the kernel's routes have it. A route's MTU
// may be smaller than its device's (VPN, WireGuard, Cilium), and the kernel learns it from routers
// on the way, too (path MTU discovery).
//
// Nothing is kept: each question goes to the kernel, so the answer is that of this moment. It takes
// about five system calls and a port for as long as these.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

inline constexpr std::uint32_t kMaxIpBytes = 65535;

// IP and UDP headers of a datagram from such an address.
[[nodiscard]] constexpr std::uint32_t udp_headers(bool is_v6) { return 8 + (is_v6 ? 40 : 20); }

// The MTU of the way from `local` to `remote`, by that device if one is named. 0: at this moment no
// socket can be had, or no route to `remote`.
[[nodiscard]] std::uint32_t way_mtu(const SocketAddress& local, const SocketAddress& remote,
                                    std::string_view device = {});

// The longest datagram, without headers, that goes there in one piece; 0 as above.
[[nodiscard]] std::uint32_t longest_whole_datagram(const SocketAddress& local,
                                                   const SocketAddress& remote,
                                                   std::string_view device = {});

}  // namespace hawser::engine
