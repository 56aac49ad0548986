// SPDX-License-Identifier: Apache-2.0
// Chooses which of a port's GIDs a NIC uses, so that users need not know. On RoCE the table has
// several (each address of the interface, once per RoCE version), and a wrong one reaches nobody.
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

// An address handle has one byte for the index, so GIDs with a higher one can't be used.
inline constexpr std::uint32_t kMaxGidIndex = 255;

// Prefers RoCE v2, which is routed and whose UDP source port spreads paths. Among those it prefers
// IPv4, which every fabric carries, then routable IPv6, then link-local, then the lowest index.
// RoCE v1 reaches only its own Ethernet segment and is never chosen. Returns nothing if no GID is
// left.
[[nodiscard]] std::optional<GidEntry> choose_gid(std::span<const GidEntry> table);

// Chooses after the table has changed, for a NIC that uses `present`. It keeps that GID as long as
// it exists, at any index and even if a better one has come. A needless move would make the NIC
// briefly unreachable for every peer. Otherwise it takes the best GID of the same sort (InfiniBand;
// RoCE v2 over IPv4, over routable IPv6, over link-local). The peers' NICs can't be addressed from
// another sort, and addresses of that sort may still appear on a link that is coming up. Returns
// nothing if there is none.
[[nodiscard]] std::optional<GidEntry> choose_gid_again(std::span<const GidEntry> table,
                                                       const GidEntry& present);

}  // namespace hawser::engine
