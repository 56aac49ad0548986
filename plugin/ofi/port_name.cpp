// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/port_name.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "hawser/nics.hpp"

namespace hawser::ofi {
namespace {

constexpr std::size_t kV4Bytes = 4;
constexpr std::byte kV6Multicast{0xff};
constexpr std::byte kV4MulticastMask{0xf0};
constexpr std::byte kV4Multicast{0xe0};
constexpr std::byte kOnes{0xff};

std::string ip_text(const PortName& name) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(name.family(), name.ip.data(), text.data(), text.size());
  std::string result(text.data());
  if (name.scope != 0) result.append("%").append(std::to_string(name.scope));
  return result;
}

bool read_scope(std::string_view text, std::uint32_t& scope) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scope);
  if (error == std::errc() && end == text.data() + text.size()) return true;
  scope = ::if_nametoindex(std::string(text).c_str());
  return scope != 0;
}

// Parses "10.0.0.1" or "fe80::1%eth0".
std::optional<PortName> read_ip(std::string_view text) {
  PortName name;
  const std::size_t percent = text.find('%');
  const std::string ip(text.substr(0, percent));
  if (::inet_pton(AF_INET, ip.c_str(), name.ip.data()) == 1) {
    if (percent != text.npos) return std::nullopt;
    return name;
  }
  name.is_v6 = true;
  if (::inet_pton(AF_INET6, ip.c_str(), name.ip.data()) != 1) return std::nullopt;
  if (percent != text.npos && !read_scope(text.substr(percent + 1), name.scope)) {
    return std::nullopt;
  }
  return name;
}

// Parses "" or ":9228".
bool read_port(std::string_view text, std::uint16_t& port) {
  if (text.empty()) return true;
  if (text.front() != ':') return false;
  text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

bool PortName::is_multicast() const {
  return is_v6 ? ip[0] == kV6Multicast
               : (ip[0] & kV4MulticastMask) == kV4Multicast ||
                     (ip[0] & ip[1] & ip[2] & ip[3]) == kOnes;  // broadcast
}

SocketAddress to_socket(const PortName& name) {
  SocketAddress socket;
  if (name.is_v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(name.port);
    v6.sin6_scope_id = name.scope;
    std::memcpy(&v6.sin6_addr, name.ip.data(), sizeof v6.sin6_addr);
    std::memcpy(&socket.storage, &v6, sizeof v6);
    socket.length = sizeof v6;
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(name.port);
    std::memcpy(&v4.sin_addr, name.ip.data(), sizeof v4.sin_addr);
    std::memcpy(&socket.storage, &v4, sizeof v4);
    socket.length = sizeof v4;
  }
  return socket;
}

SocketAddress to_mapped_socket(const PortName& name) {
  if (name.is_v6) return to_socket(name);
  PortName mapped{.port = name.port, .is_v6 = true};
  mapped.ip[10] = mapped.ip[11] = kOnes;
  std::memcpy(mapped.ip.data() + mapped.ip.size() - kV4Bytes, name.ip.data(), kV4Bytes);
  return to_socket(mapped);
}

std::optional<PortName> from_socket(const void* address, std::size_t bytes) {
  sa_family_t family = AF_UNSPEC;
  if (address == nullptr || bytes < sizeof family) return std::nullopt;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  std::memcpy(&family, address, sizeof family);
  PortName name;
  if (family == AF_INET && bytes >= sizeof v4) {
    std::memcpy(&v4, address, sizeof v4);
    name.port = ntohs(v4.sin_port);
    std::memcpy(name.ip.data(), &v4.sin_addr, sizeof v4.sin_addr);
    return name;
  }
  if (family != AF_INET6 || bytes < sizeof v6) return std::nullopt;
  std::memcpy(&v6, address, sizeof v6);
  name.is_v6 = true;
  name.port = ntohs(v6.sin6_port);
  name.scope = v6.sin6_scope_id;
  std::memcpy(name.ip.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  return name;
}

std::string to_text(const PortName& name) {
  std::string text = ip_text(name);
  if (name.is_v6) text = std::string("[").append(text).append("]");
  text.append(":").append(std::to_string(name.port));
  return text;
}

std::string to_uri(const PortName& name) {
  return (name.is_v6 ? "fi_sockaddr_in6://" : "fi_sockaddr_in://") + to_text(name);
}

std::optional<PortName> from_uri(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon == text.npos) return std::nullopt;
  const std::string_view format = text.substr(0, colon);
  std::string_view rest = text.substr(colon + 3);
  const bool wants_v4 = format == "fi_sockaddr_in";
  const bool wants_v6 = format == "fi_sockaddr_in6";
  if (!wants_v4 && !wants_v6 && format != "fi_sockaddr") return std::nullopt;
  std::string_view ip;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == rest.npos) return std::nullopt;
    ip = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    ip = rest.substr(0, rest.find(':'));
    rest.remove_prefix(ip.size());
  }
  std::optional<PortName> name = read_ip(ip);
  if (!name || !read_port(rest, name->port)) return std::nullopt;
  if ((wants_v4 && name->is_v6) || (wants_v6 && !name->is_v6)) return std::nullopt;
  return name;
}

std::optional<PortName> of_nic(const std::string& name) {
  const NicName parts = split_nic_name(name);
  return parts.kind == "udp" ? read_ip(parts.where) : std::nullopt;
}

std::optional<PortName> look_up(const char* node, const char* service, const LookUp& how,
                                std::string& why) {
  addrinfo hints{};
  hints.ai_family = how.family;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = (how.is_source ? AI_PASSIVE : 0) | (how.is_numeric ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(node, service, &hints, &found); error != 0) {
    why = ::gai_strerror(error);
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  // If both families serve, IPv4 comes first, because fewer hosts lack it.
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
      if (info->ai_family == family) return from_socket(info->ai_addr, info->ai_addrlen);
    }
  }
  why = "no IP address";
  return std::nullopt;
}

}  // namespace hawser::ofi
