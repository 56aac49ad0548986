// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_way.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>

#include "engine/driver/udp/udp_socket.hpp"

namespace hawser::engine {
namespace {

// The kernel reveals a path's MTU only for a connected socket, and the NIC's are not connected.
std::uint32_t mtu_of_connected(int fd, const SocketAddress& from, const SocketAddress& to) {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const bool known = ::bind(fd, &from.any, from.length()) == 0 &&
                     ::connect(fd, &to.any, to.length()) == 0 &&
                     (from.is_v6() ? ::getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &length)
                                   : ::getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &length)) == 0;
  return known && mtu > 0 ? static_cast<std::uint32_t>(mtu) : 0;
}

// Gives up port, remote and device of the socket, so that it can be bound again.
void disconnect(int fd) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  (void)::connect(fd, &nobody, sizeof nobody);
}

}  // namespace

UdpWays::UdpWays(const SocketAddress& local, const std::string& name)
    : socket_(::socket(local.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  if (!socket_) refuse_socket(name, errno);
}

std::uint32_t UdpWays::mtu(const SocketAddress& local, const SocketAddress& remote,
                           std::uint32_t device) const {
  SocketAddress from = local;
  from.set_port(0);
  // Before Linux 5.7 this needs a privilege. Without it the answer is for the device that the
  // routing tables choose.
  if (const int index = static_cast<int>(device); index != 0) {
    (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof index);
  }
  const CancellationHold hold;
  const std::uint32_t mtu = mtu_of_connected(socket_.get(), from, remote);
  disconnect(socket_.get());
  return mtu;
}

std::uint32_t UdpWays::longest_whole_datagram(const SocketAddress& local,
                                              const SocketAddress& remote,
                                              std::uint32_t device) const {
  const std::uint32_t headers = udp_headers(local.is_v6());
  const std::uint32_t whole = std::min(mtu(local, remote, device), kMaxIpBytes);
  return whole > headers ? whole - headers : 0;
}

}  // namespace hawser::engine
