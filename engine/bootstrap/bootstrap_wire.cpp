// SPDX-License-Identifier: Apache-2.0
#include "engine/bootstrap/bootstrap_wire.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "engine/clock.hpp"
#include "engine/host/address_wait.hpp"
#include "engine/log.hpp"
#include "engine/system_error.hpp"

namespace hawser::engine::bootstrap {
namespace {

constexpr char kNonceMark = '#';

struct HostPort {
  std::string host;
  std::string port;
};

HostPort split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  HostPort parts;
  if (colon != std::string::npos) {
    parts = {address.substr(0, colon), address.substr(colon + 1)};
    const bool bracketed =
        parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']';
    if (bracketed) {
      parts.host = parts.host.substr(1, parts.host.size() - 2);
    } else if (parts.host.find(':') != std::string::npos) {
      parts.host.clear();  // an IPv6 address without brackets: its port can't be told apart
    }
  }
  std::uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), port);
  if (parts.host.empty() || error != std::errc() || end != parts.port.data() + parts.port.size()) {
    throw BootstrapError(BootstrapFailure::bad_address,
                         "\"" + address + "\" is not a rendezvous: write HOST:PORT or [IPV6]:PORT");
  }
  return parts;
}

std::uint16_t& port_field(Endpoint& endpoint) {
  return endpoint.storage.ss_family == AF_INET6
             ? reinterpret_cast<sockaddr_in6&>(endpoint.storage).sin6_port
             : reinterpret_cast<sockaddr_in&>(endpoint.storage).sin_port;
}

bool is_literal(const std::string& host) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

}  // namespace

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(endpoint.storage);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(endpoint.storage);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

bool is_loopback_here_alone(const std::string& address, const std::vector<Endpoint>& endpoints) {
  const std::string host = split(address).host;
  if (is_literal(host) || host == "localhost" || host.ends_with(".localhost")) return false;
  return std::ranges::all_of(endpoints, is_loopback);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append_frame(std::vector<std::byte>& out, FrameType type, std::uint8_t detail,
                  std::span<const std::byte> body) {
  BodyWriter head;
  head.number(static_cast<std::uint32_t>(body.size()));
  head.number(static_cast<std::uint8_t>(type)).number(detail).number(std::uint16_t{0});
  static_assert(kHeadBytes == 8);
  out.insert(out.end(), head.body().begin(), head.body().end());
  out.insert(out.end(), body.begin(), body.end());
}

Parse take_frame(std::vector<std::byte>& in, std::size_t max_body, Frame& frame) {
  if (in.size() < kHeadBytes) return Parse::incomplete;
  BodyReader head(in);
  const auto bytes = head.number<std::uint32_t>();
  frame.type = FrameType{head.number<std::uint8_t>()};
  frame.detail = head.number<std::uint8_t>();
  if (bytes > max_body) return Parse::bad;
  if (in.size() < kHeadBytes + bytes) return Parse::incomplete;
  const auto begin = in.begin() + kHeadBytes;
  frame.body.assign(begin, begin + bytes);
  in.erase(in.begin(), begin + bytes);
  return Parse::complete;
}

std::vector<Endpoint> resolve(const std::string& address) {
  const HostPort parts = split(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &list);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* one = error == 0 ? list : nullptr; one != nullptr; one = one->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, one->ai_addr, one->ai_addrlen);
    endpoint.bytes = one->ai_addrlen;
    endpoints.push_back(endpoint);
  }
  if (endpoints.empty()) {
    throw NameNotReady(BootstrapFailure::bad_address,
                       "Rendezvous " + address + ": host " + parts.host +
                           " is not known: " + (error != 0 ? ::gai_strerror(error) : "no address"));
  }
  return endpoints;
}

bool has_name(const std::string& address) { return !is_literal(split(address).host); }

std::string with_port(const std::string& address, std::string_view port) {
  return address.substr(0, address.rfind(':') + 1) + std::string(port);
}

std::string with_port(const std::string& address, std::uint16_t port) {
  return with_port(address, std::to_string(port));
}

std::uint16_t port_of(const Endpoint& endpoint) {
  Endpoint copy = endpoint;
  return ntohs(port_field(copy));
}

void set_port(Endpoint& endpoint, std::uint16_t port) { port_field(endpoint) = htons(port); }

std::string text_of(const Endpoint& endpoint) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(endpoint.get(), endpoint.bytes, host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "an address";
  }
  const std::string name = host.data();
  const bool is_v6 = endpoint.storage.ss_family == AF_INET6;
  return (is_v6 ? "[" + name + "]" : name) + ":" + std::to_string(port_of(endpoint));
}

Meeting parse_meeting(const std::string& text) {
  Meeting meeting;
  const std::size_t mark = text.find(kNonceMark);
  std::string_view list = std::string_view(text).substr(0, mark);
  if (mark != std::string::npos) {
    const char* const begin = text.data() + mark + 1;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(begin, end, meeting.nonce, 16);
    if (error != std::errc() || at != end || meeting.nonce == 0) {
      throw BootstrapError(BootstrapFailure::bad_address, "\"" + text + "\" is not a rendezvous");
    }
  }
  for (;;) {
    const std::size_t comma = list.find(',');
    meeting.addresses.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return meeting;
    list.remove_prefix(comma + 1);
  }
}

std::string text_of(const Meeting& meeting) {
  std::string text;
  for (const std::string& address : meeting.addresses) {
    text += (text.empty() ? "" : ",") + address;
  }
  if (meeting.nonce == 0) return text;
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), meeting.nonce, 16);
  return text + kNonceMark + std::string(digits.data(), end.ptr);
}

namespace {

// Returns a socket that listens, or none with the reason in `code`.
Descriptor listen_on(const Endpoint& endpoint, int& code) {
  Descriptor socket(
      ::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;  // lets a new job use the port of one that has just ended
  const int off = 0;
  if (socket && endpoint.storage.ss_family == AF_INET6) {
    static_cast<void>(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off));
  }
  if (socket && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      ::bind(socket.get(), endpoint.get(), endpoint.bytes) == 0 &&
      ::listen(socket.get(), SOMAXCONN) == 0) {
    return socket;
  }
  code = errno;
  return {};
}

// One IPv6 socket serves both families; without IPv6, the IPv4 socket serves.
std::vector<Endpoint> everywhere(std::string_view port) {
  std::vector<Endpoint> endpoints = resolve(with_port("[::]:0", port));
  endpoints.push_back(resolve(with_port("0.0.0.0:0", port)).front());
  return endpoints;
}

// True for a name with several addresses that other hosts use. Each of them may reach this host by
// a different one.
bool has_several(const std::string& address, const std::vector<Endpoint>& endpoints) {
  const bool leads_out = !std::ranges::all_of(endpoints, is_loopback);
  return has_name(address) && endpoints.size() > 1 && leads_out;
}

bool is_any_own(std::vector<Endpoint> endpoints) {
  return std::ranges::any_of(endpoints, [](Endpoint& endpoint) {
    int code = 0;
    set_port(endpoint, 0);
    return static_cast<bool>(listen_on(endpoint, code));
  });
}

// Waits for an own IPv6 address that is still tentative, which takes a second or two.
void await_own(const Endpoint& endpoint) {
  if (endpoint.storage.ss_family != AF_INET6) return;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(endpoint.storage);
  try {
    await_address("The rendezvous' address " + text_of(endpoint), v6.sin6_addr, v6.sin6_scope_id);
  } catch (const BootstrapError&) {
    throw;
  } catch (const Error& error) {
    throw BootstrapError(BootstrapFailure::bad_address, error.what());
  }
}

Descriptor listen_on_any(const std::vector<Endpoint>& endpoints, const std::string& address) {
  int code = 0;
  for (const Endpoint& endpoint : endpoints) {
    await_own(endpoint);
    int failed = 0;
    if (Descriptor socket = listen_on(endpoint, failed)) return socket;
    // A port in use says most, as the address is this host's. An address that is not this host's
    // says more than a family that the host lacks.
    const bool says_more = failed == EADDRINUSE || (failed == EADDRNOTAVAIL && code != EADDRINUSE);
    if (code == 0 || says_more) code = failed;
  }
  const std::string text = "The rendezvous can't listen at " + address;
  if (code == EADDRINUSE) {
    throw BootstrapError(BootstrapFailure::port_in_use, text + ": another program uses that port");
  }
  if (code == EADDRNOTAVAIL) {
    const std::string why = text + ": this host has no such address";
    if (has_name(address)) throw NameNotReady(BootstrapFailure::bad_address, why);
    throw BootstrapError(BootstrapFailure::bad_address, why);
  }
  throw BootstrapError(BootstrapFailure::bad_address, system_error(text, code).what());
}

Descriptor listen_now(const std::string& address) {
  std::vector<Endpoint> endpoints = resolve(address);
  const bool is_everywhere = is_loopback_here_alone(address, endpoints) ||
                             (has_several(address, endpoints) && is_any_own(endpoints));
  if (is_everywhere) endpoints = everywhere(split(address).port);
  return listen_on_any(endpoints, address);
}

}  // namespace

Descriptor listen_at(const std::string& address, std::uint32_t timeout_ms) {
  const proto::Time deadline = monotonic_now() + proto::milliseconds(timeout_ms);
  for (bool is_first = true;; is_first = false) {
    try {
      return listen_now(address);
    } catch (const NameNotReady& error) {
      if (monotonic_now() + proto::milliseconds(kAskAgainMs) > deadline) throw;
      if (is_first) log_warning(std::string(error.what()) + "; trying again");
    }
    ::poll(nullptr, 0, kAskAgainMs);
  }
}

Descriptor listen_everywhere() { return listen_on_any(everywhere("0"), "[::]:0"); }

std::uint16_t port_of(const Descriptor& socket) {
  Endpoint own;
  own.bytes = sizeof own.storage;
  if (::getsockname(socket.get(), own.get(), &own.bytes) != 0) {
    throw system_error("The rendezvous can't find out its port");
  }
  return port_of(own);
}

}  // namespace hawser::engine::bootstrap
