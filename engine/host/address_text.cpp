// SPDX-License-Identifier: Apache-2.0
// Describes an address in words: hawser::describe_address.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string>

#include "engine/driver/udp/udp_address.hpp"
#include "engine/driver/verbs/verbs_address.hpp"
#include "hawser/address.hpp"
#include "proto/wire/address_blob.hpp"

namespace hawser {
namespace {

using engine::Gid;
using proto::NicAddress;

std::string ip_text(int family, const std::byte* bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, bytes, text.data(), text.size()) == nullptr ? "?" : text.data();
}

std::string udp_text(const NicAddress& address) {
  using Layout = engine::UdpAddressLayout;
  const auto family = std::to_integer<int>(address.bytes[Layout::kFamily]);
  if (family != 4 && family != 6) return "udp with a malformed address";
  const auto port = [&](std::size_t at) {
    return std::to_string(std::to_integer<unsigned>(address.bytes[at]) << 8 |
                          std::to_integer<unsigned>(address.bytes[at + 1]));
  };
  return "udp:" + ip_text(family == 4 ? AF_INET : AF_INET6, address.bytes.data() + Layout::kIp) +
         " (ports " + port(Layout::kDataPort) + " and " + port(Layout::kControlPort) + ")";
}

std::string verbs_text(const NicAddress& bytes) {
  engine::VerbsAddress address;
  if (!from_nic_address(bytes, address)) return "verbs with a malformed address";
  if (address.link == engine::VerbsAddress::Link::infiniband) {
    return "InfiniBand LID " + std::to_string(address.lid);
  }
  constexpr std::size_t kIpv4Offset = 12;
  const Gid& gid = address.gid;
  return "RoCE " + (engine::is_ipv4(gid) ? ip_text(AF_INET, gid.data() + kIpv4Offset)
                                         : ip_text(AF_INET6, gid.data()));
}

std::string nic_text(const NicAddress& address) {
  switch (static_cast<proto::NicKind>(address.bytes[0])) {
    case proto::NicKind::none: return "none";
    case proto::NicKind::memory: return "memory";
    case proto::NicKind::udp: return udp_text(address);
    case proto::NicKind::verbs: return verbs_text(address);
  }
  return "a NIC of an unknown kind, " + std::to_string(std::to_integer<int>(address.bytes[0]));
}

}  // namespace

std::string describe_address(std::span<const std::byte> address) {
  proto::ParsedAddress parsed;
  if (!proto::parse_address(address, parsed)) return "not an endpoint's address";
  std::string text = "endpoint " + std::to_string(parsed.endpoint_id) + ": ";
  std::string comma;
  for (const auto& record : parsed.nic_records()) {
    text += comma + nic_text(record.address);
    comma = ", ";
  }
  return text;
}

}  // namespace hawser
