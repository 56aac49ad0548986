// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_route.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "engine/cancellation.hpp"
#include "engine/driver/udp/udp_socket.hpp"

namespace hawser::engine {
namespace {

// A question to rtnetlink, with room for its answer.
class Question {
 public:
  Question(const SocketAddress& from, const SocketAddress& to) {
    route_.rtm_family = static_cast<unsigned char>(to.any.sa_family);
    route_.rtm_dst_len = bits_of(to);
    route_.rtm_src_len = bits_of(from);
    add_address(RTA_DST, to);
    add_address(RTA_SRC, from);
  }

  void by(std::uint32_t device) { add(RTA_OIF, std::as_bytes(std::span(&device, 1))); }

  // For the table's entry, with all its next hops. Without an entry there is no answer, rather than
  // a guess that the remote is on the link.
  [[nodiscard]] std::span<const std::byte> ask_for_entry(int fd, std::uint32_t number) {
    route_.rtm_flags = RTM_F_FIB_MATCH;
    return ask(fd, number);
  }
  // For the one next hop that the kernel would take now.
  [[nodiscard]] std::span<const std::byte> ask_for_hop(int fd, std::uint32_t number) {
    route_.rtm_flags = 0;
    return ask(fd, number);
  }

 private:
  static constexpr std::size_t kBytes = 256;
  static constexpr int kMostReads = 8;

  // Returns the bytes of the answer; none if there is no such route. The socket may hold answers to
  // earlier questions, which have other numbers.
  [[nodiscard]] std::span<const std::byte> ask(int fd, std::uint32_t number) {
    nlmsghdr header{};
    header.nlmsg_seq = number;
    header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof route_) + used_);
    header.nlmsg_type = RTM_GETROUTE;
    header.nlmsg_flags = NLM_F_REQUEST;
    std::array<std::byte, kBytes> request{};
    std::memcpy(request.data(), &header, sizeof header);
    std::memcpy(request.data() + NLMSG_HDRLEN, &route_, sizeof route_);
    std::memcpy(request.data() + NLMSG_LENGTH(sizeof route_), attributes_.data(), used_);
    const CancellationHold hold;
    if (::send(fd, request.data(), header.nlmsg_len, 0) < 0) return {};
    for (int reads = 0; reads < kMostReads; ++reads) {
      const ssize_t got = ::recv(fd, answer_.data(), answer_.size(), MSG_DONTWAIT);
      if (got < ssize_t{sizeof header}) return {};
      std::memcpy(&header, answer_.data(), sizeof header);
      if (header.nlmsg_seq == number) return std::span(answer_).first(std::size_t(got));
    }
    return {};
  }

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
  std::array<std::byte, 8192> answer_;  // as long as the kernel makes one
};

// Calls `visit` with the type and the value of each attribute.
template <class Visit>
void for_each_attribute(std::span<const std::byte> rest, Visit visit) {
  while (rest.size() >= sizeof(rtattr)) {
    rtattr head;
    std::memcpy(&head, rest.data(), sizeof head);
    if (head.rta_len < sizeof head || head.rta_len > rest.size()) return;
    visit(head.rta_type, rest.first(head.rta_len).subspan(RTA_LENGTH(0)));
    rest = rest.subspan(std::min<std::size_t>(RTA_ALIGN(head.rta_len), rest.size()));
  }
}

void add_hop(std::uint32_t hop, std::uint32_t device, UdpRoute& route) {
  (hop == device ? route.by_device : route.by_others) = true;
}

// The next hops of an ECMP route. The kernel sends nothing by the dead ones.
void add_hops(std::span<const std::byte> rest, std::uint32_t device, UdpRoute& route) {
  route.has_several_hops = true;
  while (rest.size() >= sizeof(rtnexthop)) {
    rtnexthop hop;
    std::memcpy(&hop, rest.data(), sizeof hop);
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > rest.size()) return;
    if ((hop.rtnh_flags & RTNH_F_DEAD) == 0) {
      add_hop(static_cast<std::uint32_t>(hop.rtnh_ifindex), device, route);
    }
    rest = rest.subspan(std::min<std::size_t>(RTNH_ALIGN(hop.rtnh_len), rest.size()));
  }
}

// Returns false if the answer is no route to another host. Packets to an address of this host need
// no device.
bool read_route(std::span<const std::byte> answer, std::uint32_t device, UdpRoute& route) {
  nlmsghdr header;
  rtmsg message;
  if (answer.size() < NLMSG_LENGTH(sizeof message)) return false;
  std::memcpy(&header, answer.data(), sizeof header);
  std::memcpy(&message, answer.data() + NLMSG_HDRLEN, sizeof message);
  if (header.nlmsg_type != RTM_NEWROUTE || message.rtm_type != RTN_UNICAST) return false;
  route.prefix_bits = message.rtm_dst_len;
  for_each_attribute(answer.subspan(NLMSG_LENGTH(sizeof message)),
                     [&](unsigned short type, std::span<const std::byte> value) {
                       std::uint32_t hop = 0;
                       if (type == RTA_MULTIPATH) add_hops(value, device, route);
                       if (type != RTA_OIF || value.size() < sizeof hop) return;
                       std::memcpy(&hop, value.data(), sizeof hop);
                       add_hop(hop, device, route);
                     });
  return true;
}

}  // namespace

// If the system forbids the socket (a sandbox), the routing tables' own choice stands.
UdpRoutes::UdpRoutes(const std::string& name)
    : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  if (!socket_ && (errno == EMFILE || errno == ENFILE)) refuse_socket(name, errno);
}

UdpRoute UdpRoutes::find(std::uint32_t device, const SocketAddress& from, const SocketAddress& to,
                         Among among) {
  UdpRoute route;
  if (!socket_) return route;
  Question question(from, to);
  if (among == Among::this_device) question.by(device);
  const int fd = socket_.get();
  if (!read_route(question.ask_for_entry(fd, ++questions_), device, route)) return {};
  if (route.by_device || route.by_others) return route;
  // The kernel may name a group of next hops by its number alone (nexthop_compat_mode=0). Ask which
  // of them it would take.
  route.has_several_hops = true;
  UdpRoute taken;
  if (among == Among::this_device &&
      read_route(question.ask_for_hop(fd, ++questions_), device, taken)) {
    route.by_device = taken.by_device;
  }
  route.by_others = !route.by_device;
  return route;
}

std::uint32_t UdpRoutes::device_to_name(std::uint32_t device, const SocketAddress& from,
                                        const SocketAddress& to) {
  if (device == 0) return 0;
  const UdpRoute chosen = find(device, from, to, Among::all_devices);
  if (!chosen.by_others || (chosen.has_several_hops && to.is_v6())) return 0;
  if (chosen.by_device) return device;
  const UdpRoute own = find(device, from, to, Among::this_device);
  return own.by_device && own.prefix_bits == chosen.prefix_bits ? device : 0;
}

}  // namespace hawser::engine
