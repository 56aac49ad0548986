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

Peer* oldest_until(HalfOpenStrangers& half_open, Time crowd, Time alone) {
  return half_open.first_to_go([&](const Peer& peer) {
    return peer.handshake.calling_since <= (HalfOpenStrangers::is_in_crowd(peer) ? crowd : alone);
  });
}

constexpr Time kNow{1000};

}  // namespace

TEST_CASE("half open strangers: the oldest comes first, and a peer enters and leaves once") {
  PeerTable peers(3);
  HalfOpenStrangers half_open(peers);
  REQUIRE(oldest_until(half_open, kNow, kNow) == nullptr);
  Peer& a = *peers.make(1);
  Peer& b = *peers.make(2);
  REQUIRE(half_open.enter(a, address(1), true, Time{1}));
  REQUIRE(half_open.enter(b, address(2), true, Time{2}));
  REQUIRE_FALSE(half_open.enter(a, address(1), true, Time{3}));
  REQUIRE(half_open.size() == 2);
  REQUIRE(oldest_until(half_open, kNow, kNow) == &a);
  half_open.leave(a);
  half_open.leave(a);
  REQUIRE(half_open.size() == 1);
  REQUIRE_FALSE(HalfOpenStrangers::contains(a));
  REQUIRE(HalfOpenStrangers::contains(b));
  REQUIRE(oldest_until(half_open, kNow, kNow) == &b);
  REQUIRE(half_open.enter(a, address(1), true, Time{4}));  // it is young again
  REQUIRE(oldest_until(half_open, kNow, kNow) == &b);
}

TEST_CASE(
    "half open strangers: at one address the older ones go first, whoever is older elsewhere") {
  PeerTable peers(4);
  HalfOpenStrangers half_open(peers);
  Peer& alone = *peers.make(1);
  Peer& first = *peers.make(2);
  Peer& second = *peers.make(3);
  Peer& third = *peers.make(4);
  REQUIRE(half_open.enter(alone, address(1), true, Time{1}));
  REQUIRE(half_open.enter(first, address(2), false, Time{2}));
  REQUIRE(half_open.enter(second, address(2), true, Time{3}));
  REQUIRE(half_open.enter(third, address(2), true, Time{4}));
  CHECK(oldest_until(half_open, Time{1}, Time{0}) == nullptr);
  CHECK(oldest_until(half_open, Time{2}, Time{1}) == &first);
  CHECK(oldest_until(half_open, Time{1}, Time{1}) == &alone);
  half_open.leave(first);
  CHECK(oldest_until(half_open, kNow, kNow) == &second);
  half_open.leave(second);
  CHECK(oldest_until(half_open, kNow, Time{0}) == nullptr);
  half_open.leave(alone);
  CHECK(oldest_until(half_open, Time{0}, kNow) == &third);
  // Whoever proves nothing does not displace who has proven the address.
  REQUIRE(half_open.enter(second, address(2), false, Time{5}));
  CHECK(oldest_until(half_open, kNow, Time{0}) == &second);
  // One that calls again is the newest again.
  half_open.leave(second);
  REQUIRE(half_open.enter(second, address(2), true, Time{6}));
  CHECK(oldest_until(half_open, kNow, Time{0}) == &third);
  half_open.leave(second);
  half_open.leave(third);
  CHECK(half_open.size() == 0);
  REQUIRE(half_open.enter(first, address(2), false, Time{7}));
  CHECK(oldest_until(half_open, kNow, Time{0}) == nullptr);
}

}  // namespace hawser::proto
