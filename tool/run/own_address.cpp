// SPDX-License-Identifier: Apache-2.0
#include "tool/run/own_address.hpp"

#include <algorithm>

#include "engine/host/nic_spec.hpp"

namespace hawser::tool {
namespace {

bool leads_out(const HostNic& nic) {
  return nic.up && !nic.loopback && engine::is_udp_name(nic.name) &&
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
  for (const HostNic& nic : leading) addresses.emplace_back(split_nic_name(nic.name).where);
  return addresses;
}

}  // namespace hawser::tool
