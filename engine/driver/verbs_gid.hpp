// Which of a port's GIDs a NIC uses. People should not have to know: on RoCE the table has several
// (each address of the interface, each once per RoCE version), and the wrong one reaches nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/driver/verbs_address.hpp"

namespace hawser::engine {

struct GidEntry {
  enum class Kind : std::uint8_t { infiniband, roce_v1, roce_v2 };
  std::uint32_t index = 0;
  Kind kind = Kind::roce_v2;
  Gid gid{};
};

// "RoCE v2, IPv4" and the like, for people.
[[nodiscard]] std::string_view description_of(const GidEntry& entry);

// RoCE v2 before all: it is routed, and its UDP source port spreads paths. Among those IPv4, as
// every fabric carries it, before routable IPv6, before link-local; the lowest index of equals.
// RoCE v1 only reaches its own Ethernet segment and is never chosen. Nothing if none is left.
[[nodiscard]] std::optional<GidEntry> choose_gid(std::span<const GidEntry> table);

}  // namespace hawser::engine
