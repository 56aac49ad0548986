// SPDX-License-Identifier: Apache-2.0
// Addresses as programs have them, in one of libfabric's formats, and as the provider keeps them.
//
// An address has 56 bytes. It is either an endpoint's own:
//
//   0        1                  length + 1        56
//   +--------+------------------+------------------+
//   | length | short address    | zeros            |     length: 1 to 55 (hawser/address.hpp)
//   +--------+------------------+------------------+
//
// or the port name of one that has to be asked for it:
//
//   0      1        2      4                20       24      56
//   +------+--------+------+----------------+--------+--------+
//   | 0xff | 4 or 6 | port | IP address     | scope  | zeros  |     in network order
//   +------+--------+------+----------------+--------+--------+
//
// or a source, that only an fi_info has. It says which domain and port an endpoint will have:
//
//   0   1                               54     56
//   +---+-------------------------------+------+
//   | 0 | name of the domain, zeros     | port |
//   +---+-------------------------------+------+
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugin/ofi/info.hpp"
#include "plugin/ofi/port_name.hpp"

namespace hawser::ofi {

using AddressBytes = std::array<std::byte, kAddressBytes>;

// False: not even one NIC fits.
[[nodiscard]] bool pack_address(std::span<const std::byte> address, AddressBytes& out);
// The short address in it; empty if it is none.
[[nodiscard]] std::span<const std::byte> unpack_address(const AddressBytes& bytes);
[[nodiscard]] AddressBytes pack_name(const PortName& name);
// None: it isn't the name of somebody who can be asked.
[[nodiscard]] std::optional<PortName> unpack_name(const AddressBytes& bytes);

// Formats are those of fi_info::addr_format: FI_FORMAT_UNSPEC (ours), FI_SOCKADDR_IN,
// FI_SOCKADDR_IN6 or FI_ADDR_STR.
[[nodiscard]] bool is_known_format(std::uint32_t format);
[[nodiscard]] bool is_socket_format(std::uint32_t format);
// AF_UNSPEC: both families do.
[[nodiscard]] int family_of(std::uint32_t format);
// The length of an address of this format. Strings may have any.
[[nodiscard]] std::size_t least_bytes(std::uint32_t format);
// From one element of an array to the next, as fi_av_insert takes it. Strings are pointed to.
[[nodiscard]] std::size_t element_bytes(std::uint32_t format);

// None: it is no address that can be connected to or asked.
[[nodiscard]] std::optional<AddressBytes> read_address(std::uint32_t format, const void* address);
// The element `at` of an array. Null strings are none.
[[nodiscard]] std::optional<AddressBytes> read_element(std::uint32_t format, const void* array,
                                                       std::size_t at);
// Empty: the format has no words for it.
[[nodiscard]] std::vector<std::byte> write_address(std::uint32_t format,
                                                   const AddressBytes& address);
// The same of a port name, also of one that nobody can be asked at.
[[nodiscard]] std::vector<std::byte> write_name(std::uint32_t format, const PortName& name);
// For people, and for FI_ADDR_STR: "hawser://ID/HEX", "fi_sockaddr_in://127.0.0.1:9228".
[[nodiscard]] std::string to_string(const AddressBytes& address);
[[nodiscard]] std::optional<AddressBytes> from_string(const char* text);

struct Source {
  std::string domain{};  // "": any
  PortName at{};         // where an endpoint is asked; port 0: nowhere, or at a port of ours
  [[nodiscard]] bool is_of(const std::string& name) const;
};
[[nodiscard]] std::vector<std::byte> write_source(std::uint32_t format, const Source& source);
// None: it is no source in this format.
[[nodiscard]] std::optional<Source> read_source(std::uint32_t format, const void* address,
                                                std::size_t bytes);

}  // namespace hawser::ofi
