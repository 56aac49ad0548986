// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "engine/descriptor.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

using Layout = UdpAddressLayout;
using proto::NicAddress;

constexpr std::uint32_t kUsualMtu = 1500;

// False for unspecified, multicast and broadcast addresses, which name no host.
bool names_one_host(const SocketAddress& address) {
  if (address.is_v6()) {
    const in6_addr& ip = address.v6.sin6_addr;
    return !IN6_IS_ADDR_UNSPECIFIED(&ip) && !IN6_IS_ADDR_MULTICAST(&ip) &&
           !IN6_IS_ADDR_V4MAPPED(&ip);
  }
  const std::uint32_t ip = ntohl(address.v4.sin_addr.s_addr);
  return ip != INADDR_ANY && ip != INADDR_BROADCAST && !IN_MULTICAST(ip);
}

struct IpBytes {
  const std::byte* bytes;
  std::size_t count;
};

IpBytes ip_of(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return {reinterpret_cast<const std::byte*>(&v6.sin6_addr), sizeof v6.sin6_addr};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  return {reinterpret_cast<const std::byte*>(&v4.sin_addr), sizeof v4.sin_addr};
}

// Length of the network prefix of the interface's address, if `local` is in that network; else -1.
int matching_prefix(const ifaddrs& interface, const SocketAddress& local) {
  if (interface.ifa_addr == nullptr || interface.ifa_netmask == nullptr ||
      interface.ifa_addr->sa_family != local.any.sa_family) {
    return -1;
  }
  const IpBytes own = ip_of(*interface.ifa_addr);
  const IpBytes wanted = ip_of(local.any);
  sockaddr_in6 mask{};  // the kernel may leave the netmask's family unset
  std::memcpy(&mask, interface.ifa_netmask, local.length());
  mask.sin6_family = local.any.sa_family;
  const IpBytes bits = ip_of(reinterpret_cast<const sockaddr&>(mask));
  int prefix = 0;
  for (std::size_t i = 0; i < own.count; ++i) {
    if (((own.bytes[i] ^ wanted.bytes[i]) & bits.bytes[i]) != std::byte{0}) return -1;
    prefix += __builtin_popcount(static_cast<unsigned>(bits.bytes[i]));
  }
  return std::memcmp(own.bytes, wanted.bytes, own.count) == 0 ? 129 : prefix;
}

// Explains why this text names no address that a socket can have.
std::string complaint_about(const std::string& text) {
  const std::size_t percent = text.find('%');
  in6_addr ip{};
  if (percent == std::string::npos ||
      ::inet_pton(AF_INET6, text.substr(0, percent).c_str(), &ip) != 1) {
    return "this is not an IPv4 or IPv6 address";
  }
  if (!IN6_IS_ADDR_LINKLOCAL(&ip)) {
    return "only a link-local address (fe80::/10) takes the name of an interface; write udp:" +
           text.substr(0, percent);
  }
  return "this host has no interface \"" + text.substr(percent + 1) + "\" (`ip link` lists them)";
}

}  // namespace

bool is_link_local(const SocketAddress& address) {
  return address.is_v6() && IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr);
}

bool is_same_ip(const SocketAddress& a, const SocketAddress& b) {
  if (a.is_v6() != b.is_v6()) return false;
  if (!a.is_v6()) return a.v4.sin_addr.s_addr == b.v4.sin_addr.s_addr;
  return std::memcmp(&a.v6.sin6_addr, &b.v6.sin6_addr, sizeof a.v6.sin6_addr) == 0 &&
         (!is_link_local(a) || a.v6.sin6_scope_id == b.v6.sin6_scope_id);
}

SocketAddress parse_local_address(const std::string& text) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (text.empty() || ::getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0) {
    throw Error("udp:" + text + ": " + complaint_about(text));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  SocketAddress address;
  std::memcpy(&address.v6, found->ai_addr,
              std::min<std::size_t>(found->ai_addrlen, sizeof address.v6));
  if (!names_one_host(address)) {
    throw Error("udp:" + text + ": a NIC needs the address of one interface, not of any or many");
  }
  if (is_link_local(address) && address.v6.sin6_scope_id == 0) {
    throw Error(
        "udp:" + text +
        ": a link-local address exists on every interface; name the interface too, as in udp:" +
        text + "%eth0 (`ip -6 address` shows which has it)");
  }
  return address;
}

std::string to_text(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const IpBytes ip = ip_of(address.any);
  (void)::inet_ntop(address.any.sa_family, ip.bytes, text.data(), text.size());
  return text.data();
}

NicAddress to_nic_address(const SocketAddress& data, const SocketAddress& control) {
  NicAddress address;
  std::byte* const out = address.bytes.data();
  out[Layout::kKind] = static_cast<std::byte>(proto::NicKind::udp);
  out[Layout::kFamily] = data.is_v6() ? std::byte{6} : std::byte{4};
  const in_port_t ports[] = {data.port(), control.port()};
  std::memcpy(out + Layout::kDataPort, &ports[0], sizeof ports[0]);
  std::memcpy(out + Layout::kControlPort, &ports[1], sizeof ports[1]);
  const IpBytes ip = ip_of(data.any);
  std::memcpy(out + Layout::kIp, ip.bytes, ip.count);
  return address;
}

bool from_nic_address(const NicAddress& address, const SocketAddress& local, SocketAddress& data,
                      SocketAddress& control) {
  const std::byte* const in = address.bytes.data();
  if (in[Layout::kKind] != static_cast<std::byte>(proto::NicKind::udp)) return false;
  if (in[Layout::kFamily] != (local.is_v6() ? std::byte{6} : std::byte{4})) return false;
  in_port_t ports[2];
  std::memcpy(&ports[0], in + Layout::kDataPort, sizeof ports[0]);
  std::memcpy(&ports[1], in + Layout::kControlPort, sizeof ports[1]);
  if (ports[0] == 0 || ports[1] == 0) return false;
  for (SocketAddress* out : {&data, &control}) {
    const in_port_t port = out == &data ? ports[0] : ports[1];
    *out = {};
    if (local.is_v6()) {
      out->v6.sin6_family = AF_INET6;
      out->v6.sin6_port = port;
      std::memcpy(&out->v6.sin6_addr, in + Layout::kIp, sizeof out->v6.sin6_addr);
      if (is_link_local(*out)) out->v6.sin6_scope_id = local.v6.sin6_scope_id;
    } else {
      out->v4 = {};
      out->v4.sin_family = AF_INET;
      out->v4.sin_port = port;
      std::memcpy(&out->v4.sin_addr, in + Layout::kIp, sizeof out->v4.sin_addr);
    }
  }
  // Unused bytes must be zero, so that equal addresses are equal bytes.
  return names_one_host(data) && address == to_nic_address(data, control);
}

std::uint32_t device_mtu(const std::string& device) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  const bool known =
      socket && ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0;
  return known ? static_cast<std::uint32_t>(request.ifr_mtu) : 0;
}

std::uint32_t interface_mtu(const SocketAddress& local) {
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return kUsualMtu;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(interfaces, ::freeifaddrs);
  const ifaddrs* best = nullptr;
  int best_prefix = -1;
  for (const ifaddrs* interface = interfaces; interface != nullptr;
       interface = interface->ifa_next) {
    const int prefix = matching_prefix(*interface, local);
    if (prefix > best_prefix) {
      best = interface;
      best_prefix = prefix;
    }
  }
  const std::uint32_t mtu = best == nullptr ? 0 : device_mtu(best->ifa_name);
  return mtu == 0 ? kUsualMtu : mtu;
}

}  // namespace hawser::engine
