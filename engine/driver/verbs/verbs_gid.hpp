// SPDX-License-Identifier: Apache-2.0
// Which of a port's GIDs a NIC uses. People should not have to know: on RoCE the table has several
// (each address of the interface, each once per RoCE version), and the wrong one reaches nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/driver/verbs/verbs_address.hpp"

namespace hawser::engine {

struct GidEntry {
  enum class Kind : std::uint8_t { infiniband, roce_v1, roce_v2 };
  std::uint32_t index = 0;
  Kind kind = Kind::roce_v2;
  Gid gid{};
};

// "RoCE v2, IPv4" and the like, for people.
[[nodiscard]] std::string_view description_of(const GidEntry& entry);

// An address handle has a byte for the index; what lies behind can't be used.
inline constexpr std::uint32_t kMaxGidIndex = 255;

// RoCE v2 before all: it is routed, and its UDP source port spreads paths. Among those IPv4, as
// every fabric carries it, before routable IPv6, before link-local; the lowest index of equals.
// RoCE v1 only reaches its own Ethernet segment and is never chosen. Nothing if none is left.
[[nodiscard]] std::optional<GidEntry> choose_gid(std::span<const GidEntry> table);

// What a NIC that uses `present` uses after the table has changed: the same GID for as long as it
// is there, wherever it lies, even if a better one has come, as who moves needlessly is away for a
// moment at every peer. Else the best of the same sort (InfiniBand; RoCE v2 over IPv4, over
// routable IPv6, over link-local), as the peers' NICs can't be addressed from another one, and
// addresses of a link that comes up may follow it. Nothing if there is none.
[[nodiscard]] std::optional<GidEntry> choose_gid_again(std::span<const GidEntry> table,
                                                       const GidEntry& present);

}  // namespace hawser::engine
