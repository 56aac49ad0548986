// One port of an RDMA device, opened: context, protection domain, and what the port says of itself.
#pragma once

#include <cstdint>
#include <string>

#include "engine/driver/verbs.hpp"
#include "engine/driver/verbs_gid.hpp"
#include "engine/driver/verbs_handles.hpp"

namespace hawser::engine {

struct VerbsPort {
  std::string name;  // "verbs:mlx5_0", for people
  VerbsContext context;
  VerbsDomain domain;
  std::uint8_t number = 1;
  VerbsAddress::Link link = VerbsAddress::Link::ethernet;
  std::uint16_t lid = 0;
  GidEntry gid{};
  std::uint32_t mtu_bytes = 0;         // of a datagram, without GRH
  std::uint64_t link_bytes_per_s = 0;  // 0: unknown
};

// Throws Error, with what to do.
[[nodiscard]] VerbsPort open_verbs_port(const VerbsPortName& name);

}  // namespace hawser::engine
