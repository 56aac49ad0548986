// SPDX-License-Identifier: Apache-2.0
// Addresses in libfabric's formats, as programs have them, and in the provider's own format.
//
// The provider's addresses have 56 bytes. Each is either an endpoint's own:
//
//   0        1                  length + 1        56
//   +--------+------------------+------------------+
//   | length | short address    | zeros            |     length: 1 to 55 (hawser/address.hpp)
//   +--------+------------------+------------------+
//
// or the port name of an endpoint that must be asked for its address:
//
//   0      1        2      4                20       24      56
//   +------+--------+------+----------------+--------+--------+
//   | 0xff | 4 or 6 | port | IP address     | scope  | zeros  |     in network order
//   +------+--------+------+----------------+--------+--------+
//
// or a source, which occurs only in an fi_info. It says which domain and port an endpoint will
// have:
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

// Returns false if not even one NIC fits.
[[nodiscard]] bool pack_address(std::span<const std::byte> address, AddressBytes& out);
// Returns the short address in it; empty if it isn't an endpoint's own address.
[[nodiscard]] std::span<const std::byte> unpack_address(const AddressBytes& bytes);
[[nodiscard]] AddressBytes pack_name(const PortName& name);
// Returns none if it isn't the name of an endpoint that can be asked.
[[nodiscard]] std::optional<PortName> unpack_name(const AddressBytes& bytes);

// Formats are those of fi_info::addr_format: FI_FORMAT_UNSPEC (the provider's own), FI_SOCKADDR_IN,
// FI_SOCKADDR_IN6 or FI_ADDR_STR.
[[nodiscard]] bool is_known_format(std::uint32_t format);
[[nodiscard]] bool is_socket_format(std::uint32_t format);
// The address family; AF_UNSPEC if the format allows both.
[[nodiscard]] int family_of(std::uint32_t format);
// The least length of an address of this format. Strings may have any length.
[[nodiscard]] std::size_t least_bytes(std::uint32_t format);
// Distance between two elements of an array, as fi_av_insert takes it. An array of strings holds
// pointers.
[[nodiscard]] std::size_t element_bytes(std::uint32_t format);

// Returns none if it isn't an address that can be connected to or asked.
[[nodiscard]] std::optional<AddressBytes> read_address(std::uint32_t format, const void* address);
// Reads the element `at` of an array. A null string is none.
[[nodiscard]] std::optional<AddressBytes> read_element(std::uint32_t format, const void* array,
                                                       std::size_t at);
// Returns an empty vector if the format can't express the address.
[[nodiscard]] std::vector<std::byte> write_address(std::uint32_t format,
                                                   const AddressBytes& address);
// The same for a port name, even one at which no endpoint can be asked.
[[nodiscard]] std::vector<std::byte> write_name(std::uint32_t format, const PortName& name);
// For people, and for FI_ADDR_STR: "hawser://ID/HEX" or "fi_sockaddr_in://127.0.0.1:9228".
[[nodiscard]] std::string to_string(const AddressBytes& address);
[[nodiscard]] std::optional<AddressBytes> from_string(const char* text);

struct Source {
  std::string domain{};  // "": any
  PortName at{};         // where an endpoint is asked; port 0: nowhere, or our choice
  [[nodiscard]] bool is_of(const std::string& name) const;
};
[[nodiscard]] std::vector<std::byte> write_source(std::uint32_t format, const Source& source);
// Returns none if it isn't a source in this format.
[[nodiscard]] std::optional<Source> read_source(std::uint32_t format, const void* address,
                                                std::size_t bytes);

}  // namespace hawser::ofi
