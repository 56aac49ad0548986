// SPDX-License-Identifier: Apache-2.0
// One open port of an RDMA device: context, protection domain, and the port's attributes.
#pragma once

#include <cstdint>
#include <string>

#include "engine/driver/verbs/verbs.hpp"
#include "engine/driver/verbs/verbs_gid.hpp"
#include "engine/driver/verbs/verbs_handles.hpp"

namespace hawser::engine {

// The port's attributes, which may change while it is open.
struct VerbsPortFacts {
  VerbsAddress::Link link = VerbsAddress::Link::ethernet;
  std::uint16_t lid = 0;
  std::uint16_t pkey = 0;  // at index 0, the entry that the queue pairs use
  GidEntry gid{};
  std::uint32_t mtu_bytes = 0;         // of a datagram, without GRH
  std::uint64_t link_bytes_per_s = 0;  // 0: unknown
  // Counted since the device exists, for all its users, up to 65535.
  std::uint32_t qkey_violations = 0;
  std::uint32_t pkey_violations = 0;
};

// Ends a sentence about a refusal by the kernel or the provider.
inline constexpr const char* kAdviceOnDriver =
    "; check its driver (`rdma link`, `dmesg`), and reload it if it has failed";

struct VerbsPort {
  std::string name;  // "verbs:mlx5_0", for people
  VerbsPortName asked;
  VerbsContext context;
  VerbsDomain domain;
  VerbsPortFacts facts;
  bool newer_calls = true;  // ibv_wr_* and ibv_start_poll, where the provider offers them
  [[nodiscard]] std::uint8_t number() const { return asked.port; }
};

// Throws Error, with advice.
[[nodiscard]] VerbsPort open_verbs_port(const VerbsPortName& name);
// Queries the open port again, for a NIC that has used `facts` so far; choose_gid_again picks the
// GID. Throws Error if something is wrong that keeps the NIC from working.
[[nodiscard]] VerbsPortFacts read_verbs_port(const VerbsPort& port);
// Opens the device anew; another device may have the name by now. All objects made from the old
// one must be destroyed before. If it throws Error, `port` has neither context nor domain.
void reopen_verbs_port(VerbsPort& port);
// True if the host still has the open device. A driver that can't take a device from its users
// waits for them to close it. This is the only sign of that.
[[nodiscard]] bool is_listed(const VerbsPort& port);

}  // namespace hawser::engine
