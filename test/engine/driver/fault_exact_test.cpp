// SPDX-License-Identifier: Apache-2.0
// The fault NIC, one exact fault at a time, on the sending and on the receiving side: both sides
// must do the same to the stream of datagrams.
#include "test/engine/driver/fault_pair.hpp"

namespace hawser::test {
namespace {

// A pair whose faults are on side `direction`, from a to b.
FaultPairConfig faulty(Direction direction, std::vector<std::pair<std::uint64_t, Fate>> fates,
                       Queue queue = Queue::data) {
  FaultPairConfig config;
  (direction == Direction::tx ? config.a : config.b).hook =
      script(direction, queue, std::move(fates));
  return config;
}

const engine::FaultCounts& counts(const FaultPair& pair, Direction direction) {
  return (direction == Direction::tx ? pair.a : pair.b)->counts(direction);
}

bool is_all_quiet(FaultPair& pair) {
  return pair.pool.in_use() == 0 && pair.a->next_release() == proto::kNever &&
         pair.b->next_release() == proto::kNever;
}

}  // namespace

TEST_CASE("fault NIC: drops packet 7, once, and nothing else") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(direction, {{7, Fate{.drop = true}}}));
  CHECK(pair.send(0, 12) == 12);
  CHECK(pair.send(12, 4) == 4);
  CHECK(pair.receive() == Ids{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(counts(pair, direction).dropped == 1);
  std::sort(pair.cookies.begin(), pair.cookies.end());
  CHECK(pair.cookies == Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(is_all_quiet(pair));
}

TEST_CASE("fault NIC: a duplicate comes right after its original") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(direction, {{2, Fate{.duplicate = true}}, {5, Fate{.duplicate = true}}}));
  CHECK(pair.send(0, 6) == 6);
  CHECK(pair.receive() == Ids{0, 1, 2, 2, 3, 4, 5, 5});
  CHECK(counts(pair, direction).duplicated == 2);
  (void)reap_all(*pair.a);
  CHECK(is_all_quiet(pair));
}

TEST_CASE("fault NIC: a reordered packet is overtaken by exactly so many of its queue") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(direction, {{1, Fate{.overtaken_by = 3}}, {6, Fate{.overtaken_by = 1}}}));
  CHECK(pair.send(0, 10) == 10);
  CHECK(pair.receive() == Ids{0, 2, 3, 4, 1, 5, 7, 6, 8, 9});
  CHECK(counts(pair, direction).reordered == 2);
  (void)reap_all(*pair.a);
  CHECK(is_all_quiet(pair));
}

TEST_CASE("fault NIC: a reordered packet that nobody overtakes comes after a millisecond") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(direction, {{2, Fate{.overtaken_by = 5}}}));
  CHECK(pair.send(0, 4) == 4);
  CHECK(pair.receive() == Ids{0, 1, 3});
  FaultNic& faulty_nic = direction == Direction::tx ? *pair.a : *pair.b;
  CHECK(faulty_nic.next_release() == pair.now + proto::milliseconds(1));
  pair.pass(proto::microseconds(999));
  CHECK(pair.receive().empty());
  pair.pass(proto::microseconds(1));
  CHECK(pair.receive() == Ids{2});
  (void)reap_all(*pair.a);
  CHECK(is_all_quiet(pair));
}

TEST_CASE("fault NIC: the other queue neither overtakes nor is touched") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(direction, {{0, Fate{.overtaken_by = 1}}}));
  CHECK(pair.send(0, 1) == 1);
  CHECK(pair.send(100, 3, Queue::control) == 3);
  CHECK(pair.receive(Queue::control) == Ids{100, 101, 102});
  CHECK(pair.receive().empty());
  CHECK(pair.send(1, 1) == 1);
  CHECK(pair.receive() == Ids{1, 0});
}

TEST_CASE("fault NIC: a delayed packet comes when its time has come, not before") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(direction, {{0, Fate{.delay = proto::microseconds(50)}},
                                    {1, Fate{.delay = proto::microseconds(20)}}}));
  FaultNic& faulty_nic = direction == Direction::tx ? *pair.a : *pair.b;
  const proto::Time start = pair.now;
  CHECK(pair.send(0, 3) == 3);
  CHECK(pair.cookies.size() == 3);  // the sender gets its buffers back at once
  CHECK(pair.receive() == Ids{2});
  CHECK(faulty_nic.next_release() == start + proto::microseconds(20));
  pair.pass(proto::microseconds(20));
  CHECK(pair.receive() == Ids{1});
  CHECK(faulty_nic.next_release() == start + proto::microseconds(50));
  pair.pass(proto::microseconds(29));
  CHECK(pair.receive().empty());
  pair.pass(proto::microseconds(1));
  CHECK(pair.receive() == Ids{0});
  CHECK(counts(pair, direction).delayed == 2);
  (void)reap_all(*pair.a);
  CHECK(is_all_quiet(pair));
}

TEST_CASE("fault NIC: damage changes bits of one packet and its length never") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(direction, {{1, Fate{.corrupt = true}}}));
  CHECK(pair.send(0, 3) == 3);
  const auto arrived = receive_all(*pair.b);
  REQUIRE(arrived.size() == 3);
  CHECK(arrived[0] == datagram(0, 132));
  CHECK(arrived[1] != datagram(1, 132));
  CHECK(arrived[1].size() == 132);
  CHECK(arrived[2] == datagram(2, 132));
  CHECK(counts(pair, direction).corrupted == 1);
}

TEST_CASE("fault NIC: a truncated packet is the beginning of what it was") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  std::vector<std::pair<std::uint64_t, Fate>> fates;
  for (std::uint64_t i = 0; i < 100; ++i) fates.push_back({i, Fate{.truncate = true}});
  FaultPair pair(faulty(direction, fates));
  for (std::uint64_t id = 0; id < 100; ++id) CHECK(pair.send(id, 1) == 1);
  const auto arrived = receive_all(*pair.b);
  REQUIRE(arrived.size() == 100);
  bool in_header = false;
  bool in_payload = false;
  for (std::uint64_t id = 0; id < 100; ++id) {
    auto whole = datagram(id, 132);
    REQUIRE(!arrived[id].empty());
    REQUIRE(arrived[id].size() < 132);
    (arrived[id].size() < 32 ? in_header : in_payload) = true;
    whole.resize(arrived[id].size());
    CHECK(arrived[id] == whole);
  }
  CHECK(in_header);
  CHECK(in_payload);
}

TEST_CASE("fault NIC: faults of one packet compose") {
  const Direction direction = GENERATE(Direction::tx, Direction::rx);
  FaultPair pair(faulty(
      direction, {{1, Fate{.duplicate = true, .corrupt = true, .delay = proto::microseconds(5)}},
                  {2, Fate{.drop = true, .duplicate = true}}}));
  CHECK(pair.send(0, 4) == 4);
  CHECK(pair.receive() == Ids{0, 3});
  pair.pass(proto::microseconds(5));
  CHECK(pair.receive() == Ids{FaultPair::kDamaged, 1});  // the duplicate is whole
  (void)reap_all(*pair.a);
  CHECK(is_all_quiet(pair));
}

TEST_CASE("fault NIC: the hook sees what is sent, and every packet once") {
  struct Seen {
    std::size_t header = 0;
    std::size_t payload = 0;
    std::uint32_t remote = 0;
    Direction direction{};
  };
  std::vector<Seen> seen;
  FaultPairConfig config;
  config.a.hook = [&](const FaultPacket& packet) -> std::optional<Fate> {
    seen.push_back({packet.header.size(), packet.payload.size(),
                    static_cast<std::uint32_t>(packet.remote), packet.direction});
    return std::nullopt;
  };
  config.memory.send_slots = 4;  // the inner NIC takes 4 at a time
  FaultPair pair(std::move(config));
  std::uint64_t id = 0;
  for (int round = 0; round < 20; ++round) id += pair.send(id, 10);
  REQUIRE(id > 40);
  Ids expected(id);
  for (std::uint64_t i = 0; i < id; ++i) expected[i] = i;
  pair.pass(proto::microseconds(1));
  (void)reap_all(*pair.a);
  for (int round = 0; round < 20; ++round) {
    pair.pass(proto::microseconds(1));
    (void)reap_all(*pair.a);
  }
  CHECK(pair.receive() == expected);
  REQUIRE(seen.size() == id);
  for (const Seen& packet : seen) {
    CHECK(packet.header == 32);
    CHECK(packet.payload == 100);
    CHECK(packet.remote == static_cast<std::uint32_t>(pair.to_b));
    CHECK(packet.direction == Direction::tx);
  }
  CHECK(pair.cookies.size() == id);
}

TEST_CASE("fault NIC: an exact drop holds though the inner NIC is full at that moment") {
  FaultPairConfig config = faulty(Direction::tx, {{6, Fate{.drop = true}}});
  config.memory.send_slots = 4;
  FaultPair pair(std::move(config));
  std::uint64_t id = 0;
  for (int round = 0; round < 30; ++round) {
    id += pair.send(id, 5);
    pair.pass(proto::microseconds(1));
  }
  Ids expected;
  for (std::uint64_t i = 0; i < id; ++i) {
    if (i != 6) expected.push_back(i);
  }
  for (int round = 0; round < 10; ++round) {
    (void)reap_all(*pair.a);
    pair.pass(proto::microseconds(1));
  }
  CHECK(pair.receive() == expected);
}

TEST_CASE("fault NIC: a reordered packet is overtaken exactly, though the inner NIC is full") {
  FaultPairConfig config = faulty(Direction::tx, {{2, Fate{.overtaken_by = 5}}});
  config.memory.send_slots = 4;
  FaultPair pair(std::move(config));
  std::uint64_t id = 0;
  Ids arrived;
  for (int round = 0; round < 20 && id < 12; ++round) {
    id += pair.send(id, 12 - id);
    pair.pass(proto::microseconds(1));
    for (const std::uint64_t got : pair.receive()) arrived.push_back(got);
  }
  CHECK(arrived == Ids{0, 1, 3, 4, 5, 6, 7, 2, 8, 9, 10, 11});
}

TEST_CASE("fault NIC: what the inner NIC refused goes first, and until then nothing is taken") {
  FaultPairConfig config = faulty(Direction::tx, {});
  config.memory.send_slots = 4;
  FaultPair pair(std::move(config));
  Burst burst(pair.pool);
  for (std::uint64_t id = 0; id < 30; ++id) {
    burst.add({.id = id, .payload_bytes = 100, .remote = pair.to_b});
  }
  const std::size_t first = burst.send(*pair.a);
  REQUIRE(first >= 4);
  if (first < 30) CHECK(burst.send(*pair.a) == 0);
  Burst late(pair.pool);
  late.add({.id = 99, .payload_bytes = 100, .remote = pair.to_b});
  CHECK(late.send(*pair.a) == 0);
  CHECK(pair.receive() == Ids{0, 1, 2, 3});
  (void)reap_all(*pair.a);
  pair.pass(proto::microseconds(1));
  CHECK(pair.receive() == Ids{4, 5, 6, 7});
  burst.abandon();
  late.abandon();
}

TEST_CASE("fault NIC: sends wait for reap in a bounded place, then meet back-pressure") {
  FaultPairConfig config;
  config.a.completions = 8;
  FaultPair pair(std::move(config));
  pair.apply(*pair.a, "loss=1");
  Burst burst(pair.pool);
  for (std::uint64_t id = 0; id < 20; ++id) burst.add({.id = id, .remote = pair.to_b});
  CHECK(burst.send(*pair.a) == 8);
  CHECK(burst.send(*pair.a) == 0);
  CHECK(reap_all(*pair.a).size() == 8);
  CHECK(burst.send(*pair.a) == 8);
  CHECK(reap_all(*pair.a).size() == 8);
  CHECK(burst.send(*pair.a) == 4);
  CHECK(reap_all(*pair.a).size() == 4);
  CHECK(pair.pool.in_use() == 0);
}

TEST_CASE("fault NIC: a hole in a burst doesn't make the ring look empty") {
  // Half of the 64 are dropped on arrival, so the call must look for more behind them.
  FaultPairConfig config;
  config.b.hook = [n = 0](const FaultPacket& packet) mutable -> std::optional<Fate> {
    if (packet.direction != Direction::rx) return std::nullopt;
    return Fate{.drop = n++ % 2 == 0};
  };
  config.memory.data_slots = 256;
  FaultPair pair(std::move(config));
  CHECK(pair.send(0, 200) == 200);
  std::array<RxPacket, 64> packets;
  REQUIRE(pair.b->rx_burst(Queue::data, packets) == 64);
  // The call took several bursts of the inner NIC, so the ring has room for senders again.
  CHECK(pair.send(500, 184) == 184);
  for (std::uint64_t i = 0; i < 64; ++i) CHECK(equals(packets[i], datagram(2 * i + 1, 132)));
  REQUIRE(pair.b->rx_burst(Queue::data, packets) == 64);
  for (std::uint64_t i = 0; i < 36; ++i) CHECK(equals(packets[i], datagram(129 + 2 * i, 132)));
  for (std::uint64_t i = 36; i < 64; ++i) {
    CHECK(equals(packets[i], datagram(501 + 2 * (i - 36), 132)));
  }
}

}  // namespace hawser::test
