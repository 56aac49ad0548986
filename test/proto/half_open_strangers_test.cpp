// SPDX-License-Identifier: Apache-2.0
#include "proto/service/half_open_strangers.hpp"

#include <catch2/catch.hpp>

namespace hawser::proto {

TEST_CASE("half open strangers: the oldest comes first, and a peer enters and leaves once") {
  PeerTable peers(3);
  HalfOpenStrangers half_open(peers);
  REQUIRE(half_open.oldest() == nullptr);
  Peer& a = *peers.make(1);
  Peer& b = *peers.make(2);
  REQUIRE(half_open.enter(a));
  REQUIRE(half_open.enter(b));
  REQUIRE_FALSE(half_open.enter(a));
  REQUIRE(half_open.size() == 2);
  REQUIRE(half_open.oldest() == &a);
  half_open.leave(a);
  half_open.leave(a);
  REQUIRE(half_open.size() == 1);
  REQUIRE_FALSE(HalfOpenStrangers::contains(a));
  REQUIRE(HalfOpenStrangers::contains(b));
  REQUIRE(half_open.oldest() == &b);
  REQUIRE(half_open.enter(a));  // it is young again
  REQUIRE(half_open.oldest() == &b);
}

}  // namespace hawser::proto
