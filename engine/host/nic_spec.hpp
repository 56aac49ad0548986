// SPDX-License-Identifier: Apache-2.0
// Parses the string that names a NIC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hawser::engine {

struct NicSpec {
  enum class Driver : std::uint8_t { memory, udp, verbs };
  Driver driver = Driver::udp;
  std::string where;  // the address, the fabric's name, or the port of an RDMA device
};

// "udp:ADDRESS", "verbs:DEVICE[:PORT][@GID_INDEX]" or "memory:FABRIC". Throws hawser::Error.
[[nodiscard]] NicSpec parse_nic_spec(std::string_view text);

enum class Family : std::uint8_t { v4, v6 };
// "IPv4" or "IPv6".
[[nodiscard]] std::string_view to_string(Family family);
// The family of a UDP NIC's address. Nothing for other NICs: RDMA ports and fabrics in memory.
[[nodiscard]] std::optional<Family> family_of(std::string_view name);

}  // namespace hawser::engine
