// SPDX-License-Identifier: Apache-2.0
// The fault NIC: faults by specification, death and return, limits, and the contract of every NIC.
#include "test/engine/driver/fault_pair.hpp"

#include <set>

#include "hawser/engine.hpp"
#include "test/support/heap_guard.hpp"

namespace hawser::test {
namespace {

using proto::NicEvent;

std::vector<NicEvent::Kind> events_of(Nic& nic) {
  std::vector<NicEvent::Kind> kinds;
  std::array<NicEvent, 2> events;
  while (const std::size_t count = nic.events(events)) {
    for (std::size_t i = 0; i < count; ++i) kinds.push_back(events[i].kind);
  }
  return kinds;
}

}  // namespace

TEST_CASE("fault NIC: loss by specification, on either side, reproducible from the seed") {
  const auto survivors = [](std::string_view on_a, std::string_view on_b) {
    FaultPair pair;
    pair.apply(*pair.a, on_a);
    pair.apply(*pair.b, on_b);
    Ids all;
    for (std::uint64_t id = 0; id < 1000; id += 50) {
      CHECK(pair.send(id, 50) == 50);
      for (const std::uint64_t got : pair.receive()) all.push_back(got);
    }
    CHECK(pair.cookies.size() == 1000);
    CHECK(pair.pool.in_use() == 0);
    return all;
  };
  const Ids sent = survivors("loss=0.2,seed=5", "");
  CHECK(sent.size() > 740);
  CHECK(sent.size() < 860);
  CHECK(survivors("loss=0.2,seed=5", "") == sent);
  CHECK(survivors("loss=0.2,seed=6", "") != sent);
  const Ids received = survivors("", "rx.loss=0.2,seed=5");
  CHECK(received.size() > 740);
  CHECK(received.size() < 860);
  CHECK(survivors("rx.loss=1", "").size() == 1000);  // a receives no packets
}

TEST_CASE("fault NIC: streams with the same seed differ") {
  FaultPairConfig config;
  config.b.stream = 1;
  FaultPair pair(std::move(config));
  const RemoteHandle to_a = open(*pair.b, *pair.a);
  pair.apply(*pair.a, "loss=0.5,seed=9");
  pair.apply(*pair.b, "loss=0.5,seed=9");
  CHECK(pair.send(0, 64) == 64);
  const Ids one = pair.receive();
  Burst burst(pair.pool);
  for (std::uint64_t id = 0; id < 64; ++id) {
    burst.add({.id = id, .payload_bytes = 100, .remote = to_a});
  }
  CHECK(burst.send(*pair.b) == 64);
  (void)reap_all(*pair.b);
  Ids other;
  for (const auto& bytes : receive_all(*pair.a)) {
    for (std::uint64_t id = 0; id < 64; ++id) {
      if (bytes == datagram(id, 132)) other.push_back(id);
    }
  }
  CHECK(one != other);
}

TEST_CASE("fault NIC: all faults at once lose or add nothing that they don't count") {
  FaultPair pair;
  pair.apply(
      *pair.a,
      "loss=0.05,burst-loss=0.01/0.3,duplicate=0.05,reorder=0.1/4,delay=20us/10us,corrupt=0.05,"
      "truncate=0.02,partial-burst=0.3,late-reap=15us,seed=11");
  pair.apply(*pair.b, "rx.loss=0.05,rx.duplicate=0.05,rx.reorder=0.1,rx.delay=5us/20us,seed=12");
  std::uint64_t id = 0;
  std::uint64_t arrived = 0;
  for (int round = 0; round < 2000; ++round) {
    id += pair.send(id, 1 + static_cast<std::uint64_t>(round % 20));
    pair.pass(proto::microseconds(3));
    arrived += receive_all(*pair.b).size();
  }
  for (int round = 0; round < 10; ++round) {
    pair.pass(proto::milliseconds(2));
    for (const std::uint64_t cookie : reap_all(*pair.a)) pair.cookies.push_back(cookie);
    arrived += receive_all(*pair.b).size();
  }
  const auto& tx = pair.a->counts(Direction::tx);
  const auto& rx = pair.b->counts(Direction::rx);
  CHECK(arrived == id - tx.dropped + tx.duplicated - rx.dropped + rx.duplicated - rx.overflowed);
  for (const std::uint64_t count : {tx.dropped, tx.duplicated, tx.reordered, tx.delayed,
                                    tx.corrupted, tx.truncated, rx.dropped, rx.duplicated}) {
    CHECK(count > 100);
  }
  std::sort(pair.cookies.begin(), pair.cookies.end());
  REQUIRE(pair.cookies.size() == id);
  for (std::uint64_t i = 0; i < id; ++i) REQUIRE(pair.cookies[i] == i);
  CHECK(pair.pool.in_use() == 0);
  CHECK(pair.a->next_release() == proto::kNever);
  CHECK(pair.b->next_release() == proto::kNever);
}

TEST_CASE("fault NIC: a dead NIC swallows with good completions, hears nothing, and tells nobody") {
  FaultPair pair;
  const RemoteHandle to_a = open(*pair.b, *pair.a);
  pair.apply(*pair.a, "delay=10us");
  CHECK(pair.send(0, 5) == 5);
  pair.apply(*pair.a, "kill");
  CHECK(pair.send(5, 5) == 5);
  CHECK(pair.send(200, 5, Queue::control) == 5);
  CHECK(pair.cookies.size() == 15);
  Burst towards(pair.pool);
  towards.add({.id = 1, .remote = to_a});
  towards.add({.id = 2, .remote = to_a, .queue = Queue::control});
  CHECK(towards.send(*pair.b) == 2);
  CHECK(receive_all(*pair.a).empty());
  CHECK(receive_all(*pair.a, Queue::control).empty());
  pair.pass(proto::milliseconds(5));
  CHECK(pair.receive().empty());
  CHECK(pair.receive(Queue::control).empty());
  CHECK(events_of(*pair.a).empty());
  (void)reap_all(*pair.b);
  CHECK(pair.pool.in_use() == 0);

  pair.apply(*pair.a, "revive,delay=0");
  CHECK(pair.send(20, 3) == 3);
  CHECK(pair.receive() == Ids{20, 21, 22});  // held packets died with it
  CHECK(events_of(*pair.a).empty());
}

TEST_CASE("fault NIC: death and return with events") {
  FaultPair pair;
  pair.apply(*pair.a, "kill:event");
  CHECK(events_of(*pair.a) == std::vector{NicEvent::Kind::down});
  pair.apply(*pair.a, "revive:event");
  pair.apply(*pair.a, "kill:event");
  CHECK(events_of(*pair.a) == std::vector{NicEvent::Kind::up, NicEvent::Kind::down});
  CHECK(events_of(*pair.a).empty());
  for (int i = 0; i < 100; ++i) pair.apply(*pair.a, "kill:event");  // unread events are bounded
  CHECK(events_of(*pair.a).size() <= 32);
}

TEST_CASE("fault NIC: it moves only where the NIC that it wraps can") {
  FaultPair pair;
  const auto refused = pair.a->apply("kill,revive:moved");
  REQUIRE(refused.has_value());
  CHECK(refused->word == "revive:moved");
  CHECK_FALSE(pair.a->settings().dead);
  CHECK(events_of(*pair.a).empty());
  int moves = 0;
  FaultPairConfig config;
  config.b.move = [&] { ++moves; };
  FaultPair other(std::move(config));
  other.apply(*other.b, "kill");
  other.apply(*other.b, "revive:moved");
  CHECK(moves == 1);
  CHECK_FALSE(other.b->settings().dead);
  CHECK(events_of(*other.b) == std::vector{NicEvent::Kind::up});
}

TEST_CASE("fault NIC: packets that arrived before a reception died are lost with it") {
  FaultPair pair;
  pair.apply(*pair.b, "rx.delay=10us");
  CHECK(pair.send(0, 3) == 3);
  CHECK(pair.receive().empty());
  pair.apply(*pair.b, "kill");
  pair.apply(*pair.b, "revive,rx.delay=0");
  pair.pass(proto::milliseconds(1));
  CHECK(pair.receive().empty());
  CHECK(pair.b->counts(Direction::rx).dropped == 3);
}

TEST_CASE("fault NIC: a black hole faces one way") {
  FaultPair pair;
  const RemoteHandle to_a = open(*pair.b, *pair.a);
  const auto back = [&] {
    Burst burst(pair.pool);
    burst.add({.id = 7, .remote = to_a});
    CHECK(burst.send(*pair.b) == 1);
    (void)reap_all(*pair.b);
    return receive_all(*pair.a).size();
  };
  pair.apply(*pair.a, "blackhole=tx");
  CHECK(pair.send(0, 2) == 2);
  CHECK(pair.receive().empty());
  CHECK(back() == 1);
  pair.apply(*pair.a, "blackhole=rx");
  CHECK(pair.send(0, 2) == 2);
  CHECK(pair.receive() == Ids{0, 1});
  CHECK(back() == 0);
  pair.apply(*pair.a, "blackhole=both");
  CHECK(pair.send(0, 2) == 2);
  CHECK(pair.receive().empty());
  CHECK(back() == 0);
  pair.apply(*pair.a, "blackhole=none");
  CHECK(pair.send(0, 2) == 2);
  CHECK(pair.receive() == Ids{0, 1});
  CHECK(back() == 1);
}

TEST_CASE("fault NIC: a degraded NIC carries its rate and queues no more than it should") {
  FaultPair pair;
  pair.apply(*pair.a, "rate=100000000");  // 132 bytes take 1.32 us
  std::uint64_t arrived = 0, sent = 0;
  for (int us = 0; us < 20'000; us += 20) {  // 40 packets in 20 us are 2.6 times too many
    sent += pair.send(sent, 40);
    pair.pass(proto::microseconds(20));
    arrived += receive_all(*pair.b).size();
  }
  const double bytes = static_cast<double>(arrived) * 132;
  const double carried = 0.02 * 1e8 + engine::FaultJudge::kRateBurstBytes;
  CHECK(bytes == Approx(carried).epsilon(0.02));
  CHECK(sent > arrived);
  pair.apply(*pair.a, "rate=none");
  pair.pass(proto::milliseconds(50));
  (void)receive_all(*pair.b);
  (void)reap_all(*pair.a);
  CHECK(pair.send(0, 100) == 100);
  CHECK(receive_all(*pair.b).size() == 100);
}

TEST_CASE("fault NIC: late reaps come late, and all of them") {
  FaultPair pair;
  pair.apply(*pair.a, "late-reap=100us");
  CHECK(pair.send(0, 10) == 10);
  CHECK(pair.receive().size() == 10);  // the packets don't wait
  CHECK(pair.cookies.empty());
  CHECK(pair.a->next_release() == pair.now + proto::microseconds(100));
  pair.pass(proto::microseconds(99));
  CHECK(reap_all(*pair.a).empty());
  pair.pass(proto::microseconds(1));
  CHECK(reap_all(*pair.a).size() == 10);
  CHECK(pair.a->next_release() == proto::kNever);
}

TEST_CASE("fault NIC: a partial burst takes a part from the front, at least one packet") {
  FaultPair pair;
  pair.apply(*pair.a, "partial-burst=1");
  std::set<std::size_t> sizes;
  for (int i = 0; i < 200; ++i) {
    const std::size_t taken = pair.send(0, 10);
    CHECK((taken >= 1 && taken < 10));
    sizes.insert(taken);
    Ids expected(taken);
    for (std::uint64_t id = 0; id < taken; ++id) expected[id] = id;
    CHECK(pair.receive() == expected);
  }
  CHECK(sizes.size() == 9);
  CHECK(pair.send(0, 1) == 1);
  CHECK(pair.pool.in_use() == 0);
}

TEST_CASE("fault NIC: with every slot taken sending meets back-pressure and arrivals are lost") {
  FaultPairConfig config;
  config.a.held_packets = 8;
  config.b.held_packets = 8;
  FaultPair pair(std::move(config));
  pair.apply(*pair.a, "delay=10us");
  std::size_t taken = 0;
  for (int i = 0; i < 5; ++i) taken += pair.send(taken, 5);
  CHECK(taken >= 7);
  CHECK(taken <= 8);
  pair.pass(proto::microseconds(10));
  CHECK(pair.receive().size() == taken);
  CHECK(pair.send(0, 1) == 1);
  pair.pass(proto::microseconds(10));
  CHECK(pair.receive().size() == 1);

  pair.apply(*pair.a, "clear");
  pair.apply(*pair.b, "rx.delay=10us");
  CHECK(pair.send(0, 20) == 20);
  CHECK(pair.receive().empty());
  pair.pass(proto::microseconds(10));
  CHECK(pair.receive() == Ids{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(pair.b->counts(Direction::rx).overflowed == 12);
}

TEST_CASE(
    "fault NIC: a packet that waits is sent though its remote was closed, and to nobody else") {
  FaultPairConfig config;
  config.memory.max_remotes = 1;
  FaultPair pair(std::move(config));
  pair.apply(*pair.a, "delay=10us");
  CHECK(pair.send(0, 2) == 2);
  pair.a->close_remote(pair.to_b);
  // The handle isn't free yet, since reusing it would lead the waiting packet elsewhere.
  RemoteHandle self{};
  CHECK(pair.a->open_remote(pair.a->address(), self) == Status::again);
  pair.pass(proto::microseconds(10));
  CHECK(pair.receive() == Ids{0, 1});
  CHECK(pair.a->open_remote(pair.a->address(), self) == Status::ok);
}

TEST_CASE("fault NIC: it says what is wrong with a specification and keeps the old one") {
  FaultPair pair;
  pair.apply(*pair.a, "loss=1");
  const auto error = pair.a->apply("duplicate=1,jitter=4us");
  REQUIRE(error);
  CHECK(error->word == "jitter=4us");
  CHECK(pair.a->settings().tx.duplicate == 0);
  CHECK(pair.send(0, 3) == 3);
  CHECK(pair.receive().empty());

  FaultPairConfig config;
  config.memory.needs_checksum = false;
  FaultPair trusted(std::move(config));
  REQUIRE(trusted.a->apply("loss=1,corrupt=0.1"));
  CHECK(trusted.a->apply("corrupt=0.1")->word == "corrupt");
  CHECK(trusted.send(0, 3) == 3);
  CHECK(trusted.receive().size() == 3);
}

TEST_CASE("fault NIC: it holds no datagram longer than it says") {
  FaultPairConfig config;
  config.a.max_datagram_bytes = 2000;
  config.b.max_datagram_bytes = 2000;
  FaultPair pair(std::move(config));
  CHECK(pair.a->caps().max_datagram_bytes == 2000);
  pair.apply(*pair.a, "delay=1us");
  pair.apply(*pair.b, "rx.delay=1us");
  CHECK(pair.send(0, 1, Queue::data, 1968) == 1);
  CHECK(pair.send(1, 1, Queue::data, 1969) == 1);
  pair.pass(proto::microseconds(1));
  (void)receive_all(*pair.b);
  pair.pass(proto::microseconds(1));
  CHECK(pair.receive(Queue::data, 2, 1968) == Ids{0});
  // A NIC without that limit can send a packet that is too long to be held.
  pair.apply(*pair.a, "clear");
  CHECK(pair.send(2, 1, Queue::data, 3000) == 1);
  CHECK(pair.receive().empty());
  CHECK(pair.b->counts(Direction::rx).overflowed == 1);
}

TEST_CASE("fault NIC: a configuration that can't work is refused in words") {
  SimplePool pool(4);
  const auto fabric = std::make_shared<engine::MemoryFabric>();
  const auto make = [&](FaultNicConfig config) {
    return FaultNic(std::make_unique<engine::MemoryNic>(fabric, engine::MemoryNicConfig{}, pool),
                    pool, std::move(config));
  };
  CHECK_THROWS_AS(make({.held_packets = 1}), Error);
  CHECK_THROWS_AS(make({.completions = 0}), Error);
  CHECK_THROWS_AS(make({.max_remotes = 0}), Error);
}

TEST_CASE("fault NIC: nothing is taken from the heap, whatever the faults") {
  FaultPair pair;
  std::vector<PacketBuffer*> buffers(64);
  std::vector<std::byte> payload(1000);
  std::array<RxPacket, 64> arrived;
  std::array<std::uint64_t, 64> cookies;
  const HeapGuard guard;
  pair.apply(*pair.a, "loss=0.1,duplicate=0.1,reorder=0.2,delay=1us/5us,corrupt=0.1,late-reap=2us");
  pair.apply(*pair.b,
             "rx.loss=0.1,rx.duplicate=0.1,rx.reorder=0.2,rx.delay=1us/5us,rx.truncate=0.1");
  std::uint64_t received = 0;
  for (int round = 0; round < 300; ++round) {
    std::array<TxPacket, 32> packets;
    const std::size_t count = pair.pool.take(std::span(buffers).first(packets.size()));
    for (std::size_t i = 0; i < count; ++i) {
      packets[i] = {.buffer = buffers[i],
                    .header_bytes = 64,
                    .payload_bytes = 1000,
                    .payload = payload.data(),
                    .remote = pair.to_b,
                    .queue = i % 4 == 0 ? Queue::control : Queue::data,
                    .cookie = i};
    }
    const std::size_t taken = pair.a->tx_burst(std::span(packets).first(count));
    pair.pool.give(std::span(buffers).first(count).subspan(taken));
    pair.pass(proto::microseconds(1));
    while (pair.a->reap(cookies) > 0) {
    }
    for (const Queue queue : {Queue::data, Queue::control}) {
      received += pair.b->rx_burst(queue, arrived);
    }
  }
  CHECK(guard.allocations() == 0);
  CHECK(received > 5000);
}

}  // namespace hawser::test
