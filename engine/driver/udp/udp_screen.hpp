// SPDX-License-Identifier: Apache-2.0
// Keeps strangers' datagrams out of a socket's receive buffer: the kernel looks at the first words
// of each, and what can't be meant for this endpoint goes to a second socket on the same port,
// whose buffer is as small as the kernel makes it and which nobody reads. So a flood of them
// neither takes room from packets that are expected nor costs the poll loop anything; the second
// socket's drops are their number.
//
// It is a classic BPF program that chooses among the sockets of a port (SO_ATTACH_REUSEPORT_CBPF,
// Linux 4.5), which takes no privilege. Whatever it lets through is still checked by the endpoint.
#pragma once

#include <cstdint>

#include "engine/driver/udp/udp_address.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

class UdpScreen {
 public:
  // Of the bound socket `fd` with the address `local`, which outlives the screen. Where the kernel
  // refuses, everything goes to `fd` as before: active() says so.
  UdpScreen(int fd, const SocketAddress& local, const proto::Screen& screen, proto::Queue queue);
  ~UdpScreen();
  UdpScreen(const UdpScreen&) = delete;
  UdpScreen& operator=(const UdpScreen&) = delete;

  [[nodiscard]] bool active() const { return fd_ >= 0; }
  // Datagrams kept away, but for the one or two that the smallest buffer holds. A segmented message
  // counts once.
  [[nodiscard]] std::uint64_t count() const;

 private:
  int fd_ = -1;
};

}  // namespace hawser::engine
