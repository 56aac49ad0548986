// SPDX-License-Identifier: Apache-2.0
// A socket that belongs to no NIC, to send what no NIC would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <span>

#include "engine/driver/udp/udp_address.hpp"
#include "proto/nic.hpp"

namespace hawser::test {

class Stranger {
 public:
  explicit Stranger(bool v6 = false)
      : fd_(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(fd_ >= 0);
  }
  ~Stranger() { ::close(fd_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void set_tos(int tos) { REQUIRE(::setsockopt(fd_, IPPROTO_IP, IP_TOS, &tos, sizeof tos) == 0); }

  void send(const proto::Nic& to, proto::Queue queue, std::span<const std::byte> bytes) {
    const engine::SocketAddress remote = address_of(to, queue);
    REQUIRE(::sendto(fd_, bytes.data(), bytes.size(), 0, &remote.any, remote.length()) ==
            static_cast<ssize_t>(bytes.size()));
  }

 private:
  static engine::SocketAddress address_of(const proto::Nic& nic, proto::Queue queue) {
    using Layout = engine::UdpAddressLayout;
    const std::byte* const address = nic.address().bytes.data();
    const auto port = queue == proto::Queue::data ? Layout::kDataPort : Layout::kControlPort;
    engine::SocketAddress remote{};
    if (nic.address().bytes[Layout::kFamily] == std::byte{6}) {
      remote.v6.sin6_family = AF_INET6;
      std::memcpy(&remote.v6.sin6_port, address + port, 2);
      std::memcpy(&remote.v6.sin6_addr, address + Layout::kIp, 16);
    } else {
      remote.v4.sin_family = AF_INET;
      std::memcpy(&remote.v4.sin_port, address + port, 2);
      std::memcpy(&remote.v4.sin_addr, address + Layout::kIp, 4);
    }
    return remote;
  }

  int fd_;
};

}  // namespace hawser::test
