// SPDX-License-Identifier: Apache-2.0
// An endpoint's address as others get it: the long form, which has everything, and the short one
// (include/hawser/address.hpp).
//
//   long    AddressHead, then a NicRecord a NIC, in the byte order of the wire
//   short   "hs", u8 NICs, u64 endpoint_id, then for each NIC a u8 length and that many bytes of
//           its NicAddress, which end with the last that isn't 0
//
// What a short one leaves out of a NicRecord (ring, datagram, state) is what the peer's handshake
// says again, and nothing uses it before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/wire/layout.hpp"

namespace hawser::proto {

struct AddressHead {
  std::array<char, 8> magic{'H', 'W', 'S', 'R', 'A', 'D', 'R', '1'};
  std::uint64_t endpoint_id = 0;
  std::uint64_t epoch = 0;
  std::uint32_t nics = 0;
  std::uint32_t reserved = 0;
};

struct ParsedAddress {
  std::uint64_t endpoint_id = 0;
  bool is_short = false;  // and perhaps without some of the endpoint's NICs
  std::size_t nics = 0;
  std::array<wire::NicRecord, wire::kMaxNics> records{};
  [[nodiscard]] std::span<const wire::NicRecord> nic_records() const {
    return std::span(records).first(nics);
  }
};

// Of either form. False: it is none, and `parsed` is undefined.
[[nodiscard]] bool parse_address(std::span<const std::byte> bytes, ParsedAddress& parsed) noexcept;

}  // namespace hawser::proto
