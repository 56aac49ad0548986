// SPDX-License-Identifier: Apache-2.0
// IP addresses in the three forms that the UDP NIC needs: text, socket address, NicAddress.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "proto/nic.hpp"

namespace hawser::engine {

// An IPv4 or IPv6 address with a port.
struct SocketAddress {
  union {
    sockaddr_in6 v6{};
    sockaddr_in v4;
    sockaddr any;
  };

  [[nodiscard]] bool is_v6() const { return any.sa_family == AF_INET6; }
  [[nodiscard]] socklen_t length() const { return is_v6() ? sizeof v6 : sizeof v4; }
  [[nodiscard]] in_port_t port() const { return is_v6() ? v6.sin6_port : v4.sin_port; }
  void set_port(in_port_t port) { (is_v6() ? v6.sin6_port : v4.sin_port) = port; }
};

// Offsets of the fields of a UDP NicAddress. Ports are big endian, IPv4 addresses zero-padded.
struct UdpAddressLayout {
  static constexpr std::size_t kKind = 0;
  static constexpr std::size_t kFamily = 1;  // 4 or 6
  static constexpr std::size_t kDataPort = 2;
  static constexpr std::size_t kControlPort = 4;
  static constexpr std::size_t kIp = 6;
  static constexpr std::size_t kEnd = kIp + 16;
};

// Parses "127.0.0.2", "::1" or "fe80::1%eth0", with port 0. Throws Error if it isn't the address of
// one host.
[[nodiscard]] SocketAddress parse_local_address(const std::string& text);

[[nodiscard]] bool is_link_local(const SocketAddress& address);
// True if both have the same IP address, whatever the ports. Link-local addresses must also be of
// the same link.
[[nodiscard]] bool is_same_ip(const SocketAddress& a, const SocketAddress& b);

// "10.0.0.1" or "fd00::1", without port and scope.
[[nodiscard]] std::string to_text(const SocketAddress& address);

[[nodiscard]] proto::NicAddress to_nic_address(const SocketAddress& data,
                                               const SocketAddress& control);

// False if `address` is not of the UDP kind and of the family of `local`, or is malformed. A
// link-local remote is assumed to be on the link of `local`.
[[nodiscard]] bool from_nic_address(const proto::NicAddress& address, const SocketAddress& local,
                                    SocketAddress& data, SocketAddress& control);

// The MTU of the interface of this name, as the kernel tells it to a socket; 0 if it doesn't.
[[nodiscard]] std::uint32_t device_mtu(const std::string& device);

// The MTU of the interface that has `local`, or whose network contains it (127.0.0.2 is in lo's).
// 1500 if there is none.
[[nodiscard]] std::uint32_t interface_mtu(const SocketAddress& local);

}  // namespace hawser::engine
