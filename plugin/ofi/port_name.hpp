// SPDX-License-Identifier: Apache-2.0
// A port name: the IP address and UDP port at which an endpoint is asked for its address. This file
// converts port names from and to the forms that programs use: socket addresses, URIs, node and
// service.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hawser::ofi {

struct PortName {
  std::array<std::byte, 16> ip{};  // in network order; of IPv4 the first 4 bytes
  std::uint32_t scope = 0;         // of an IPv6 link-local address
  std::uint16_t port = 0;
  bool is_v6 = false;

  [[nodiscard]] int family() const { return is_v6 ? AF_INET6 : AF_INET; }
  [[nodiscard]] bool is_any() const { return ip == decltype(ip){}; }
  [[nodiscard]] bool is_multicast() const;
  // True if an endpoint can be asked there.
  [[nodiscard]] bool can_be_asked() const { return port != 0 && !is_any() && !is_multicast(); }
  bool operator==(const PortName&) const = default;
};

// A port name as system calls on sockets take it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
[[nodiscard]] SocketAddress to_socket(const PortName& name);
// For an IPv6 socket that also serves IPv4.
[[nodiscard]] SocketAddress to_mapped_socket(const PortName& name);
// Returns none if it is neither a sockaddr_in nor a sockaddr_in6.
[[nodiscard]] std::optional<PortName> from_socket(const void* address, std::size_t bytes);

// "127.0.0.1:9228" or "[::1]:9228".
[[nodiscard]] std::string to_text(const PortName& name);
// "fi_sockaddr_in://127.0.0.1:9228" or "fi_sockaddr_in6://[::1]:9228".
[[nodiscard]] std::string to_uri(const PortName& name);
// A missing port is 0. "fi_sockaddr" leaves the family open.
[[nodiscard]] std::optional<PortName> from_uri(std::string_view text);

// The address of a NIC, with port 0. Returns none if it is not a UDP NIC.
[[nodiscard]] std::optional<PortName> of_nic(const std::string& name);

struct LookUp {
  int family = AF_UNSPEC;
  bool is_source = false;   // no node: any address, rather than this host's own
  bool is_numeric = false;  // no name is resolved
};
// Asks the system's resolver, and may block. `node` or `service` may be null. On failure returns
// none and sets `why`.
[[nodiscard]] std::optional<PortName> look_up(const char* node, const char* service,
                                              const LookUp& how, std::string& why);

}  // namespace hawser::ofi
