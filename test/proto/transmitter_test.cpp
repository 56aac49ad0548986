// SPDX-License-Identifier: Apache-2.0
#include "proto/endpoint/transmitter.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "test/proto/two_ends.hpp"

namespace hawser::proto {
namespace {

// A session in which `a` sends a message of a few fragments. The first NIC takes bursts of eight.
struct Fragments : TwoEnds {
  const std::size_t count;
  Peer& peer = connect();
  std::vector<std::byte> data = std::vector<std::byte>(count * peer.session.fragment_bytes);
  std::vector<std::byte> room = std::vector<std::byte>(data.size());

  explicit Fragments(std::size_t fragments = 12) : count(fragments) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i / 7);
    b.receive(room);
    a.send(peer, data);
  }
  // NICs get no more than keeps them busy for a while, so sending takes several turns.
  void send_all() {
    for (int i = 0; i < 100 && !a.owners.senders.empty(); ++i) {
      a.transmit(now = now + microseconds(10));
    }
  }
  // All that has left arrives, and whole.
  void check_arrival() {
    exchange();
    const auto done = b.completions();
    REQUIRE(done.size() == 1);
    CHECK(done.front().status == Status::ok);
    CHECK(std::memcmp(room.data(), data.data(), data.size()) == 0);
  }
};

}  // namespace

TEST_CASE("transmitter: a message leaves over all NICs, each fragment once") {
  Fragments at;
  at.send_all();
  CHECK(at.a.packets() == at.count);
  CHECK(at.a.first.sent.size() >= 4);
  CHECK(at.a.second.sent.size() >= 4);
  CHECK(at.a.owners.paths.in_flight() == at.count);
  CHECK(at.a.owners.senders.empty());
  at.check_arrival();
}

TEST_CASE("transmitter: what a NIC refuses goes later, and is no retransmission") {
  Fragments at;
  at.a.first.room = at.a.second.room = 1;
  at.send_all();
  CHECK(at.a.packets() == 2);
  CHECK(at.a.owners.paths.in_flight() == 2);
  CHECK(at.a.owners.turn.counters.nic_backpressure > 0);
  CHECK(at.a.owners.senders.contains(at.peer));
  CHECK(at.a.pool.in_use() == 0);
  at.a.first.room = at.a.second.room = 100;
  at.send_all();
  CHECK(at.a.packets() == at.count);
  CHECK(at.a.owners.turn.counters.fragments_retransmitted == 0);
  at.check_arrival();
}

TEST_CASE("transmitter: a NIC that is down gets nothing") {
  Fragments at(6);
  at.a.owners.nics[0].up = false;
  at.send_all();
  CHECK(at.a.first.sent.empty());
  CHECK(at.a.second.sent.size() == at.count);
  at.check_arrival();
}

TEST_CASE("transmitter: no more is in flight than the peer allows") {
  Fragments at;
  at.peer.paths.allowance = 1;  // a packet on each path, as one may always be in flight
  at.send_all();
  CHECK(at.a.packets() == 2);
  CHECK(at.a.owners.paths.in_flight() == 2);
}

TEST_CASE("transmitter: without a buffer nothing leaves, and the peer waits for its turn") {
  Fragments at;
  std::vector<PacketBuffer*> all(128);
  REQUIRE(at.a.pool.take(all) == all.size());
  at.send_all();
  CHECK(at.a.packets() == 0);
  CHECK(at.a.owners.senders.contains(at.peer));
  at.a.pool.give(all);
  at.send_all();
  CHECK(at.a.packets() == at.count);
}

}  // namespace hawser::proto
