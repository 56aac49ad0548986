// SPDX-License-Identifier: Apache-2.0
// The properties of a device of the double. All may be changed while it is open (Fabric::change).
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hawser::test::fake {

using Gid = std::array<std::byte, 16>;

// Parses "10.0.0.1", which gives a GID as RoCE writes it, or an IPv6 address.
[[nodiscard]] Gid gid_of(const char* address);

struct GidRow {
  std::uint32_t index = 0;
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
  Gid gid{};
};

struct PortSettings {
  ibv_port_state state = IBV_PORT_ACTIVE;
  bool infiniband = false;
  bool has_link_layer = true;  // false: unspecified, as on EFA
  std::uint16_t lid = 0;
  std::uint16_t pkey = 0xffff;
  std::uint8_t mtu = IBV_MTU_4096;  // a code of ibv_mtu, or any number that a device might give
  std::uint8_t speed = 32;          // 25 Gb/s a lane
  std::uint8_t width = 2;           // 4 lanes
  std::vector<GidRow> gids{};
};

// The fate of a send while its port is down. Real devices differ and do all three.
enum class WhenDown : std::uint8_t {
  fails,   // the queue pair goes to the error state
  loses,   // the send completes with success
  stalls,  // the send waits for the port
};

struct DeviceSettings {
  std::string name{};
  std::vector<PortSettings> ports{};  // port 1 first
  std::uint32_t max_inline_bytes = 256;
  WhenDown when_down = WhenDown::fails;
  // A failed send stops only the sending side (the specification's SQE state), not the pair.
  bool errors_stop_sends_only = false;
  // A reset takes the pair's completions out of the completion queues (as mlx5 does; rxe doesn't).
  bool reset_cleans = true;
  // Whether poll_cq returns -1 for a completion queue that has overrun. Otherwise it seems empty.
  bool dead_queues_say_so = false;
  // RoCE over IPv4 leaves arbitrary bytes in the 20 bytes before the IP header; the double these.
  std::byte grh_filler{0};
  // The longest memory that can be registered; 0 if the device doesn't say.
  std::uint64_t max_memory_bytes = std::uint64_t{1} << 40;
  // Memory of other devices can be registered. Any descriptor passes for a dma-buf.
  bool takes_dmabufs = false;
  // Offers ibv_create_qp_ex and ibv_create_cq_ex.
  bool extended = false;
  std::uint32_t vendor_id = 0;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
};

}  // namespace hawser::test::fake
