#include "tool/run/own_address.hpp"

#include <algorithm>
#include <string_view>

namespace hawser::tool {
namespace {

constexpr std::string_view kUdp = "udp:";

bool leads_out(const HostNic& nic) { return nic.up && !nic.loopback && nic.name.starts_with(kUdp); }

bool is_v6(const HostNic& nic) { return nic.name.find(':', kUdp.size()) != std::string::npos; }

}  // namespace

std::vector<std::string> own_udp_nics(std::span<const HostNic> nics, std::size_t most) {
  std::vector<const HostNic*> chosen;
  for (const HostNic& nic : nics) {
    if (!leads_out(nic)) continue;
    const auto same = std::ranges::find(chosen, nic.device, &HostNic::device);
    if (same == chosen.end()) {
      chosen.push_back(&nic);
    } else if (is_v6(**same) && !is_v6(nic)) {
      *same = &nic;
    }
  }
  std::vector<std::string> names;
  for (const HostNic* nic : chosen) {
    if (names.size() < most) names.push_back(nic->name);
  }
  return names;
}

std::optional<std::string> own_address(std::span<const HostNic> nics) {
  for (const HostNic& nic : nics) {
    if (!leads_out(nic)) continue;
    const std::string address = nic.name.substr(kUdp.size());
    return address.find(':') == std::string::npos ? address + ":0" : "[" + address + "]:0";
  }
  return std::nullopt;
}

}  // namespace hawser::tool
