// SPDX-License-Identifier: Apache-2.0
// Verbs as the rest of the engine sees them, whether this build has libibverbs or not.
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
  std::optional<std::uint32_t> gid_index{};  // else chosen: see verbs_gid.hpp
};

// Throws Error.
[[nodiscard]] VerbsPortName parse_verbs_port(std::string_view text);
[[nodiscard]] std::string to_string(const VerbsPortName& name);

struct VerbsNicConfig {
  VerbsPortName port;
  // Of this NIC's queue pairs: datagrams with another one are dropped by the device. Strangers
  // don't know it if it is random. Below 2^31.
  std::uint32_t qkey = 0;
  std::uint64_t receive_bytes = 4 * 1024 * 1024;  // of full datagrams, in the data ring
  std::uint32_t datagram_bytes = 4096;            // of a full packet, to tell caps().receive_bytes
  std::uint32_t send_slots = 1024;                // sends of a queue between tx_burst and reap
  std::uint32_t max_remotes = 256;
  std::uint32_t max_regions = 1024;  // of registered memory in use
  std::uint16_t entropies = 8;       // flow labels to each remote, on RoCE
  std::uint8_t traffic_class = 0;    // on RoCE; its low two bits are ECN's, and 0 or 2
  std::uint8_t service_level = 0;    // 0 to 15
  // For how long the NIC is kept down at most if it fails again and again (verbs_damping.hpp), by
  // this clock, which one thread of the driver's own asks; 0: for no time.
  std::chrono::milliseconds longest_hold{2500};
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

// Opens the port and makes the NIC. `pool` outlives it. Throws Error: no such device, no
// permission, too little lockable memory, no GID, port down; or a build without libibverbs.
[[nodiscard]] std::unique_ptr<proto::Nic> open_verbs_nic(const VerbsNicConfig& config,
                                                         proto::PacketPool& pool);

// What `hawser info` says of one port.
struct VerbsPortInfo {
  std::string name;  // as in VerbsPortName
  // State, speed, MTU, the GID that would be used, LID and P_Key; or why it can't be used.
  std::string description{};
  bool usable = false;
  // Datagrams turned away since the device is there, of all its users, up to 65535.
  std::uint32_t pkey_violations = 0;
  bool roce = false;  // of a usable one: else InfiniBand
};
// Opens the port, and closes it again. A build without libibverbs says so.
[[nodiscard]] VerbsPortInfo verbs_port(const VerbsPortName& name);
// All, without GID index. Empty without devices, and in a build without libibverbs. If they can't
// be listed, one that can't be used, `*`, says why.
[[nodiscard]] std::vector<VerbsPortInfo> verbs_ports();

// Why no verbs NIC sends with these, in half a sentence; empty if one does.
[[nodiscard]] std::string complaint_about_marks(std::uint64_t traffic_class,
                                                std::uint64_t service_level);

// The UDP source ports of RoCE packets to a remote, by entropy, one for each flow label: what
// switches and bonds spread by. Devices whose driver goes by the label have them (soft RoCE
// doesn't). Empty in a build without libibverbs.
[[nodiscard]] std::vector<std::uint16_t> roce_source_ports();

// Whether this build has libibverbs.
[[nodiscard]] bool has_verbs() noexcept;

// Whether a fork leaves the device with the pages that the parent goes on writing to, and the child
// with all of its memory. Else registered memory and forks don't go together.
[[nodiscard]] bool registered_memory_survives_fork() noexcept;

}  // namespace hawser::engine
