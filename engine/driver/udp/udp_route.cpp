// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_route.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace hawser::engine {
namespace {

// A question to rtnetlink, with room for its answer.
class Question {
 public:
  explicit Question(const SocketAddress& to) {
    route_.rtm_family = static_cast<unsigned char>(to.any.sa_family);
    route_.rtm_dst_len = bits_of(to);
    // Asks for the table's entry. Without an entry there must be no answer, rather than a guess
    // that the remote is on the link.
    route_.rtm_flags = RTM_F_FIB_MATCH;
    add_address(RTA_DST, to);
  }

  void from(const SocketAddress& address) {
    route_.rtm_src_len = bits_of(address);
    add_address(RTA_SRC, address);
  }
  void by(std::uint32_t device) { add(RTA_OIF, std::as_bytes(std::span(&device, 1))); }

  // Returns the bytes of the answer; none if there is no such route.
  [[nodiscard]] std::span<const std::byte> ask(int fd) {
    nlmsghdr header{};
    header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof route_) + used_);
    header.nlmsg_type = RTM_GETROUTE;
    header.nlmsg_flags = NLM_F_REQUEST;
    std::array<std::byte, kBytes> request{};
    std::memcpy(request.data(), &header, sizeof header);
    std::memcpy(request.data() + NLMSG_HDRLEN, &route_, sizeof route_);
    std::memcpy(request.data() + NLMSG_LENGTH(sizeof route_), attributes_.data(), used_);
    if (::send(fd, request.data(), header.nlmsg_len, 0) < 0) return {};
    const ssize_t got = ::recv(fd, answer_.data(), answer_.size(), MSG_DONTWAIT);
    return got < 0 ? std::span<const std::byte>() : std::span(answer_).first(std::size_t(got));
  }

 private:
  static constexpr std::size_t kBytes = 256;

  static unsigned char bits_of(const SocketAddress& address) { return address.is_v6() ? 128 : 32; }

  void add(unsigned short type, std::span<const std::byte> value) {
    const rtattr head{static_cast<unsigned short>(RTA_LENGTH(value.size())), type};
    std::memcpy(attributes_.data() + used_, &head, sizeof head);
    std::memcpy(attributes_.data() + used_ + RTA_LENGTH(0), value.data(), value.size());
    used_ += RTA_ALIGN(head.rta_len);
  }
  void add_address(unsigned short type, const SocketAddress& address) {
    if (address.is_v6()) return add(type, std::as_bytes(std::span(&address.v6.sin6_addr, 1)));
    add(type, std::as_bytes(std::span(&address.v4.sin_addr, 1)));
  }

  rtmsg route_{};
  std::array<std::byte, 128> attributes_{};
  std::size_t used_ = 0;
  std::array<std::byte, 4096> answer_;
};

UdpRoute read_route(std::span<const std::byte> answer) {
  nlmsghdr header;
  rtmsg route;
  if (answer.size() < NLMSG_LENGTH(sizeof route)) return {};
  std::memcpy(&header, answer.data(), sizeof header);
  std::memcpy(&route, answer.data() + NLMSG_HDRLEN, sizeof route);
  // Packets to an address of this host need no device.
  if (header.nlmsg_type != RTM_NEWROUTE || route.rtm_type != RTN_UNICAST) return {};
  std::span<const std::byte> rest = answer.subspan(NLMSG_LENGTH(sizeof route));
  while (rest.size() >= sizeof(rtattr)) {
    rtattr head;
    std::memcpy(&head, rest.data(), sizeof head);
    if (head.rta_len < sizeof head || head.rta_len > rest.size()) return {};
    std::uint32_t device = 0;
    if (head.rta_type == RTA_OIF && head.rta_len >= RTA_LENGTH(sizeof device)) {
      std::memcpy(&device, rest.data() + RTA_LENGTH(0), sizeof device);
      return {device, route.rtm_dst_len};
    }
    rest = rest.subspan(std::min<std::size_t>(RTA_ALIGN(head.rta_len), rest.size()));
  }
  return {};
}

}  // namespace

// If there is no socket (a sandbox), the routing tables' own choice stands.
UdpRoutes::UdpRoutes() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {}

UdpRoute UdpRoutes::find(const SocketAddress& from, const SocketAddress& to,
                         std::uint32_t device) const {
  if (!socket_) return {};
  Question question(to);
  question.from(from);
  if (device != 0) question.by(device);
  return read_route(question.ask(socket_.get()));
}

std::uint32_t UdpRoutes::device_to_name(std::uint32_t device, const SocketAddress& from,
                                        const SocketAddress& to) const {
  if (device == 0) return 0;
  const UdpRoute chosen = find(from, to);
  if (chosen.device == 0 || chosen.device == device) return 0;
  const UdpRoute own = find(from, to, device);
  return own.device == device && own.prefix_bits == chosen.prefix_bits ? device : 0;
}

}  // namespace hawser::engine
