#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tool/info/info.hpp"

namespace hawser::tool {
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

unsigned mtu_of(const std::string& device) {
  std::ifstream file("/sys/class/net/" + device + "/mtu");
  unsigned mtu = 0;
  file >> mtu;
  return file ? mtu : 0;
}

}  // namespace

std::vector<HostNic> host_nics() {
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
    nic.mtu = mtu_of(nic.device);
    nic.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    nics.push_back(std::move(nic));
  }
  std::stable_partition(nics.begin(), nics.end(), [](const HostNic& nic) { return !nic.loopback; });
  return nics;
}

std::vector<std::string> rdma_devices() {
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", error)) {
    devices.push_back(entry.path().filename().string());
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace hawser::tool
