// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/name_port.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "plugin/ofi/name_wire.hpp"
#include "plugin/ofi/uncancelled.hpp"

namespace hawser::ofi {
namespace {

constexpr int kMostRequests = 64;
constexpr std::size_t kRoom = sizeof(NamePacket) + 1;  // one byte more, to notice longer datagrams

Descriptor bound(const SocketAddress& address, int only_v6) {
  const int family = address.get()->sa_family;
  Descriptor socket(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return socket;
  if (family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  if (::bind(socket.get(), address.get(), address.length) == 0) return socket;
  const int error = errno;
  socket = Descriptor();
  errno = error;
  return socket;
}

Descriptor open_port(const PortName& at, bool is_of_one_family) {
  if (at.is_any() && !is_of_one_family) {
    Descriptor both = bound(to_socket({.port = at.port, .is_v6 = true}), 0);
    // A host without IPv6 has IPv4.
    if (both.get() >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) return both;
  }
  return bound(to_socket(at), 1);
}

}  // namespace

PortError::PortError(int number, const PortName& at)
    : std::runtime_error("an endpoint can't serve its address at UDP port " + to_text(at) + ": " +
                         std::generic_category().message(number)),
      number_(number) {}

NamePort::NamePort(const PortName& at, bool is_of_one_family)
    : at_(at), socket_(open_port(at, is_of_one_family)) {
  if (socket_.get() < 0) throw PortError(errno, at);
  SocketAddress got;
  got.length = sizeof got.storage;
  if (::getsockname(fd(), reinterpret_cast<sockaddr*>(&got.storage), &got.length) != 0) {
    throw PortError(errno, at);
  }
  if (const auto name = from_socket(&got.storage, got.length)) at_.port = name->port;
}

void NamePort::answer(const AddressBytes& address) {
  const Uncancelled uncancelled;
  std::array<std::byte, kRoom> bytes;
  for (int i = 0; i < kMostRequests; ++i) {
    SocketAddress from;
    from.length = sizeof from.storage;
    auto* const sender = reinterpret_cast<sockaddr*>(&from.storage);
    const ssize_t length = ::recvfrom(fd(), bytes.data(), bytes.size(), 0, sender, &from.length);
    if (length < 0 && errno == EAGAIN) return;
    if (length < 0) continue;  // the error of an earlier answer
    NamePacket packet;
    if (!read_name_packet({bytes.data(), static_cast<std::size_t>(length)}, NameKind::request,
                          packet)) {
      ++dropped_;
      continue;
    }
    packet.kind = NameKind::answer;
    packet.address = address;
    // If the answer can't be sent, the other side asks again.
    (void)::sendto(fd(), &packet, sizeof packet, MSG_NOSIGNAL, from.get(), from.length);
    ++answered_;
  }
}

}  // namespace hawser::ofi
