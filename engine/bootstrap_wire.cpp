#include "engine/bootstrap_wire.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "engine/system_error.hpp"

namespace hawser::engine::bootstrap {
namespace {

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
      parts.host.clear();  // an IPv6 address without brackets: where would its port begin?
    }
  }
  std::uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), port);
  if (parts.host.empty() || error != std::errc() || end != parts.port.data() + parts.port.size()) {
    throw BootstrapError(BootstrapFailure::bad_address,
                         "\"" + address + "\" is no rendezvous: write HOST:PORT or [IPV6]:PORT");
  }
  return parts;
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(endpoint.storage);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(endpoint.storage);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

bool is_literal(const std::string& host) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

}  // namespace

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
    throw HostUnknown(BootstrapFailure::bad_address,
                      "Rendezvous " + address + ": host " + parts.host +
                          " is not known: " + (error != 0 ? ::gai_strerror(error) : "no address"));
  }
  return endpoints;
}

std::string with_port(const std::string& address, std::string_view port) {
  return address.substr(0, address.rfind(':') + 1) + std::string(port);
}

std::string with_port(const std::string& address, std::uint16_t port) {
  return with_port(address, std::to_string(port));
}

Descriptor listen_at(const std::string& address) {
  int code = 0;
  std::vector<Endpoint> endpoints = resolve(address);
  if (is_loopback_here_alone(address, endpoints)) {
    // One socket of IPv6 serves both families; without IPv6, the other one does.
    endpoints = resolve(with_port("[::]:0", split(address).port));
    endpoints.push_back(resolve(with_port("0.0.0.0:0", split(address).port)).front());
  }
  for (const Endpoint& endpoint : endpoints) {
    Descriptor socket(
        ::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;  // a port whose last job has just ended is free
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
  }
  const std::string text = "The rendezvous can't listen at " + address;
  if (code == EADDRINUSE) {
    throw BootstrapError(BootstrapFailure::port_in_use, text + ": another program has that port");
  }
  if (code == EADDRNOTAVAIL) {
    throw BootstrapError(BootstrapFailure::bad_address, text + ": this host has no such address");
  }
  throw BootstrapError(BootstrapFailure::bad_address, system_error(text, code).what());
}

std::uint16_t port_of(const Descriptor& socket) {
  Endpoint own;
  own.bytes = sizeof own.storage;
  if (::getsockname(socket.get(), own.get(), &own.bytes) != 0) {
    throw system_error("The rendezvous doesn't know its port");
  }
  return ntohs(own.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&own.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
}

}  // namespace hawser::engine::bootstrap
