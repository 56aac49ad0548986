// SPDX-License-Identifier: Apache-2.0
// Keeps strangers' datagrams out of a socket's receive buffer. The kernel inspects the first words
// of each datagram. Those that can't be meant for this endpoint go to a second socket on the same
// port. Nobody reads that socket, and its buffer is as small as the kernel allows. A flood of them
// therefore takes no room from expected packets and costs the poll loop nothing. The second
// socket's drop counter counts them.
//
// A classic BPF program chooses among the sockets of the port (SO_ATTACH_REUSEPORT_CBPF, Linux
// 4.5), which needs no privilege. The endpoint still checks everything that the screen lets
// through.
#pragma once

#include <cstdint>

#include "engine/driver/udp/udp_address.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

class UdpScreen {
 public:
  // Screens the bound socket `fd` with the address `local`, which outlives the screen. If the
  // kernel refuses, active() is false and `fd` gets every datagram as before.
  UdpScreen(int fd, const SocketAddress& local, const proto::Screen& screen, proto::Queue queue);
  ~UdpScreen();
  UdpScreen(const UdpScreen&) = delete;
  UdpScreen& operator=(const UdpScreen&) = delete;

  [[nodiscard]] bool active() const { return fd_ >= 0; }
  // Datagrams kept away, except for the one or two that the smallest buffer holds. A segmented
  // message counts once.
  [[nodiscard]] std::uint64_t count() const;

 private:
  int fd_ = -1;
};

}  // namespace hawser::engine
