// SPDX-License-Identifier: Apache-2.0
#include "proto/service/call_queue.hpp"

#include <catch2/catch.hpp>

namespace hawser::proto {

TEST_CASE("call queue: few call at a time, and the others wait in their order") {
  PeerTable peers(5);
  CallQueue queue(peers, 2);
  Peer& a = *peers.make(1);
  Peer& b = *peers.make(2);
  Peer& c = *peers.make(3);
  Peer& d = *peers.make(4);
  Peer& e = *peers.make(5);
  REQUIRE(queue.begin(a));
  REQUIRE(queue.begin(b));
  for (Peer* const late : {&c, &d, &e}) REQUIRE_FALSE(queue.begin(*late));
  REQUIRE_FALSE(CallQueue::waits(b));
  REQUIRE(CallQueue::waits(d));
  REQUIRE(queue.end(d) == nullptr);  // it only waited
  REQUIRE_FALSE(CallQueue::waits(d));
  REQUIRE(queue.end(b) == &c);
  REQUIRE_FALSE(CallQueue::waits(c));
  REQUIRE(queue.end(b) == nullptr);  // it has ended before
  REQUIRE_FALSE(queue.begin(d));     // behind e
  REQUIRE(queue.end(c) == &e);
  REQUIRE(queue.end(a) == &d);
  REQUIRE(queue.end(d) == nullptr);
  REQUIRE(queue.begin(a));
  REQUIRE_FALSE(queue.begin(b));  // two call
}

}  // namespace hawser::proto
