// SPDX-License-Identifier: Apache-2.0
#include "hawser/nics.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "engine/cancellation.hpp"
#include "engine/descriptor.hpp"
#include "engine/driver/udp/address_states.hpp"
#include "engine/driver/udp/udp_address.hpp"
#include "engine/driver/udp/udp_device.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/host/nic_spec.hpp"

namespace hawser {
namespace {

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    if (::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size()) != nullptr) return text.data();
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof v6);
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return {};
    if (::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size()) != nullptr) {
      return text.data();
    }
  }
  return {};
}

// Reads a number from a file of sysfs; 0 if the file is missing or the kernel doesn't know (-1).
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  file >> number;
  return file && number > 0 ? static_cast<std::uint64_t>(number * 1000) / 1000 : 0;
}

AddressState state_of(const sockaddr* address, std::span<const engine::StatedAddress> states) {
  if (address->sa_family != AF_INET6) return AddressState::preferred;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  return engine::state_in(states, v6.sin6_addr, v6.sin6_scope_id).value_or(AddressState::preferred);
}

// Explains why no socket can bind the address; empty if one can.
std::string socket_refusal(const sockaddr* address) {
  sockaddr_in6 any{};
  const bool is_v6 = address->sa_family == AF_INET6;
  const socklen_t length = is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&any, address, length);
  const engine::Descriptor socket(::socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), length) == 0) {
    return {};
  }
  return std::string("the system refuses a socket there: ") + std::strerror(errno);
}

// Finds what keeps a NIC from being used although its interface is up.
void look_for_obstacles(HostNic& nic, const sockaddr* address,
                        std::span<const engine::StatedAddress> states) {
  nic.address_state = state_of(address, states);
  if (nic.address_state == AddressState::tentative) {
    nic.obstacle = "duplicate address detection has not ended";
  } else if (nic.address_state == AddressState::duplicate) {
    nic.obstacle = "another host on the link has this address";
  } else if (nic.up) {
    nic.obstacle = socket_refusal(address);
  }
  nic.up = nic.up && nic.obstacle.empty();
}

std::vector<HostNic> udp_nics() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  const std::vector<engine::StatedAddress> states = engine::read_address_states();
  std::vector<HostNic> nics;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const std::string address = address_text(entry->ifa_addr);
    if (address.empty()) continue;
    HostNic nic;
    nic.name = engine::udp_name(address);
    nic.device = engine::name_of_device(entry->ifa_name);
    nic.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    const std::string folder = "/sys/class/net/" + nic.device;
    nic.mtu = engine::device_mtu(nic.device);
    nic.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (!nic.loopback) nic.bits_per_second = number_in(folder + "/speed") * 1'000'000;
    look_for_obstacles(nic, entry->ifa_addr, states);
    nics.push_back(std::move(nic));
  }
  std::stable_partition(nics.begin(), nics.end(), [](const HostNic& nic) { return !nic.loopback; });
  return nics;
}

}  // namespace

std::vector<HostNic> host_nics() {
  const engine::CancellationHold hold;
  std::vector<HostNic> nics;
  for (const engine::VerbsPortInfo& port : engine::verbs_ports()) {
    if (port.name == "*") continue;  // this row only explains why there is no list
    HostNic nic;
    nic.name = engine::verbs_name(port.name);
    const engine::VerbsPortName parts = engine::parse_verbs_port(port.name);
    nic.device = parts.device;
    nic.up = port.usable;
    if (!nic.up) nic.obstacle = port.description;
    // "100 Gb/sec (4X EDR)"
    nic.bits_per_second = number_in("/sys/class/infiniband/" + parts.device + "/ports/" +
                                    std::to_string(parts.port) + "/rate") *
                          1'000'000'000;
    nics.push_back(std::move(nic));
  }
  std::ranges::move(udp_nics(), std::back_inserter(nics));
  return nics;
}

}  // namespace hawser
