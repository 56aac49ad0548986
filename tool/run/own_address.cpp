#include "tool/run/own_address.hpp"

#include <string_view>

namespace hawser::tool {
namespace {

constexpr std::string_view kUdp = "udp:";

bool leads_out(const HostNic& nic) {
  return nic.up && !nic.loopback && nic.name.starts_with(kUdp) &&
         nic.address_state == AddressState::preferred;
}

}  // namespace

std::optional<std::string> own_address(std::span<const HostNic> nics) {
  for (const HostNic& nic : nics) {
    if (!leads_out(nic)) continue;
    const std::string address = nic.name.substr(kUdp.size());
    return address.find(':') == std::string::npos ? address + ":0" : "[" + address + "]:0";
  }
  return std::nullopt;
}

}  // namespace hawser::tool
