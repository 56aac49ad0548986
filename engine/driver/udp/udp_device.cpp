// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_device.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/driver/udp/address_states.hpp"

namespace hawser::engine {
namespace {

using Interfaces = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

Interfaces list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) first = nullptr;
  return {first, ::freeifaddrs};
}

// The address of an entry, with port 0. Nothing if its family differs from that of `like`.
std::optional<SocketAddress> address_in(const ifaddrs& entry, const SocketAddress& like) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != like.any.sa_family) return {};
  SocketAddress address;
  std::memcpy(&address.v6, entry.ifa_addr, like.length());
  address.set_port(0);
  return address;
}

// The addresses that this host has at one moment.
class HostAddresses {
 public:
  explicit HostAddresses(const SocketAddress& like) : interfaces_(list_interfaces()) {
    if (like.is_v6()) states_ = read_address_states();
  }

  // Calls `visit` with each entry of the family of `like`, and its address.
  template <class Visit>
  void for_each(const SocketAddress& like, Visit visit) const {
    for (const ifaddrs* entry = interfaces_.get(); entry != nullptr; entry = entry->ifa_next) {
      if (const auto address = address_in(*entry, like)) visit(*entry, *address);
    }
  }

  // Where the kernel does not answer, nothing is held against the address.
  [[nodiscard]] bool has(const SocketAddress& local) const {
    bool is_listed = interfaces_ == nullptr || is_loopback_network(local);
    for_each(local, [&](const ifaddrs&, const SocketAddress& address) {
      is_listed |= is_same_ip(address, local);
    });
    return is_listed && !is_in_detection(local);
  }

 private:
  // All of 127.0.0.0/8 is this host's, though few of its addresses are listed.
  static bool is_loopback_network(const SocketAddress& local) {
    return !local.is_v6() && ntohl(local.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  // True while duplicate address detection runs, and if it has found another host (RFC 4862).
  [[nodiscard]] bool is_in_detection(const SocketAddress& local) const {
    if (!local.is_v6()) return false;
    const auto state = state_in(states_, local.v6.sin6_addr, local.v6.sin6_scope_id);
    return state == AddressState::tentative || state == AddressState::duplicate;
  }

  Interfaces interfaces_;
  std::vector<StatedAddress> states_;
};

bool can_bind(const SocketAddress& local) {
  SocketAddress address = local;
  address.set_port(0);
  const Descriptor fd(::socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), &address.any, address.length()) == 0) return true;
  // ENODEV: a link-local address names its device by index, and that device is gone. Other errors
  // (no port, no descriptor) say nothing against the address.
  return errno != EADDRNOTAVAIL && errno != ENODEV;
}

// A bind alone proves nothing: net.ipv4.ip_nonlocal_bind lets it succeed for any address.
bool is_usable(const SocketAddress& local, const HostAddresses& host) {
  return host.has(local) && can_bind(local);
}

std::span<const std::uint8_t> bytes_of(const SocketAddress& address) {
  if (address.is_v6()) return address.v6.sin6_addr.s6_addr;
  return {reinterpret_cast<const std::uint8_t*>(&address.v4.sin_addr), sizeof address.v4.sin_addr};
}

bool has_prefix(const SocketAddress& address, const SocketAddress& network, std::uint32_t bits) {
  const auto a = bytes_of(address);
  const auto b = bytes_of(network);
  for (std::size_t i = 0; i < a.size() && bits > 0; ++i) {
    const std::uint32_t here = std::min(bits, 8u);
    if (((a[i] ^ b[i]) >> (8 - here)) != 0) return false;
    bits -= here;
  }
  return true;
}

std::uint32_t bits_of(const sockaddr* mask, const SocketAddress& like) {
  if (mask == nullptr) return 0;
  SocketAddress copy;  // the kernel may leave the netmask's family unset
  std::memcpy(&copy.v6, mask, like.length());
  copy.any.sa_family = like.any.sa_family;
  std::uint32_t bits = 0;
  for (const std::uint8_t byte : bytes_of(copy)) {
    bits += static_cast<std::uint32_t>(std::popcount(byte));
  }
  return bits;
}

enum class Scope : std::uint8_t { link, site, global };

// Private IPv4 addresses count as global: a host that has both kinds on one device is rare, and
// address translation joins them.
Scope scope_of(const SocketAddress& address) {
  const auto bytes = bytes_of(address);
  if (!address.is_v6()) return bytes[0] == 169 && bytes[1] == 254 ? Scope::link : Scope::global;
  if (is_link_local(address)) return Scope::link;
  return (bytes[0] & 0xfe) == 0xfc ? Scope::site : Scope::global;
}

}  // namespace

std::string name_of_device(const char* label) {
  std::array<char, IF_NAMESIZE> name{};
  // The kernel looks for the part before the colon.
  const unsigned index = ::if_nametoindex(label);
  return index != 0 && ::if_indextoname(index, name.data()) != nullptr ? name.data() : label;
}

UdpDevice device_of(const SocketAddress& local, std::uint32_t preferred) {
  const Interfaces interfaces = list_interfaces();
  UdpDevice found;
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    const std::optional<SocketAddress> address = address_in(*entry, local);
    if (!address || !is_same_ip(*address, local)) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0) return {};
    const std::uint32_t index = ::if_nametoindex(entry->ifa_name);
    if (found.index == 0 || index == preferred) found = {index, name_of_device(entry->ifa_name)};
  }
  return found;
}

UdpDevice device_again(const UdpDevice& before) {
  std::array<char, IF_NAMESIZE> name{};
  if (::if_indextoname(before.index, name.data()) != nullptr) return {before.index, name.data()};
  const std::uint32_t index = ::if_nametoindex(before.name.c_str());
  return {index != 0 ? index : before.index, before.name};
}

UdpHome home_at(const SocketAddress& local) {
  UdpHome home{local, 0};
  const Interfaces interfaces = list_interfaces();
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    const std::optional<SocketAddress> address = address_in(*entry, local);
    if (address && is_same_ip(*address, local)) {
      home.prefix_bits = bits_of(entry->ifa_netmask, local);
      break;
    }
  }
  return home;
}

Closeness closeness_of(const SocketAddress& address, const UdpHome& home) {
  if (is_same_ip(address, home.address)) return Closeness::same;
  // A link-local address and another kind reach different peers (from_nic_address).
  if (is_link_local(address) != is_link_local(home.address)) return Closeness::none;
  if (home.prefix_bits > 0 && has_prefix(address, home.address, home.prefix_bits)) {
    return Closeness::same_network;
  }
  return scope_of(address) == scope_of(home.address) ? Closeness::same_scope
                                                     : Closeness::other_scope;
}

bool is_usable(const SocketAddress& local) { return is_usable(local, HostAddresses(local)); }

std::optional<SocketAddress> closest_address(const UdpHome& home, const UdpDevice& device,
                                             Closeness least) {
  const HostAddresses host(home.address);
  std::optional<SocketAddress> best;
  host.for_each(home.address, [&](const ifaddrs& entry, const SocketAddress& address) {
    const Closeness closeness = closeness_of(address, home);
    if (closeness < least || (best && closeness <= closeness_of(*best, home))) return;
    const bool is_its_own =
        closeness == Closeness::same || ::if_nametoindex(entry.ifa_name) == device.index;
    if (is_its_own && is_usable(address, host)) best = address;
  });
  return best;
}

}  // namespace hawser::engine
