// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace hawser::engine {

UdpWatch::UdpWatch()
    : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
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
    if (::recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT) < 0) {
      return any || errno == ENOBUFS;
    }
    any = true;
  }
  return any;
}

}  // namespace hawser::engine
