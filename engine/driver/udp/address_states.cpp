// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/address_states.hpp"

#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "engine/descriptor.hpp"

namespace hawser::engine {
namespace {

constexpr time_t kAnswerWithinS = 1;

template <class Header>
bool read_header(std::span<const std::byte> bytes, Header& header) {
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return true;
}

// The kernel lets sockets use an optimistic address (RFC 4429) while its detection still runs.
AddressState state_of(std::uint32_t flags) {
  if ((flags & IFA_F_DADFAILED) != 0) return AddressState::duplicate;
  const bool is_optimistic = (flags & IFA_F_OPTIMISTIC) != 0;
  if ((flags & IFA_F_TENTATIVE) != 0 && !is_optimistic) return AddressState::tentative;
  return (flags & IFA_F_DEPRECATED) != 0 ? AddressState::deprecated : AddressState::preferred;
}

// The body of one RTM_NEWADDR.
std::optional<StatedAddress> parse_address(std::span<const std::byte> body) {
  ifaddrmsg message{};
  if (!read_header(body, message) || message.ifa_family != AF_INET6) return std::nullopt;
  std::uint32_t flags = message.ifa_flags;  // 8 bits; IFA_FLAGS has all of them
  StatedAddress address;
  address.interface = message.ifa_index;
  bool is_whole = false;
  bool has_local = false;
  body = body.subspan(NLMSG_ALIGN(sizeof message));
  rtattr attribute{};
  while (read_header(body, attribute) && attribute.rta_len >= sizeof attribute &&
         attribute.rta_len <= body.size()) {
    const auto value = body.subspan(sizeof attribute, attribute.rta_len - sizeof attribute);
    const bool is_local = attribute.rta_type == IFA_LOCAL;
    // On a point-to-point link, IFA_ADDRESS is the other end's address.
    if ((is_local || (attribute.rta_type == IFA_ADDRESS && !has_local)) &&
        value.size() == sizeof address.ip) {
      std::memcpy(&address.ip, value.data(), sizeof address.ip);
      is_whole = true;
      has_local = is_local;
    }
    if (attribute.rta_type == IFA_FLAGS) (void)read_header(value, flags);
    if (RTA_ALIGN(attribute.rta_len) >= body.size()) break;
    body = body.subspan(RTA_ALIGN(attribute.rta_len));
  }
  address.state = state_of(flags);
  return is_whole ? std::optional(address) : std::nullopt;
}

// Returns false when the answer is complete.
bool append_messages(std::span<const std::byte> bytes, std::vector<StatedAddress>& addresses) {
  nlmsghdr header{};
  while (read_header(bytes, header) && header.nlmsg_len >= sizeof header &&
         header.nlmsg_len <= bytes.size()) {
    if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR) return false;
    if (header.nlmsg_type == RTM_NEWADDR) {
      const auto body = bytes.subspan(sizeof header, header.nlmsg_len - sizeof header);
      if (const auto address = parse_address(body)) addresses.push_back(*address);
    }
    if (NLMSG_ALIGN(header.nlmsg_len) >= bytes.size()) break;
    bytes = bytes.subspan(NLMSG_ALIGN(header.nlmsg_len));
  }
  return true;
}

}  // namespace

std::vector<StatedAddress> parse_address_states(std::span<const std::byte> messages) {
  std::vector<StatedAddress> addresses;
  (void)append_messages(messages, addresses);
  return addresses;
}

std::vector<StatedAddress> read_address_states() {
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return {};
  const timeval patience{kAnswerWithinS, 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  struct {
    nlmsghdr header;
    ifaddrmsg message;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.message);
  request.header.nlmsg_type = RTM_GETADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.message.ifa_family = AF_INET6;
  if (::send(socket.get(), &request, request.header.nlmsg_len, 0) < 0) return {};
  std::vector<StatedAddress> addresses;
  std::vector<std::byte> answer(65536);
  for (;;) {
    const ssize_t got = ::recv(socket.get(), answer.data(), answer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return addresses;
    if (!append_messages(std::span(answer).first(static_cast<std::size_t>(got)), addresses)) {
      return addresses;
    }
  }
}

std::optional<AddressState> state_in(std::span<const StatedAddress> addresses, const in6_addr& ip,
                                     std::uint32_t interface) {
  for (const StatedAddress& address : addresses) {
    if (interface != 0 && interface != address.interface) continue;
    if (std::memcmp(&address.ip, &ip, sizeof ip) == 0) return address.state;
  }
  return std::nullopt;
}

}  // namespace hawser::engine
