// SPDX-License-Identifier: Apache-2.0
// What the other side needs to reach a verbs NIC: link layer, LID or GID, the numbers of its two
// queue pairs and their QKey; and which of them a NIC here can reach.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/nic.hpp"

namespace hawser::engine {

using Gid = std::array<std::byte, 16>;

// ::ffff:a.b.c.d, which is how RoCE writes an IPv4 address.
[[nodiscard]] bool is_ipv4(const Gid& gid);
// fe80::/10: reaches one link and no further.
[[nodiscard]] bool is_link_local(const Gid& gid);

struct VerbsAddress {
  enum class Link : std::uint8_t { infiniband = 1, ethernet = 2 };

  Link link = Link::ethernet;
  std::uint16_t lid = 0;  // InfiniBand
  std::uint32_t data_qpn = 0;
  std::uint32_t control_qpn = 0;
  std::uint32_t qkey = 0;  // of both queue pairs; the highest bit is reserved and clear
  Gid gid{};
};

// Where the fields of a verbs NicAddress are; numbers are little endian.
struct VerbsAddressLayout {
  static constexpr std::size_t kKind = 0;
  static constexpr std::size_t kLink = 1;
  static constexpr std::size_t kLid = 2;
  static constexpr std::size_t kDataQpn = 4;
  static constexpr std::size_t kControlQpn = 8;
  static constexpr std::size_t kQkey = 12;
  static constexpr std::size_t kGid = 16;
  static constexpr std::size_t kEnd = kGid + 16;
};

[[nodiscard]] proto::NicAddress to_nic_address(const VerbsAddress& address);

// False if `bytes` is not of the verbs kind or malformed.
[[nodiscard]] bool from_nic_address(const proto::NicAddress& bytes, VerbsAddress& address);

// Whether a packet from `local` can have `remote` in its headers: the same link layer, and for RoCE
// the same IP version. Whether there is a route is another question.
[[nodiscard]] bool can_address(const VerbsAddress& local, const VerbsAddress& remote);

// The same for all queue pairs behind one port: what an address handle depends on.
[[nodiscard]] proto::NicAddress destination_of(const VerbsAddress& address);

}  // namespace hawser::engine
