// SPDX-License-Identifier: Apache-2.0
#include "engine/host/nic_list.hpp"

#include <arpa/inet.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "engine/driver/verbs/verbs.hpp"
#include "engine/host/nic_spec.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

constexpr std::string_view kUdpWord = "udp";
constexpr std::string_view kVerbsWord = "verbs";
constexpr std::string_view kInterfaceWord = "if:";
constexpr std::string_view kPrefixWord = "net:";
constexpr std::string_view kWildcards = "*?[";
constexpr std::uint32_t kIpv4Bits = 32;
constexpr std::uint32_t kIpv6Bits = 128;

[[noreturn]] void refuse(std::string_view item, const std::string& why) {
  throw NicChoiceError("NIC \"" + std::string(item) + "\" " + why, {});
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool has_wildcard(std::string_view text) {
  return text.find_first_of(kWildcards) != std::string_view::npos;
}

// Parses an address as a prefix of full length.
std::optional<IpPrefix> parse_ip(const std::string& text) {
  IpPrefix ip;
  if (::inet_pton(AF_INET, text.c_str(), ip.address.data()) == 1) {
    ip.bits = kIpv4Bits;
    return ip;
  }
  if (::inet_pton(AF_INET6, text.c_str(), ip.address.data()) != 1) return std::nullopt;
  ip.is_v6 = true;
  ip.bits = kIpv6Bits;
  return ip;
}

IpPrefix parse_prefix(std::string_view text) {
  const std::size_t slash = text.find('/');
  std::optional<IpPrefix> prefix = parse_ip(std::string(text.substr(0, slash)));
  if (prefix && slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    std::uint32_t bits = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), bits);
    const bool is_number = error == std::errc() && end == digits.end();
    if (!is_number || bits > prefix->bits) prefix.reset();
    if (prefix) prefix->bits = bits;
  }
  if (!prefix) {
    refuse(text, "is not a prefix: write net:ADDRESS/BITS, as in net:10.0.0.0/8 or net:fd00::/8");
  }
  return *prefix;
}

bool is_in(const IpPrefix& prefix, const std::string& address) {
  const std::optional<IpPrefix> ip = parse_ip(address);
  if (!ip || ip->is_v6 != prefix.is_v6) return false;
  const std::size_t whole = prefix.bits / 8;
  if (!std::equal(ip->address.begin(), ip->address.begin() + static_cast<std::ptrdiff_t>(whole),
                  prefix.address.begin())) {
    return false;
  }
  const unsigned rest = prefix.bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::byte>(0xff << (8 - rest));
  return ((ip->address[whole] ^ prefix.address[whole]) & mask) == std::byte{0};
}

NicItem named(NicItem::Kind kind, std::string_view pattern) {
  NicItem item;
  item.kind = kind;
  item.pattern = pattern;
  return item;
}

NicItem exact(std::string_view name) {
  NicItem item = named(NicItem::Kind::exact, name);
  item.canonical = canonical_name(name);
  return item;
}

// inet_aton takes short forms too ("10.1"), as the engine does.
std::string canonical_ip(const std::string& text) {
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  in6_addr v6{};
  in_addr v4{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    (void)::inet_ntop(AF_INET6, &v6, canonical.data(), canonical.size());
  } else if (::inet_aton(text.c_str(), &v4) != 0) {
    (void)::inet_ntop(AF_INET, &v4, canonical.data(), canonical.size());
  } else {
    return text;
  }
  return canonical.data();
}

// True for "verbs:mlx5_0", which leaves out all ports of the device, as "mlx5_0" does.
bool names_whole_device(const NicItem& item) {
  return item.is_negated && verbs_device(item.pattern) == split_nic_name(item.pattern).where;
}

NicItem parse_positive(std::string_view text) {
  using Kind = NicItem::Kind;
  if (text == kUdpWord) return named(Kind::every_interface, {});
  if (text == kVerbsWord) return named(Kind::every_rdma_port, {});
  if (text.starts_with(kInterfaceWord)) {
    const std::string_view name = text.substr(kInterfaceWord.size());
    if (name.empty()) refuse(text, "lacks the interface's name, as in if:eth0");
    return named(Kind::interface_name, name);
  }
  const bool has_word = text.starts_with(kPrefixWord);
  if (has_word || text.find('/') != std::string_view::npos) {
    NicItem item = named(Kind::prefix, {});
    item.prefix = parse_prefix(has_word ? text.substr(kPrefixWord.size()) : text);
    return item;
  }
  if (parse_ip(std::string(text))) return exact(udp_name(text));
  if (is_verbs_name(text) && has_wildcard(text)) {
    return named(Kind::rdma_name, split_nic_name(text).where);
  }
  if (text.find(':') == std::string_view::npos) return named(Kind::any_name, text);
  try {
    (void)parse_nic_spec(text);
  } catch (const Error& error) {
    throw NicChoiceError(error.what(), {});
  }
  return exact(text);
}

}  // namespace

bool is_udp(const HostNic& nic) { return is_udp_name(nic.name); }

bool is_ipv4(const HostNic& nic) { return family_of(nic.name) == Family::v4; }

std::string canonical_name(std::string_view text) {
  if (is_udp_name(text)) {
    const UdpPlace place = udp_place(text);
    const std::string address = canonical_ip(std::string(place.address));
    return udp_name(place.interface.empty() ? address
                                            : address + "%" + std::string(place.interface));
  }
  if (!is_verbs_name(text)) return std::string(text);
  try {
    VerbsPortName port = parse_verbs_port(split_nic_name(text).where);
    port.gid_index.reset();  // chooses an address of the port
    return verbs_name(to_string(port));
  } catch (const Error&) {
    return std::string(text);
  }
}

bool NicItem::matches(const HostNic& nic) const {
  const bool has_name = ::fnmatch(pattern.c_str(), nic.device.c_str(), 0) == 0;
  switch (kind) {
    case Kind::exact:
      return canonical_name(nic.name) == canonical ||
             (names_whole_device(*this) && verbs_name(nic.device) == canonical);
    case Kind::any_name: return has_name;
    case Kind::interface_name: return is_udp(nic) && has_name;
    case Kind::rdma_name: return !is_udp(nic) && has_name;
    case Kind::prefix:
      return is_udp(nic) && is_in(prefix, std::string(udp_place(nic.name).address));
    case Kind::every_interface: return is_udp(nic);
    case Kind::every_rdma_port: return !is_udp(nic);
  }
  return false;
}

std::vector<NicItem> parse_nic_list(std::string_view list) {
  std::vector<NicItem> items;
  list = trimmed(list);
  if (list.empty()) return items;
  const bool negates_all = list.front() == '^';
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string_view text = trimmed(list.substr(begin, end - begin));
    begin = end + 1;
    const bool has_mark = text.starts_with('!') || text.starts_with('^');
    if (has_mark) text = trimmed(text.substr(1));
    if (text.empty()) {
      throw NicChoiceError(
          "NICs \"" + std::string(list) + "\": an item is empty; name a NIC there, or remove it",
          {});
    }
    NicItem item = parse_positive(text);
    item.is_negated = has_mark || negates_all;
    item.text = text;
    items.push_back(std::move(item));
  }
  return items;
}

bool is_nic_name(std::string_view text) {
  if (split_nic_name(text).kind.empty() || text.find(',') != std::string_view::npos) return false;
  return !is_verbs_name(text) || !has_wildcard(text);
}

}  // namespace hawser::engine
