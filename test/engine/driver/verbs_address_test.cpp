// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_address.hpp"

#include <catch2/catch.hpp>

namespace hawser::test {
namespace {

using engine::Gid;
using engine::VerbsAddress;
using Layout = engine::VerbsAddressLayout;

Gid gid(std::initializer_list<int> bytes) {
  Gid result{};
  std::size_t i = 0;
  for (const int byte : bytes) result[i++] = static_cast<std::byte>(byte);
  return result;
}

const Gid kLinkLocal = gid({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 3, 4, 0xff, 0xfe, 5, 6, 7});
const Gid kGlobal = gid({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
const Gid kIpv4 = gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3});

VerbsAddress roce() {
  return {.link = VerbsAddress::Link::ethernet,
          .data_qpn = 0x123456,
          .control_qpn = 17,
          .qkey = 0x7fffffff,
          .gid = kGlobal};
}

VerbsAddress infiniband() {
  return {.link = VerbsAddress::Link::infiniband,
          .lid = 0xbeef,
          .data_qpn = 2,
          .control_qpn = 3,
          .gid = kLinkLocal};
}

bool reads(const VerbsAddress& address) {
  VerbsAddress read;
  return from_nic_address(to_nic_address(address), read);
}

template <class Change>
bool reads_with(VerbsAddress address, const Change& change) {
  change(address);
  return reads(address);
}

}  // namespace

TEST_CASE("verbs address: its bytes, golden") {
  const proto::NicAddress bytes = to_nic_address(roce());
  const int expected[40] = {3,    2,    0,    0, 0x56, 0x34, 0x12, 0, 17, 0, 0, 0, 0xff, 0xff,
                            0xff, 0x7f, 0x20, 1, 0xd,  0xb8, 0,    0, 0,  0, 0, 0, 0,    0,
                            0,    0,    0,    1, 0,    0,    0,    0, 0,  0, 0, 0};
  for (std::size_t i = 0; i < 40; ++i) {
    CAPTURE(i);
    CHECK(std::to_integer<int>(bytes.bytes[i]) == expected[i]);
  }
}

TEST_CASE("verbs address: what is written is read") {
  for (const VerbsAddress& address : {roce(), infiniband()}) {
    VerbsAddress read;
    REQUIRE(from_nic_address(to_nic_address(address), read));
    CHECK(read.link == address.link);
    CHECK(read.lid == address.lid);
    CHECK(read.data_qpn == address.data_qpn);
    CHECK(read.control_qpn == address.control_qpn);
    CHECK(read.qkey == address.qkey);
    CHECK(read.gid == address.gid);
  }
}

TEST_CASE("verbs address: each malformed field is refused") {
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.data_qpn = 0; }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.data_qpn = 1; }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.control_qpn = 0x1000000; }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.control_qpn = a.data_qpn; }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.qkey = 0x80000000; }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.lid = 1; }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.gid = {}; }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.gid = gid({0xff, 2}); }));
  CHECK_FALSE(reads_with(roce(), [](auto& a) { a.link = VerbsAddress::Link{3}; }));
  CHECK_FALSE(reads_with(infiniband(), [](auto& a) { a.lid = 0; }));
  VerbsAddress read;
  for (std::size_t i = Layout::kEnd; i < 40; ++i) {
    proto::NicAddress bytes = to_nic_address(roce());
    bytes.bytes[i] = std::byte{1};
    CHECK_FALSE(from_nic_address(bytes, read));
  }
  proto::NicAddress other = to_nic_address(roce());
  other.bytes[Layout::kKind] = static_cast<std::byte>(proto::NicKind::udp);
  CHECK_FALSE(from_nic_address(other, read));
}

TEST_CASE("verbs address: who can address whom") {
  VerbsAddress v4 = roce();
  v4.gid = kIpv4;
  VerbsAddress link_local = roce();
  link_local.gid = kLinkLocal;
  CHECK(can_address(roce(), roce()));
  CHECK(can_address(v4, v4));
  CHECK(can_address(link_local, roce()));
  CHECK(can_address(infiniband(), infiniband()));
  CHECK_FALSE(can_address(roce(), v4));
  CHECK_FALSE(can_address(v4, roce()));
  CHECK_FALSE(can_address(roce(), infiniband()));
  CHECK_FALSE(can_address(infiniband(), roce()));
}

TEST_CASE("verbs address: queue pairs of one port are one destination") {
  VerbsAddress other = roce();
  other.data_qpn = 99;
  other.control_qpn = 100;
  other.qkey = 1;
  CHECK(destination_of(other) == destination_of(roce()));
  other.gid[15] = std::byte{2};
  CHECK_FALSE(destination_of(other) == destination_of(roce()));
}

TEST_CASE("verbs address: kinds of GID") {
  CHECK(engine::is_ipv4(kIpv4));
  CHECK_FALSE(engine::is_ipv4(kGlobal));
  CHECK_FALSE(engine::is_ipv4(gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 10, 1, 2, 3})));
  CHECK(engine::is_link_local(kLinkLocal));
  CHECK(engine::is_link_local(gid({0xfe, 0xbf})));
  CHECK_FALSE(engine::is_link_local(gid({0xfe, 0xc0})));
  CHECK_FALSE(engine::is_link_local(kGlobal));
}

}  // namespace hawser::test
