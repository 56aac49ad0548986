// SPDX-License-Identifier: Apache-2.0
// An endpoint's address as a peer gets it. The long form is complete; the short form is not
// (include/hawser/address.hpp):
//
//   `long`   AddressHead, then a NicRecord per NIC, in the byte order of the wire.
//   `short`  "hs", u8 NICs, u64 endpoint_id; then per NIC a u8 length and that many bytes of its
//            NicAddress, without trailing zeros.
//
// The short form leaves out some fields of NicRecord (ring, datagram, state). The peer's handshake
// supplies them, and nothing uses them earlier.
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
  std::uint64_t epoch = 0;  // of the process that wrote it; a short one does not tell
  bool is_short = false;    // and perhaps lacks some of the endpoint's NICs
  std::size_t nics = 0;
  std::array<wire::NicRecord, wire::kMaxNics> records{};
  [[nodiscard]] std::span<const wire::NicRecord> nic_records() const {
    return std::span(records).first(nics);
  }
};

// Parses either form. False: it is neither, and `parsed` is undefined.
[[nodiscard]] bool parse_address(std::span<const std::byte> bytes, ParsedAddress& parsed) noexcept;

}  // namespace hawser::proto
