#include "hawser/nics.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "engine/cancellation.hpp"
#include "engine/driver/verbs.hpp"

namespace hawser {
namespace {

constexpr std::size_t kMostNics = 16;  // of an engine

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

// A number in a file of sysfs; 0 if it isn't there, or the kernel doesn't know (-1).
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  file >> number;
  return file && number > 0 ? static_cast<std::uint64_t>(number * 1000) / 1000 : 0;
}

std::vector<HostNic> udp_nics() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<HostNic> nics;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const std::string address = address_text(entry->ifa_addr);
    if (address.empty()) continue;
    HostNic nic;
    nic.name = "udp:" + address;
    nic.device = entry->ifa_name;
    nic.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    const std::string folder = "/sys/class/net/" + nic.device;
    nic.mtu = static_cast<std::uint32_t>(number_in(folder + "/mtu"));
    nic.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (!nic.loopback) nic.bits_per_second = number_in(folder + "/speed") * 1'000'000;
    nics.push_back(std::move(nic));
  }
  std::stable_partition(nics.begin(), nics.end(), [](const HostNic& nic) { return !nic.loopback; });
  return nics;
}

bool is_udp(const HostNic& nic) { return nic.name.starts_with("udp:"); }
bool is_ipv4(const HostNic& nic) { return nic.name.find(':', 4) == std::string::npos; }

}  // namespace

std::vector<HostNic> host_nics() {
  const engine::CancellationHold hold;
  std::vector<HostNic> nics;
  for (const engine::VerbsPortInfo& port : engine::verbs_ports()) {
    if (port.name == "*") continue;  // says why there is no list
    HostNic nic;
    nic.name = "verbs:" + port.name;
    const engine::VerbsPortName parts = engine::parse_verbs_port(port.name);
    nic.device = parts.device;
    nic.up = port.usable;
    // "100 Gb/sec (4X EDR)"
    nic.bits_per_second = number_in("/sys/class/infiniband/" + parts.device + "/ports/" +
                                    std::to_string(parts.port) + "/rate") *
                          1'000'000'000;
    nics.push_back(std::move(nic));
  }
  std::ranges::move(udp_nics(), std::back_inserter(nics));
  return nics;
}

std::vector<std::string> usable_nics() {
  std::vector<HostNic> all = host_nics();
  std::erase_if(all, [](const HostNic& nic) { return !nic.up; });
  // The first kind of which there is one; of a device's addresses IPv4 before IPv6.
  std::stable_partition(all.begin(), all.end(),
                        [](const HostNic& nic) { return !is_udp(nic) || is_ipv4(nic); });
  std::stable_partition(all.begin(), all.end(), [](const HostNic& nic) { return !nic.loopback; });
  std::vector<std::string> names;
  std::set<std::string> devices;
  for (const HostNic& nic : all) {
    if (is_udp(nic) != is_udp(all.front()) || nic.loopback != all.front().loopback) break;
    const std::string port = is_udp(nic) ? nic.device : nic.name;
    if (names.size() < kMostNics && devices.insert(port).second) names.push_back(nic.name);
  }
  return names;
}

}  // namespace hawser
