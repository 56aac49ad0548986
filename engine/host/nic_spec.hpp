// SPDX-License-Identifier: Apache-2.0
// Parses the string that names a NIC.
#pragma once

#include <cstdint>
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

}  // namespace hawser::engine
