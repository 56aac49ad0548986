// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_screen.hpp"

#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstddef>

#include "engine/driver/udp/udp_socket.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::engine {
namespace {

namespace wire = proto::wire;

// Results of the program: the index of a socket of the port, in the order of binding.
constexpr std::uint32_t kWanted = 0;
constexpr std::uint32_t kStrange = 1;

// BPF loads words in network byte order; the wire has them little-endian.
static_assert(std::endian::native == std::endian::little);
constexpr std::uint32_t as_loaded(std::uint32_t word) { return __builtin_bswap32(word); }

bool attach(int fd, const proto::Screen& screen, proto::Queue queue) {
  constexpr std::uint32_t kVersionAt = offsetof(wire::CommonHeader, version);
  constexpr std::uint32_t kTypeAt = offsetof(wire::CommonHeader, type);
  constexpr std::uint32_t kReceiverAt = offsetof(wire::CommonHeader, receiver);
  // Handshakes come on the data queue, from endpoints that don't know our peer indices yet. 256
  // matches no byte.
  const std::uint32_t hello =
      queue == proto::Queue::data ? static_cast<std::uint32_t>(wire::PacketType::hello) : 256;
  std::array<sock_filter, 11> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, sizeof(wire::CommonHeader), 0, 8),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kVersionAt),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::kVersion, 0, 6),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kTypeAt),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, hello, 3, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kReceiverAt),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, as_loaded(screen.receiver_mask)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, as_loaded(screen.receiver_value), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kWanted),
      BPF_STMT(BPF_RET | BPF_K, kStrange),
  }};
  const sock_fprog code{static_cast<unsigned short>(program.size()), program.data()};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &code, sizeof code) == 0;
}

bool set_option(int fd, int option, int value) {
  return ::setsockopt(fd, SOL_SOCKET, option, &value, sizeof value) == 0;
}

}  // namespace

// The port was first bound without sharing, so that another program's port is never joined.
UdpScreen::UdpScreen(int fd, const SocketAddress& local, const proto::Screen& screen,
                     proto::Queue queue)
    : fd_(::socket(local.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  const bool shared = fd_ >= 0 && set_option(fd_, SO_RCVBUF, 1) &&
                      set_option(fd, SO_REUSEPORT, 1) && set_option(fd_, SO_REUSEPORT, 1) &&
                      ::bind(fd_, &local.any, local.length()) == 0;
  if (shared && attach(fd, screen, queue)) return;
  (void)set_option(fd, SO_REUSEPORT, 0);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

UdpScreen::~UdpScreen() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t UdpScreen::count() const { return fd_ < 0 ? 0 : receive_buffer_of(fd_).drops; }

}  // namespace hawser::engine
