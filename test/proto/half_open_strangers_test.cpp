// SPDX-License-Identifier: Apache-2.0
#include "proto/service/half_open_strangers.hpp"

#include <catch2/catch.hpp>

namespace hawser::proto {

namespace {

NicAddress address(int number) {
  NicAddress address;
  address.bytes[6] = static_cast<std::byte>(number);
  return address;
}

constexpr Time kNow{1000};

}  // namespace

TEST_CASE("half open strangers: the oldest comes first, and a peer enters and leaves once") {
  PeerTable peers(3);
  HalfOpenStrangers half_open(peers);
  REQUIRE(half_open.first_to_go(kNow, kNow) == nullptr);
  Peer& a = *peers.make(1);
  Peer& b = *peers.make(2);
  REQUIRE(half_open.enter(a, address(1), Time{1}));
  REQUIRE(half_open.enter(b, address(2), Time{2}));
  REQUIRE_FALSE(half_open.enter(a, address(1), Time{3}));
  REQUIRE(half_open.size() == 2);
  REQUIRE(half_open.first_to_go(kNow, kNow) == &a);
  half_open.leave(a);
  half_open.leave(a);
  REQUIRE(half_open.size() == 1);
  REQUIRE_FALSE(HalfOpenStrangers::contains(a));
  REQUIRE(HalfOpenStrangers::contains(b));
  REQUIRE(half_open.first_to_go(kNow, kNow) == &b);
  REQUIRE(half_open.enter(a, address(1), Time{4}));  // it is young again
  REQUIRE(half_open.first_to_go(kNow, kNow) == &b);
}

TEST_CASE("half open strangers: those that share an address go before older ones that do not") {
  PeerTable peers(4);
  HalfOpenStrangers half_open(peers);
  Peer& alone = *peers.make(1);
  Peer& first = *peers.make(2);
  Peer& second = *peers.make(3);
  Peer& third = *peers.make(4);
  REQUIRE(half_open.enter(alone, address(1), Time{1}));
  REQUIRE(half_open.enter(first, address(2), Time{2}));
  REQUIRE(half_open.enter(second, address(2), Time{3}));
  REQUIRE(half_open.enter(third, address(2), Time{4}));
  CHECK(half_open.first_to_go(Time{2}, Time{0}) == nullptr);
  CHECK(half_open.first_to_go(Time{3}, Time{0}) == &second);
  CHECK(half_open.first_to_go(Time{2}, Time{1}) == &alone);
  half_open.leave(second);
  CHECK(half_open.first_to_go(Time{4}, Time{0}) == &third);
  half_open.leave(third);
  CHECK(half_open.first_to_go(kNow, kNow) == &alone);
  half_open.leave(alone);
  CHECK(half_open.first_to_go(kNow, kNow) == &first);
  half_open.leave(first);
  // Nobody is left there, so the next one is alone.
  REQUIRE(half_open.enter(second, address(2), Time{5}));
  CHECK(half_open.first_to_go(kNow, Time{4}) == nullptr);
}

}  // namespace hawser::proto
