// SPDX-License-Identifier: Apache-2.0
// The NICs of the machine that the fuzzers run on: always the same ones, of every kind.
#include "hawser/nics.hpp"

namespace hawser {

std::vector<HostNic> host_nics() {
  return {
      {.name = "verbs:mlx5_0:1", .device = "mlx5_0", .up = true, .mtu = 4096},
      {.name = "verbs:mlx5_1:1", .device = "mlx5_1", .obstacle = "its link is down"},
      {.name = "udp:10.1.0.1", .device = "eth0", .up = true, .mtu = 1500},
      {.name = "udp:fd00::1", .device = "eth0", .up = true, .mtu = 1500},
      {.name = "udp:10.2.0.1", .device = "eth1", .up = true, .mtu = 9000},
      {.name = "udp:fd00:2::1",
       .device = "eth2",
       .up = true,
       .mtu = 9000,
       .address_state = AddressState::tentative},
      {.name = "udp:172.17.0.1", .device = "docker0", .up = true, .mtu = 1500},
      {.name = "udp:127.0.0.1", .device = "lo", .up = true, .loopback = true, .mtu = 65536},
  };
}

}  // namespace hawser
