// SPDX-License-Identifier: Apache-2.0
// One bound UDP socket, set up for datagrams in bulk.
#pragma once

#include <cstdint>
#include <string>

#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

// Messages that the kernel has dropped at a socket.
[[nodiscard]] std::uint64_t drops_of(int fd);

class UdpSocket {
 public:
  // Binds a free port of `local`. `receive_bytes` is asked of the kernel, which may give less.
  // `name` is for errors: throws Error.
  UdpSocket(const SocketAddress& local, std::uint64_t receive_bytes, const std::string& name);
  ~UdpSocket();
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  // Binds it to a free port of another address of the same family. The descriptor and all options
  // stay, and so does what has come and was not read. False: it has no address until this succeeds.
  [[nodiscard]] bool rebind(const SocketAddress& local);

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const SocketAddress& address() const { return address_; }  // with its port

  // Whether the kernel segments large sends (UDP_SEGMENT).
  [[nodiscard]] bool can_segment() const;
  // Asks for coalesced arrivals (UDP_GRO); false if the kernel has none.
  bool coalesce();

  // What the kernel charges received packets to: SO_RCVBUF as it reads back.
  [[nodiscard]] std::uint64_t receive_buffer() const;
  // Messages dropped since the socket was made because that was full; a coalesced one counts once.
  [[nodiscard]] std::uint64_t drops() const { return drops_of(fd_); }

 private:
  int fd_ = -1;
  SocketAddress address_;
};

// How many bytes of datagrams of this length a receive buffer holds at least, coalesced or not.
[[nodiscard]] std::uint64_t datagram_bytes_in(std::uint64_t receive_buffer,
                                              std::uint32_t datagram_bytes);

}  // namespace hawser::engine
