// SPDX-License-Identifier: Apache-2.0
// The interface of the verbs driver, the same in builds with and without libibverbs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/nic.hpp"

namespace hawser::engine {

// A port of an RDMA device, as people name it: DEVICE[:PORT][@GID_INDEX], e.g. mlx5_0, mlx5_0:2@3.
struct VerbsPortName {
  friend bool operator==(const VerbsPortName&, const VerbsPortName&) = default;
  std::string device;
  std::uint8_t port = 1;
  std::optional<std::uint32_t> gid_index{};  // empty: chosen by verbs_gid.hpp
};

// Parses such a name. Throws Error.
[[nodiscard]] VerbsPortName parse_verbs_port(std::string_view text);
[[nodiscard]] std::string to_string(const VerbsPortName& name);

struct VerbsNicConfig {
  VerbsPortName port;
  // QKey of this NIC's queue pairs, below 2^31. The device drops datagrams with another one, and
  // strangers don't know a random one.
  std::uint32_t qkey = 0;
  std::uint64_t receive_bytes = 4 * 1024 * 1024;  // total of full datagrams in the data ring
  std::uint32_t datagram_bytes = 4096;            // size of a full packet, for caps().receive_bytes
  std::uint32_t send_slots = 1024;                // sends per queue between tx_burst and reap
  std::uint32_t max_remotes = 256;
  std::uint32_t max_regions = 1024;  // registered regions in use at once
  std::uint16_t entropies = 8;       // flow labels per remote, on RoCE
  std::uint8_t traffic_class = 0;    // on RoCE; its low two bits belong to ECN and are 0 or 2
  std::uint8_t service_level = 0;    // 0 to 15
  // The longest time that a NIC which fails repeatedly is kept down (verbs_damping.hpp); 0: none.
  // `clock` measures it. Only one thread of the driver calls `clock`.
  std::chrono::milliseconds longest_hold{2500};
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

// Opens the port and makes the NIC. `pool` outlives it. Throws Error: no such device, no
// permission, too little lockable memory, no GID, port down, or a build without libibverbs.
[[nodiscard]] std::unique_ptr<proto::Nic> open_verbs_nic(const VerbsNicConfig& config,
                                                         proto::PacketPool& pool);

// A port as `hawser info` describes it.
struct VerbsPortInfo {
  std::string name;  // as in VerbsPortName
  // State, speed, MTU, the GID that would be used, LID and P_Key; or why the port can't be used.
  std::string description{};
  bool usable = false;
  // Datagrams refused since the device exists, for all its users, up to 65535.
  std::uint32_t pkey_violations = 0;
  bool roce = false;  // of a usable port; false: InfiniBand
};
// Opens the port and closes it again. In a build without libibverbs the description says so.
[[nodiscard]] VerbsPortInfo verbs_port(const VerbsPortName& name);
// All ports, without GID index. Empty without devices, and in a build without libibverbs. If the
// ports can't be listed, the only entry is `*`, which is unusable and says why.
[[nodiscard]] std::vector<VerbsPortInfo> verbs_ports();

// Explains in half a sentence why no verbs NIC can send with these values; empty if one can.
[[nodiscard]] std::string complaint_about_marks(std::uint64_t traffic_class,
                                                std::uint64_t service_level);

// The UDP source ports of RoCE packets to a remote, one per entropy. Switches and bonds spread
// packets by them. They apply to devices whose driver derives the port from the flow label (soft
// RoCE doesn't). Empty in a build without libibverbs.
[[nodiscard]] std::vector<std::uint16_t> roce_source_ports();

// True if this build has libibverbs.
[[nodiscard]] bool has_verbs() noexcept;

// True if, after a fork, the device keeps the pages that the parent writes to, and the child has
// all of its memory. Otherwise a process with registered memory must not fork.
[[nodiscard]] bool registered_memory_survives_fork() noexcept;

}  // namespace hawser::engine
