// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/address_format.hpp"

#include <rdma/fabric.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "hawser/address.hpp"
#include "plugin/ofi/provider.hpp"

namespace hawser::ofi {
namespace {

constexpr std::byte kNameMark{0xff};
constexpr std::size_t kFamilyAt = 1;
constexpr std::size_t kPortAt = 2;
constexpr std::size_t kIpAt = 4;
constexpr std::size_t kScopeAt = 20;
constexpr std::size_t kNameEnd = 24;
constexpr std::byte kV4{4};
constexpr std::byte kV6{6};
constexpr std::size_t kSourcePortAt = 54;
constexpr std::size_t kMostDomain = kSourcePortAt - 2;  // a zero follows it
constexpr std::string_view kOwnScheme = "hawser://";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr unsigned kHexBits = 4;

template <class Number>
void put(Number number, std::span<std::byte> out) {
  for (std::size_t i = sizeof number; i-- > 0; number >>= 8) {
    out[i] = static_cast<std::byte>(number & 0xff);
  }
}

template <class Number>
Number get(std::span<const std::byte> in) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number = number << 8 | std::to_integer<std::uint64_t>(in[i]);
  }
  return static_cast<Number>(number);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

template <class Bytes>
std::vector<std::byte> as_vector(const Bytes& bytes) {
  const auto span = std::as_bytes(std::span(bytes));
  return {span.begin(), span.end()};
}

std::vector<std::byte> string_bytes(const std::string& text) {
  return as_vector(std::span(text.c_str(), text.size() + 1));
}

std::vector<std::byte> socket_bytes(const PortName& name) {
  const SocketAddress socket = to_socket(name);
  return as_vector(std::span(reinterpret_cast<const char*>(&socket.storage), socket.length));
}

bool fits(std::uint32_t format, const PortName& name) {
  const int family = family_of(format);
  return family == AF_UNSPEC || family == name.family();
}

std::optional<AddressBytes> checked_name(const std::optional<PortName>& name) {
  if (!name || !name->can_be_asked()) return std::nullopt;
  return pack_name(*name);
}

// Parses "ID/HEX" of an endpoint's own address.
std::optional<AddressBytes> from_hex(std::string_view text) {
  AddressBytes bytes{};
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + slash, id);
  if (error != std::errc() || end != text.data() + slash) return std::nullopt;
  const std::string_view hex = text.substr(slash + 1);
  if (hex.size() % 2 != 0 || hex.size() / 2 >= bytes.size()) return std::nullopt;
  bytes[0] = static_cast<std::byte>(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t digit = kHexDigits.find(hex[i]);
    if (digit == kHexDigits.npos) return std::nullopt;
    std::byte& byte = bytes[1 + i / 2];
    byte = byte << kHexBits | static_cast<std::byte>(digit);
  }
  const auto address = unpack_address(bytes);
  if (address.empty() || endpoint_id_of(address) != id) return std::nullopt;
  return bytes;
}

}  // namespace

bool pack_address(std::span<const std::byte> address, AddressBytes& out) {
  out.fill(std::byte{0});
  const std::size_t length = shorten_address(address, std::span(out).subspan(1));
  out[0] = static_cast<std::byte>(length);
  return length > 0;
}

std::span<const std::byte> unpack_address(const AddressBytes& bytes) {
  const auto length = std::to_integer<std::size_t>(bytes[0]);
  if (length == 0 || length >= bytes.size()) return {};
  if (!all_zero(std::span(bytes).subspan(1 + length))) return {};
  const auto address = std::span(bytes).subspan(1, length);
  return endpoint_id_of(address) != 0 ? address : std::span<const std::byte>{};
}

AddressBytes pack_name(const PortName& name) {
  AddressBytes bytes{};
  bytes[0] = kNameMark;
  bytes[kFamilyAt] = name.is_v6 ? kV6 : kV4;
  put(name.port, std::span(bytes).subspan(kPortAt));
  std::ranges::copy(name.ip, bytes.begin() + kIpAt);
  put(name.scope, std::span(bytes).subspan(kScopeAt));
  return bytes;
}

std::optional<PortName> unpack_name(const AddressBytes& bytes) {
  PortName name;
  name.is_v6 = bytes[kFamilyAt] == kV6;
  if (bytes[0] != kNameMark || (!name.is_v6 && bytes[kFamilyAt] != kV4)) return std::nullopt;
  name.port = get<std::uint16_t>(std::span(bytes).subspan(kPortAt));
  std::copy_n(bytes.begin() + kIpAt, name.ip.size(), name.ip.begin());
  name.scope = get<std::uint32_t>(std::span(bytes).subspan(kScopeAt));
  if (!all_zero(std::span(bytes).subspan(kNameEnd))) return std::nullopt;
  if (!name.is_v6 && (!all_zero(std::span(name.ip).subspan(4)) || name.scope != 0)) {
    return std::nullopt;
  }
  if (!name.can_be_asked()) return std::nullopt;
  return name;
}

bool is_known_format(std::uint32_t format) {
  return format == FI_FORMAT_UNSPEC || format == FI_ADDR_STR || is_socket_format(format);
}

bool is_socket_format(std::uint32_t format) {
  return format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

int family_of(std::uint32_t format) {
  if (format == FI_SOCKADDR_IN) return AF_INET;
  return format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_UNSPEC;
}

std::size_t least_bytes(std::uint32_t format) {
  return format == FI_ADDR_STR ? 1 : element_bytes(format);
}

std::size_t element_bytes(std::uint32_t format) {
  if (format == FI_SOCKADDR_IN) return sizeof(sockaddr_in);
  if (format == FI_SOCKADDR_IN6) return sizeof(sockaddr_in6);
  return format == FI_ADDR_STR ? sizeof(const char*) : kAddressBytes;
}

std::optional<AddressBytes> read_address(std::uint32_t format, const void* address) {
  if (address == nullptr) return std::nullopt;
  if (format == FI_ADDR_STR) return from_string(static_cast<const char*>(address));
  if (is_socket_format(format)) {
    const auto name = from_socket(address, element_bytes(format));
    return name && fits(format, *name) ? checked_name(name) : std::nullopt;
  }
  AddressBytes bytes;
  std::memcpy(bytes.data(), address, bytes.size());
  if (unpack_address(bytes).empty() && !unpack_name(bytes)) return std::nullopt;
  return bytes;
}

std::optional<AddressBytes> read_element(std::uint32_t format, const void* array, std::size_t at) {
  const auto* const element = static_cast<const std::byte*>(array) + at * element_bytes(format);
  if (format != FI_ADDR_STR) return read_address(format, element);
  const char* text = nullptr;
  std::memcpy(&text, element, sizeof text);
  return read_address(format, text);
}

std::vector<std::byte> write_address(std::uint32_t format, const AddressBytes& address) {
  if (format == FI_ADDR_STR) return string_bytes(to_string(address));
  if (!is_socket_format(format)) return as_vector(address);
  const std::optional<PortName> name = unpack_name(address);
  return name && fits(format, *name) ? socket_bytes(*name) : std::vector<std::byte>{};
}

std::vector<std::byte> write_name(std::uint32_t format, const PortName& name) {
  if (format == FI_ADDR_STR) return string_bytes(to_uri(name));
  return is_socket_format(format) ? socket_bytes(name) : as_vector(pack_name(name));
}

std::string to_string(const AddressBytes& address) {
  if (const std::optional<PortName> name = unpack_name(address)) return to_uri(*name);
  const auto own = unpack_address(address);
  std::string text = std::string(kOwnScheme) + std::to_string(endpoint_id_of(own)) + "/";
  for (const std::byte byte : own) {
    text += kHexDigits[std::to_integer<unsigned>(byte >> kHexBits)];
    text += kHexDigits[std::to_integer<unsigned>(byte & std::byte{0xf})];
  }
  return text;
}

std::optional<AddressBytes> from_string(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  if (view.starts_with(kOwnScheme)) return from_hex(view.substr(kOwnScheme.size()));
  return checked_name(from_uri(view));
}

bool Source::is_of(const std::string& name) const {
  return domain.empty() || domain == name.substr(0, kMostDomain);
}

std::vector<std::byte> write_source(std::uint32_t format, const Source& source) {
  if (format == FI_ADDR_STR) return string_bytes(to_uri(source.at));
  if (is_socket_format(format)) return socket_bytes(source.at);
  AddressBytes bytes{};
  std::memcpy(bytes.data() + 1, source.domain.data(), std::min(source.domain.size(), kMostDomain));
  put(source.at.port, std::span(bytes).subspan(kSourcePortAt));
  return as_vector(bytes);
}

std::optional<Source> read_source(std::uint32_t format, const void* address, std::size_t bytes) {
  if (address == nullptr) return std::nullopt;
  Source source;
  if (format == FI_FORMAT_UNSPEC) {
    AddressBytes packed{};
    if (bytes != packed.size()) return std::nullopt;
    std::memcpy(packed.data(), address, packed.size());
    const auto* const domain = reinterpret_cast<const char*>(packed.data() + 1);
    if (packed[0] != std::byte{0} || domain[kMostDomain] != '\0') return std::nullopt;
    source.domain = domain;
    if (const std::optional<PortName> nic = of_nic(source.domain)) source.at = *nic;
    source.at.port = get<std::uint16_t>(std::span(packed).subspan(kSourcePortAt));
    return source;
  }
  const auto* const text = static_cast<const char*>(address);
  const std::optional<PortName> name = format == FI_ADDR_STR
                                           ? from_uri({text, ::strnlen(text, bytes)})
                                           : from_socket(address, bytes);
  if (!name || !fits(format, *name)) return std::nullopt;
  source.at = *name;
  return source;
}

}  // namespace hawser::ofi
