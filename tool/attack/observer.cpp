// SPDX-License-Identifier: Apache-2.0
#include "tool/attack/observer.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "tool/error.hpp"

namespace hawser::tool {
namespace {

// One packet in this many. To copy all of a run's traffic would take the processor that it runs on.
constexpr std::uint32_t kSample = 16;
constexpr int kReceiveBytes = 1 << 20;

// Passes UDP packets for which the kernel's random number is 0.
void set_filter(int socket) {
  constexpr std::uint32_t kProtocolAt = 9;  // in an IPv4 header, with which packets begin here
  std::array<sock_filter, 7> program{{
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kProtocolAt),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kSample - 1),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xffff),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter{program.size(), program.data()};
  (void)::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

}  // namespace

Observer::Observer()
    : socket_(::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_IP))) {
  if (!socket_) {
    throw InputError(
        fmt::format("attacks that see the traffic need a packet socket (CAP_NET_RAW): {}",
                    std::strerror(errno)));
  }
  // Otherwise each packet over loopback appears twice.
  const int on = 1;
  (void)::setsockopt(socket_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
  set_filter(socket_.get());
}

std::optional<Observer::Sight> Observer::next(std::span<std::byte> room) {
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), room.data(), room.size(), 0);
    if (got < 0) return std::nullopt;
    if (auto sight = parse_ipv4(room.first(static_cast<std::size_t>(got)))) return sight;
  }
}

std::optional<Observer::Sight> parse_ipv4(std::span<const std::byte> packet) {
  iphdr ip{};
  udphdr udp{};
  if (packet.size() < sizeof ip) return std::nullopt;
  std::memcpy(&ip, packet.data(), sizeof ip);
  const std::size_t ip_bytes = std::size_t{ip.ihl} * 4;
  if (ip.version != 4 || ip.protocol != IPPROTO_UDP || ip_bytes < sizeof ip ||
      packet.size() < ip_bytes + sizeof udp) {
    return std::nullopt;
  }
  std::memcpy(&udp, packet.data() + ip_bytes, sizeof udp);
  Observer::Sight sight;
  sight.to.sin_family = AF_INET;
  sight.to.sin_addr.s_addr = ip.daddr;
  sight.to.sin_port = udp.dest;
  sight.payload = packet.subspan(ip_bytes + sizeof udp);
  return sight;
}

}  // namespace hawser::tool
