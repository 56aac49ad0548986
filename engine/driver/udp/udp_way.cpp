// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_way.hpp"

#include <netinet/in.h>

#include <algorithm>

#include "engine/descriptor.hpp"

namespace hawser::engine {
namespace {

// The kernel reveals a path's MTU only for a connected socket, and ours are not connected.
std::uint32_t mtu_of_connected(int fd, const SocketAddress& from, const SocketAddress& to) {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const bool known = ::bind(fd, &from.any, from.length()) == 0 &&
                     ::connect(fd, &to.any, to.length()) == 0 &&
                     (from.is_v6() ? ::getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &length)
                                   : ::getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &length)) == 0;
  return known && mtu > 0 ? static_cast<std::uint32_t>(mtu) : 0;
}

}  // namespace

std::uint32_t way_mtu(const SocketAddress& local, const SocketAddress& remote,
                      std::string_view device) {
  SocketAddress from = local;
  from.set_port(0);
  const Descriptor fd(::socket(from.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return 0;
  // Before Linux 5.7 this needs a privilege. Without it the answer is for the device that the
  // routing tables choose.
  if (!device.empty()) {
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, device.data(),
                       static_cast<socklen_t>(device.size()));
  }
  return mtu_of_connected(fd.get(), from, remote);
}

std::uint32_t longest_whole_datagram(const SocketAddress& local, const SocketAddress& remote,
                                     std::string_view device) {
  const std::uint32_t headers = udp_headers(local.is_v6());
  const std::uint32_t mtu = std::min(way_mtu(local, remote, device), kMaxIpBytes);
  return mtu > headers ? mtu - headers : 0;
}

}  // namespace hawser::engine
