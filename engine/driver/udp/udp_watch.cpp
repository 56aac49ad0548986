// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace hawser::engine {
namespace {

constexpr std::uint32_t bit_of(unsigned group) { return 1u << (group - 1); }

constexpr std::uint32_t kAddresses = bit_of(RTNLGRP_IPV4_IFADDR) | bit_of(RTNLGRP_IPV6_IFADDR);
// Kernels that lack a group ignore its bit.
constexpr std::uint32_t kRoutes = bit_of(RTNLGRP_LINK) | bit_of(RTNLGRP_IPV4_ROUTE) |
                                  bit_of(RTNLGRP_IPV6_ROUTE) | bit_of(RTNLGRP_IPV4_RULE) |
                                  bit_of(RTNLGRP_IPV6_RULE) | bit_of(RTNLGRP_NEXTHOP);

}  // namespace

UdpWatch::UdpWatch(Topic topic)
    : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = topic == Topic::addresses ? kAddresses : kRoutes;
  // One message tells as much as thousands. A small buffer makes a storm of them cheap.
  const int bytes = 1;
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  if (socket_ &&
      ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) {
    socket_.reset();
  }
}

// The messages' contents are ignored: some may be lost (ENOBUFS), and the host is asked anyway.
bool UdpWatch::take_changes() {
  if (!socket_) return false;
  constexpr int kMost = 64;  // a later call takes the rest
  std::array<std::byte, 4096> message;
  bool any = false;
  for (int i = 0; i < kMost; ++i) {
    const ssize_t got = ::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT);
    if (got < 0 && errno != ENOBUFS) return any;
    any = true;
  }
  return any;
}

}  // namespace hawser::engine
