// SPDX-License-Identifier: Apache-2.0
// One port of an RDMA device, opened: context, protection domain, and what the port says of itself.
#pragma once

#include <cstdint>
#include <string>

#include "engine/driver/verbs/verbs.hpp"
#include "engine/driver/verbs/verbs_gid.hpp"
#include "engine/driver/verbs/verbs_handles.hpp"

namespace hawser::engine {

// What a port says of itself, which may change while it is open.
struct VerbsPortFacts {
  VerbsAddress::Link link = VerbsAddress::Link::ethernet;
  std::uint16_t lid = 0;
  std::uint16_t pkey = 0;  // at index 0, which the queue pairs use
  GidEntry gid{};
  std::uint32_t mtu_bytes = 0;         // of a datagram, without GRH
  std::uint64_t link_bytes_per_s = 0;  // 0: unknown
  // Since the device is there, of all its users, up to 65535.
  std::uint32_t qkey_violations = 0;
  std::uint32_t pkey_violations = 0;
};

// What refuses where this follows is the kernel or the provider.
inline constexpr const char* kAdviceOnDriver =
    "; look whether its driver is in order (`rdma link`, `dmesg`), and load it anew if not";

struct VerbsPort {
  std::string name;  // "verbs:mlx5_0", for people
  VerbsPortName asked;
  VerbsContext context;
  VerbsDomain domain;
  VerbsPortFacts facts;
  bool newer_calls = true;  // ibv_wr_* and ibv_start_poll, where the provider offers them
  [[nodiscard]] std::uint8_t number() const { return asked.port; }
};

// Throws Error, with what to do.
[[nodiscard]] VerbsPort open_verbs_port(const VerbsPortName& name);
// Asks the open port again, for who has used `facts` so far: of its GIDs choose_gid_again says
// which. Throws Error, with what is wrong: the NIC can't work until it is changed.
[[nodiscard]] VerbsPortFacts read_verbs_port(const VerbsPort& port);
// Opens the device anew, which may be another one of the name by now; before, all that was made of
// it is destroyed. Throws Error, and then `port` has neither context nor domain.
void reopen_verbs_port(VerbsPort& port);
// Whether the device that is open is the host's still. A driver that can't take a device from its
// users waits for them to close it, and all that is seen of that is here.
[[nodiscard]] bool is_listed(const VerbsPort& port);

}  // namespace hawser::engine
