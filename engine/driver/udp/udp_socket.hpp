// SPDX-License-Identifier: Apache-2.0
// One bound UDP socket, set up for bulk datagrams.
#pragma once

#include <cstdint>
#include <string>

#include "engine/driver/udp/udp_address.hpp"

namespace hawser::engine {

// Throws Error with what to do about a refused socket; `name` begins its text.
[[noreturn]] void refuse_socket(const std::string& name, int error);

// A socket's receive buffer, as the kernel accounts for it.
struct ReceiveBuffer {
  std::uint64_t limit = 0;   // bytes of memory that waiting messages may occupy
  std::uint64_t queued = 0;  // bytes that they occupy
  std::uint64_t drops = 0;   // messages dropped at this socket, for whatever reason
};
[[nodiscard]] ReceiveBuffer receive_buffer_of(int fd);

class UdpSocket {
 public:
  // Binds a free port of `local`. Asks the kernel for `receive_bytes`, of which it may give less.
  // Throws Error, with `name` in its text.
  UdpSocket(const SocketAddress& local, std::uint64_t receive_bytes, const std::string& name);
  ~UdpSocket();
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  // Binds the socket to a free port of another address of the same family. The descriptor, all
  // options and unread arrivals stay. False: the socket has no address until a rebind succeeds.
  [[nodiscard]] bool rebind(const SocketAddress& local);

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const SocketAddress& address() const { return address_; }  // including its port

  // True if the kernel segments large sends (UDP_SEGMENT).
  [[nodiscard]] bool can_segment() const;
  // Asks for coalesced arrivals (UDP_GRO). Returns false if the kernel doesn't support them.
  bool coalesce();

  // The limit that received packets are charged to: SO_RCVBUF as it reads back.
  [[nodiscard]] std::uint64_t receive_buffer() const;

 private:
  int fd_ = -1;
  SocketAddress address_;
};

// Bytes of datagrams of this length that a receive buffer holds at least, coalesced or not.
[[nodiscard]] std::uint64_t datagram_bytes_in(std::uint64_t receive_buffer,
                                              std::uint32_t datagram_bytes);

}  // namespace hawser::engine
