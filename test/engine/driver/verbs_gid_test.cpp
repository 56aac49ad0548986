// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_gid.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace hawser::test {
namespace {

using engine::choose_gid;
using engine::choose_gid_again;
using engine::Gid;
using engine::GidEntry;
using Kind = engine::GidEntry::Kind;

Gid starting(std::initializer_list<int> bytes) {
  Gid gid{};
  std::size_t i = 0;
  for (const int byte : bytes) gid[i++] = static_cast<std::byte>(byte);
  return gid;
}

const Gid kLinkLocal = starting({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1});
const Gid kGlobal = starting({0x20, 1});
const Gid kIpv4 = starting({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1});

}  // namespace

// The table that a RoCE device with an IPv4 and an IPv6 address shows.
TEST_CASE("choice of GID: RoCE v2 over IPv4, though it comes last") {
  const std::vector<GidEntry> table{{0, Kind::roce_v1, kLinkLocal}, {1, Kind::roce_v2, kLinkLocal},
                                    {2, Kind::roce_v1, kGlobal},    {3, Kind::roce_v2, kGlobal},
                                    {4, Kind::roce_v1, kIpv4},      {5, Kind::roce_v2, kIpv4}};
  REQUIRE(choose_gid(table));
  CHECK(choose_gid(table)->index == 5);
  CHECK(choose_gid(std::span(table).first(5))->index == 3);
  CHECK(choose_gid(std::span(table).first(3))->index == 1);
  CHECK_FALSE(choose_gid(std::span(table).first(1)));
  CHECK_FALSE(choose_gid({}));
}

TEST_CASE("choice of GID: of equals the lowest index, in whatever order they stand") {
  const std::vector<GidEntry> table{
      {7, Kind::roce_v2, kIpv4}, {3, Kind::roce_v2, kIpv4}, {9, Kind::roce_v2, kIpv4}};
  CHECK(choose_gid(table)->index == 3);
}

TEST_CASE("choice of GID: InfiniBand takes its first") {
  const std::vector<GidEntry> table{{0, Kind::infiniband, kLinkLocal},
                                    {1, Kind::infiniband, kGlobal}};
  CHECK(choose_gid(table)->index == 0);
}

TEST_CASE("choice of GID: an index that address handles can't name is never chosen") {
  const std::vector<GidEntry> table{{255, Kind::roce_v2, kLinkLocal}, {256, Kind::roce_v2, kIpv4}};
  CHECK(choose_gid(table)->index == 255);
  CHECK_FALSE(choose_gid(std::span(table).subspan(1)));
}

TEST_CASE("choice of GID: again, the same wherever it lies, else one of its sort, else none") {
  const Gid other = starting({0x20, 2});
  const GidEntry present{3, Kind::roce_v2, kGlobal};
  const std::vector<GidEntry> table{{0, Kind::roce_v2, kIpv4},
                                    {1, Kind::roce_v2, kLinkLocal},
                                    {2, Kind::roce_v1, kGlobal},
                                    {4, Kind::roce_v2, other},
                                    {5, Kind::roce_v2, kGlobal}};
  CHECK(choose_gid_again(table, present)->index == 5);
  CHECK(choose_gid_again(std::span(table).first(4), present)->index == 4);
  CHECK_FALSE(choose_gid_again(std::span(table).first(3), present));
}

TEST_CASE("choice of GID: said in words") {
  CHECK(engine::description_of({0, Kind::roce_v2, kIpv4}) == "RoCE v2, IPv4");
  CHECK(engine::description_of({0, Kind::roce_v2, kGlobal}) == "RoCE v2, IPv6");
  CHECK(engine::description_of({0, Kind::roce_v2, kLinkLocal}) == "RoCE v2, IPv6 of its link");
  CHECK(engine::description_of({0, Kind::roce_v1, kIpv4}) == "RoCE v1");
  CHECK(engine::description_of({0, Kind::infiniband, kGlobal}) == "InfiniBand");
}

}  // namespace hawser::test
