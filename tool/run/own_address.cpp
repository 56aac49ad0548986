// SPDX-License-Identifier: Apache-2.0
#include "tool/run/own_address.hpp"

#include <algorithm>
#include <string_view>

namespace hawser::tool {
namespace {

constexpr std::string_view kUdp = "udp:";

bool leads_out(const HostNic& nic) {
  return nic.up && !nic.loopback && nic.name.starts_with(kUdp) &&
         nic.address_state == AddressState::preferred;
}

}  // namespace

std::vector<std::string> own_addresses(std::span<const HostNic> nics) {
  std::vector<HostNic> leading;
  std::ranges::copy_if(nics, std::back_inserter(leading), leads_out);
  if (leading.empty()) return {};
  const std::vector<std::string> chosen = choose_nics("udp", leading).nics;
  std::ranges::stable_partition(
      leading, [&](const HostNic& nic) { return std::ranges::count(chosen, nic.name) > 0; });
  std::vector<std::string> addresses;
  for (const HostNic& nic : leading) addresses.push_back(nic.name.substr(kUdp.size()));
  return addresses;
}

}  // namespace hawser::tool
