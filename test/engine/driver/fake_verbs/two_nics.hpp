// SPDX-License-Identifier: Apache-2.0
// Two verbs NICs over the double, at the two ends of a cable. The tests of errors share their
// checks: the NIC gives back each cookie exactly once, and it recovers.
#pragma once

#include <algorithm>
#include <deque>

#include "test/engine/driver/conformance/fake_rigs.hpp"
#include "test/engine/driver/verbs_exchange.hpp"

namespace hawser::test {

inline const std::string kMine = Cables::kNames[0];
inline const std::string kTheirs = Cables::kNames[1];

inline std::uint32_t pair_number(const Nic& nic, Queue queue) {
  engine::VerbsAddress address;
  REQUIRE(from_nic_address(nic.address(), address));
  return queue == Queue::data ? address.data_qpn : address.control_qpn;
}

template <class Rig>
struct TwoNics {
  using Kind = proto::NicEvent::Kind;

  Rig rig;
  engine::VerbsNic& mine = dynamic_cast<engine::VerbsNic&>(rig.make());
  engine::VerbsNic& theirs = dynamic_cast<engine::VerbsNic&>(rig.make());
  RemoteHandle to_theirs = open(mine, theirs);
  RemoteHandle to_mine = open(theirs, mine);

  fake::Fabric& fabric() { return rig.fabric; }

  // Hands over `count` datagrams with the cookies `first` and up, too long to be sent inline.
  // The payloads stay readable until forget_sent().
  void send(std::uint64_t first, std::size_t count, Queue queue = Queue::data) {
    Burst& burst = sent_.emplace_back(rig.pool);
    for (std::uint64_t id = first; id < first + count; ++id) {
      burst.add({.id = id, .payload_bytes = 500, .remote = to_theirs, .queue = queue});
    }
    REQUIRE(burst.send(mine) == count);
  }
  // Reaps once. The sender owns the reaped buffers again and overwrites them.
  std::vector<std::uint64_t> reap() { return reap_all(mine); }

  // Checks that the NIC goes down, comes up at its new address and gives all sends back. Each end
  // opens the other anew.
  void returns(std::size_t cookies) {
    REQUIRE(hears(mine, Kind::down));
    comes_up();
    CHECK(reap().size() == cookies);
    works();
  }
  void comes_up() {
    REQUIRE(hears(mine, Kind::up));
    opens_anew();
  }
  void opens_anew() {
    theirs.close_remote(to_mine);
    to_mine = open(theirs, mine);
    // Waits until the NIC has made its address handles anew.
    RemoteHandle same = proto::kNoRemote;
    while (mine.open_remote(theirs.address(), same) == Status::again) (void)::poll(nullptr, 0, 1);
    CHECK(same == to_theirs);
    mine.close_remote(same);
  }
  // Checks that the NIC goes down, comes up again and has given all sends back.
  void recovers(std::size_t cookies) {
    REQUIRE(hears(mine, Kind::down));
    REQUIRE(hears(mine, Kind::up));
    const std::vector<std::uint64_t> reaped = reap();
    CHECK(reaped.size() == cookies);
    CHECK(std::adjacent_find(reaped.begin(), reaped.end()) == reaped.end());
    works();
  }
  // Checks both queues in both directions, and that nothing remains from before.
  void works() {
    (void)rig.settle(mine);
    (void)rig.settle(theirs);
    (void)rig.settle(mine, Queue::control);
    (void)rig.settle(theirs, Queue::control);
    for (const Queue queue : {Queue::data, Queue::control}) {
      CHECK(exchange(rig, mine, to_theirs, theirs, 100, queue) == 100);
      CHECK(exchange(rig, theirs, to_mine, mine, 100, queue) == 100);
    }
    CHECK(rig.pool.in_use() == 0);
    std::array<proto::NicEvent, 1> events;
    CHECK(mine.events(events) == 0);
  }

 private:
  std::deque<Burst> sent_;
};

}  // namespace hawser::test
