// SPDX-License-Identifier: Apache-2.0
// Makes the strings that name one NIC, and takes them apart. Nothing else in the engine, the tool
// or the plugins knows how long a kind's word is, or where the colons are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hawser/nics.hpp"

namespace hawser::engine {

struct NicSpec {
  enum class Driver : std::uint8_t { memory, udp, verbs };
  Driver driver = Driver::udp;
  std::string where;  // the address, the fabric's name, or the port of an RDMA device
};

// "udp:ADDRESS", "verbs:DEVICE[:PORT][@GID_INDEX]" or "memory:FABRIC". Throws hawser::Error.
[[nodiscard]] NicSpec parse_nic_spec(std::string_view text);

// The name of a NIC of this kind, as in "udp:10.0.0.1".
[[nodiscard]] std::string udp_name(std::string_view address);
[[nodiscard]] std::string verbs_name(std::string_view port);

[[nodiscard]] bool is_udp_name(std::string_view name);
[[nodiscard]] bool is_verbs_name(std::string_view name);

// The address of a UDP NIC, apart from the interface that a link-local one names: "fe80::1" and
// "eth0" of "udp:fe80::1%eth0". Both are empty for other NICs.
struct UdpPlace {
  std::string_view address;
  std::string_view interface;  // empty: none
};
[[nodiscard]] UdpPlace udp_place(std::string_view name);

// The device of an RDMA port, "mlx5_0" of "verbs:mlx5_0:1@3". Empty for other NICs.
[[nodiscard]] std::string_view verbs_device(std::string_view name);

enum class Family : std::uint8_t { v4, v6 };
// "IPv4" or "IPv6".
[[nodiscard]] std::string_view to_string(Family family);
// The family of a UDP NIC's address. Nothing for other NICs: RDMA ports and fabrics in memory.
[[nodiscard]] std::optional<Family> family_of(std::string_view name);

}  // namespace hawser::engine
