// SPDX-License-Identifier: Apache-2.0
// The address of a verbs NIC: link layer, LID or GID, the numbers of its two queue pairs, and their
// QKey. Also decides which addresses a local NIC can reach.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/nic.hpp"

namespace hawser::engine {

using Gid = std::array<std::byte, 16>;

// True for ::ffff:a.b.c.d, which is how RoCE writes an IPv4 address.
[[nodiscard]] bool is_ipv4(const Gid& gid);
// True for fe80::/10, which reaches only its own link.
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

// Offsets of the fields of a verbs NicAddress. Numbers are little endian.
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

// False if `bytes` is malformed, or not of the verbs kind.
[[nodiscard]] bool from_nic_address(const proto::NicAddress& bytes, VerbsAddress& address);

// True if a packet from `local` can carry `remote` in its headers: both have the same link layer
// and, for RoCE, the same IP version. A route may still be missing.
[[nodiscard]] bool can_address(const VerbsAddress& local, const VerbsAddress& remote);

// The part of the address that all queue pairs behind one port share. Address handles depend on it.
[[nodiscard]] proto::NicAddress destination_of(const VerbsAddress& address);

}  // namespace hawser::engine
