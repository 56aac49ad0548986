// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_address.hpp"

#include <algorithm>

namespace hawser::engine {
namespace {

using Layout = VerbsAddressLayout;
using proto::NicAddress;

constexpr std::uint32_t kMaxQpn = 0xffffff;
constexpr std::uint32_t kFirstQpn = 2;  // 0 and 1 are reserved for management
constexpr std::uint32_t kReservedQkeys = 0x80000000;

template <class T>
void put(NicAddress& address, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    address.bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <class T>
T get(const NicAddress& address, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= std::to_integer<std::uint64_t>(address.bytes[at + i]) << (8 * i);
  }
  return static_cast<T>(value);
}

bool is_qpn(std::uint32_t number) { return number >= kFirstQpn && number <= kMaxQpn; }

bool is_zero(const Gid& gid) { return gid == Gid{}; }

bool is_multicast(const Gid& gid) { return gid[0] == std::byte{0xff}; }

}  // namespace

bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10,
                     [](std::byte b) { return b == std::byte{0}; }) &&
         gid[10] == std::byte{0xff} && gid[11] == std::byte{0xff};
}

bool is_link_local(const Gid& gid) {
  return gid[0] == std::byte{0xfe} && (gid[1] & std::byte{0xc0}) == std::byte{0x80};
}

NicAddress to_nic_address(const VerbsAddress& address) {
  NicAddress bytes;
  put(bytes, Layout::kKind, static_cast<std::uint8_t>(proto::NicKind::verbs));
  put(bytes, Layout::kLink, static_cast<std::uint8_t>(address.link));
  put(bytes, Layout::kLid, address.lid);
  put(bytes, Layout::kDataQpn, address.data_qpn);
  put(bytes, Layout::kControlQpn, address.control_qpn);
  put(bytes, Layout::kQkey, address.qkey);
  std::copy(address.gid.begin(), address.gid.end(), bytes.bytes.begin() + Layout::kGid);
  return bytes;
}

bool from_nic_address(const NicAddress& bytes, VerbsAddress& address) {
  if (get<std::uint8_t>(bytes, Layout::kKind) != static_cast<std::uint8_t>(proto::NicKind::verbs)) {
    return false;
  }
  address.link = VerbsAddress::Link{get<std::uint8_t>(bytes, Layout::kLink)};
  address.lid = get<std::uint16_t>(bytes, Layout::kLid);
  address.data_qpn = get<std::uint32_t>(bytes, Layout::kDataQpn);
  address.control_qpn = get<std::uint32_t>(bytes, Layout::kControlQpn);
  address.qkey = get<std::uint32_t>(bytes, Layout::kQkey);
  std::copy_n(bytes.bytes.begin() + Layout::kGid, address.gid.size(), address.gid.begin());
  if (!is_qpn(address.data_qpn) || !is_qpn(address.control_qpn)) return false;
  if (address.data_qpn == address.control_qpn || (address.qkey & kReservedQkeys) != 0) return false;
  if (is_multicast(address.gid)) return false;
  const bool sensible = address.link == VerbsAddress::Link::ethernet
                            ? !is_zero(address.gid) && address.lid == 0
                            : address.link == VerbsAddress::Link::infiniband && address.lid != 0;
  return sensible && to_nic_address(address) == bytes;  // unused bytes must be zero
}

bool can_address(const VerbsAddress& local, const VerbsAddress& remote) {
  if (local.link != remote.link) return false;
  return local.link == VerbsAddress::Link::infiniband || is_ipv4(local.gid) == is_ipv4(remote.gid);
}

NicAddress destination_of(const VerbsAddress& address) {
  VerbsAddress port = address;
  port.data_qpn = port.control_qpn = port.qkey = 0;
  return to_nic_address(port);
}

}  // namespace hawser::engine
