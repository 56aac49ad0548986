// What this host has for EngineConfig::nics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser {

struct HostNic {
  std::string name;    // as in EngineConfig::nics: "udp:10.0.0.1", "verbs:mlx5_0:1"
  std::string device;  // "eth0", "mlx5_0"
  bool up = false;     // can be used
  bool loopback = false;
  std::uint32_t mtu = 0;              // bytes; 0: not known
  std::uint64_t bits_per_second = 0;  // of the link; 0: not known
};

// Every address of this host that a UDP NIC may use, loopback last, and every port of an RDMA
// device, these first. IPv6 link-local addresses are left out. Asks the system, and may block.
[[nodiscard]] std::vector<HostNic> host_nics();

// The names of those that one would use together, in the order of host_nics(): the RDMA ports that
// are up; where there are none, one address (IPv4, if there is one) of each network device that is
// up; where there is only loopback, that. At most 16.
[[nodiscard]] std::vector<std::string> usable_nics();

}  // namespace hawser
