// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_device.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/descriptor.hpp"

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
  return address;
}

}  // namespace

std::string name_of_device(const char* label) {
  std::array<char, IF_NAMESIZE> name{};
  // The kernel looks for the part before the colon.
  const unsigned index = ::if_nametoindex(label);
  return index != 0 && ::if_indextoname(index, name.data()) != nullptr ? name.data() : label;
}

UdpDevice device_of(const SocketAddress& local) {
  const Interfaces interfaces = list_interfaces();
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    const std::optional<SocketAddress> address = address_in(*entry, local);
    if (!address || !is_same_ip(*address, local)) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0) return {};
    return {::if_nametoindex(entry->ifa_name), name_of_device(entry->ifa_name)};
  }
  return {};
}

bool is_usable(const SocketAddress& local) {
  SocketAddress address = local;
  address.set_port(0);
  const Descriptor fd(::socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), &address.any, address.length()) == 0) return true;
  // ENODEV: a link-local address names its device by index, and that device is gone. Other errors
  // (no port, no descriptor) say nothing against the address.
  return errno != EADDRNOTAVAIL && errno != ENODEV;
}

std::optional<SocketAddress> address_like(const SocketAddress& before, const std::string& device) {
  const Interfaces interfaces = list_interfaces();
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    const std::optional<SocketAddress> address = address_in(*entry, before);
    if (!address || device != name_of_device(entry->ifa_name)) continue;
    if (is_link_local(*address) == is_link_local(before) && is_usable(*address)) return address;
  }
  return {};
}

}  // namespace hawser::engine
