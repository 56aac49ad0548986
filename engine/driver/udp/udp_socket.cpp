// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_socket.hpp"

#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

void set_option(int fd, int level, int option, int value) {
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

// Privileged processes may exceed the system's maximum.
void set_buffer(int fd, int forced_option, int option, std::uint64_t bytes) {
  const auto value =
      static_cast<int>(std::min<std::uint64_t>(bytes, std::numeric_limits<int>::max() / 2));
  if (::setsockopt(fd, SOL_SOCKET, forced_option, &value, sizeof value) != 0) {
    set_option(fd, SOL_SOCKET, option, value);
  }
}

// Marks packets ECN-capable (ECT(0)), so that switches mark instead of dropping, and asks for the
// mark of each arrival.
void use_ecn(int fd, bool v6) {
  constexpr int kEct0 = 2;
  if (v6) {
    set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, kEct0);
    set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  } else {
    set_option(fd, IPPROTO_IP, IP_TOS, kEct0);
    set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
  }
}

}  // namespace

void refuse_socket(const std::string& name, int error) {
  std::string reason;
  switch (error) {
    case EADDRNOTAVAIL:
      reason = "this host has no such address; `ip address` lists its addresses";
      break;
    case ENODEV:
      reason = "this host has no interface of that index; `ip link` lists its interfaces";
      break;
    case EADDRINUSE:
    case EAGAIN:
      reason =
          "no UDP port is free there; widen net.ipv4.ip_local_port_range, or end programs "
          "that hold ports (`ss -u`)";
      break;
    case EMFILE:
      reason = "too many files open; raise this process's limit of open files (ulimit -n)";
      break;
    case ENFILE: reason = "the host has too many files open; raise fs.file-max"; break;
    case EACCES:
    case EPERM: reason = "the system does not permit a UDP socket there"; break;
    case EAFNOSUPPORT: reason = "this host does not support that kind of address"; break;
    default: reason = std::string("the system refused a UDP socket there: ") + std::strerror(error);
  }
  throw Error(name + ": " + reason);
}

UdpSocket::UdpSocket(const SocketAddress& local, std::uint64_t receive_bytes,
                     const std::string& name)
    : fd_(::socket(local.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      address_(local) {
  if (fd_ < 0) refuse_socket(name, errno);
  socklen_t length = sizeof address_;
  if (::bind(fd_, &address_.any, address_.length()) != 0 ||
      ::getsockname(fd_, &address_.any, &length) != 0) {
    const int error = errno;
    ::close(fd_);
    refuse_socket(name, error);
  }
  set_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF, receive_bytes);
  // Sent packets wait in the queue of a slower device. Allow as much there as for receiving.
  set_buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF, receive_bytes);
  use_ecn(fd_, local.is_v6());
}

UdpSocket::~UdpSocket() { ::close(fd_); }

bool UdpSocket::rebind(const SocketAddress& local) {
  SocketAddress to = local;
  to.set_port(0);
  socklen_t length = sizeof to;
  set_option(fd_, SOL_SOCKET, SO_REUSEPORT, 0);  // set by a screen; don't share a stranger's port
  // Disconnecting a socket whose port the kernel chose releases the port, so that it can be bound
  // again.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  if (::connect(fd_, &nobody, sizeof nobody) != 0 || ::bind(fd_, &to.any, to.length()) != 0 ||
      ::getsockname(fd_, &to.any, &length) != 0) {
    return false;
  }
  address_ = to;
  return true;
}

bool UdpSocket::can_segment() const {
  int value = 0;
  socklen_t length = sizeof value;
  return ::getsockopt(fd_, SOL_UDP, UDP_SEGMENT, &value, &length) == 0;
}

bool UdpSocket::coalesce() {
  const int on = 1;
  return ::setsockopt(fd_, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
}

std::uint64_t UdpSocket::receive_buffer() const {
  int value = 0;
  socklen_t length = sizeof value;
  if (::getsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &value, &length) != 0 || value < 0) return 0;
  return static_cast<std::uint64_t>(value);
}

ReceiveBuffer receive_buffer_of(int fd) {
  std::uint32_t info[SK_MEMINFO_VARS] = {};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) != 0) return {};
  return {info[SK_MEMINFO_RCVBUF], info[SK_MEMINFO_RMEM_ALLOC], info[SK_MEMINFO_DROPS]};
}

// Estimates how many bytes of datagrams fit into a receive buffer. The kernel charges a packet by
// the memory that it occupies ("truesize"). On Linux 6.x loopback that is a struct of 256 bytes,
// plus headers, datagram and trailer rounded up to a power of two, at least 576. Coalesced
// datagrams are charged little more than their length, so the single datagram is the worst case. A
// quarter of the buffer may be freed late, because the kernel frees memory in batches
// (udp_rmem_release).
std::uint64_t datagram_bytes_in(std::uint64_t receive_buffer, std::uint32_t datagram_bytes) {
  constexpr std::uint64_t kPacketStruct = 256;
  constexpr std::uint64_t kAround = 424;
  constexpr std::uint64_t kLeast = 576;
  const std::uint64_t charge =
      kPacketStruct + std::max(kLeast, std::bit_ceil(datagram_bytes + kAround));
  return receive_buffer * 3 / 4 / charge * datagram_bytes;
}

}  // namespace hawser::engine
