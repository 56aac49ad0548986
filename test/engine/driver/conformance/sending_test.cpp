// SPDX-License-Identifier: Apache-2.0
// The NIC contract, sentence by sentence: who owns which memory between tx_burst and reap.
#include <numeric>

#include "test/engine/driver/conformance/rigs.hpp"

namespace hawser::test {
namespace {

std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("a cookie comes out of reap once and its buffer is back in the pool",
                   "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 40; ++id) {
    burst.add({.id = id,
               .payload_bytes = 100,
               .remote = to,
               .queue = id % 3 == 0 ? Queue::control : Queue::data});
  }
  rig.send_all(sender, burst);
  CHECK(rig.reap_rest(sender) == numbers(0, 40));
  CHECK(rig.reap_rest(sender).empty());
  (void)rig.settle(receiver);
  (void)rig.settle(receiver, Queue::control);
  CHECK(rig.reap_rest(sender).empty());
  CHECK(rig.pool.in_use() == 0);
}

TEMPLATE_TEST_CASE("a send without a cookie is reaped in silence", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 8; ++id) {
    burst.add({.id = id, .remote = to, .with_cookie = id % 2 == 1});
  }
  rig.send_all(sender, burst);
  CHECK(rig.reap_rest(sender) == std::vector<std::uint64_t>{1, 3, 5, 7});
  CHECK(rig.settle(receiver).size() == 8);
  CHECK(rig.reap_rest(sender).empty());
  CHECK(rig.pool.in_use() == 0);
}

TEMPLATE_TEST_CASE("reap gives no more cookies than there is room for, and loses none",
                   "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 10; ++id) burst.add({.id = id, .remote = to});
  rig.send_all(sender, burst);
  rig.pass_time();
  CHECK(sender.reap({}) == 0);
  std::array<std::uint64_t, 3> few;
  REQUIRE(sender.reap(few) == 3);
  std::vector<std::uint64_t> all(few.begin(), few.end());
  for (const std::uint64_t cookie : rig.reap_rest(sender)) all.push_back(cookie);
  std::sort(all.begin(), all.end());
  CHECK(all == numbers(0, 10));
}

TEMPLATE_TEST_CASE("cookies are 63 bits, all of them", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  const std::vector<std::uint64_t> cookies{0, 0x7fff'5555'0000'1234, TxPacket::kDriverCookies - 1};
  Burst burst(rig.pool);
  for (const std::uint64_t cookie : cookies) burst.add({.id = cookie, .remote = to});
  rig.send_all(sender, burst);
  (void)rig.settle(receiver);
  CHECK(rig.reap_rest(sender) == cookies);
}

TEMPLATE_TEST_CASE("a full NIC takes a prefix, the rest stays the caller's until it has reaped",
                   "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  // Sends more than any ring here holds, without a reap in between.
  std::uint64_t id = 0;
  std::uint64_t arrived = 0;
  for (bool refused = false; !refused;) {
    REQUIRE(id < 100'000);
    REQUIRE(rig.pool.in_use() < 4096 - 32);
    Burst burst(rig.pool);
    const std::uint64_t first = id;
    for (int i = 0; i < 32; ++i) burst.add({.id = id++, .header_bytes = 16, .remote = to});
    const std::size_t taken = burst.send(sender);
    REQUIRE(taken <= 32);
    refused = taken < 32;
    // The NIC has not touched the packets that it refused.
    for (std::size_t i = taken; i < 32; ++i) {
      const TxPacket& packet = burst.packets()[i];
      CHECK(std::memcmp(packet.buffer->bytes, datagram(first + i, 16).data(), 16) == 0);
    }
    id = first + taken;
    burst.abandon();
    arrived += receive_all(receiver).size();  // the receiver keeps up
  }
  arrived += rig.settle(receiver).size();
  CHECK(rig.reap_rest(sender) == numbers(0, id));
  arrived += rig.settle(receiver).size();
  CHECK(arrived == id);
  CHECK(rig.pool.in_use() == 0);

  Burst burst(rig.pool);
  burst.add({.id = 1, .remote = to});
  rig.send_all(sender, burst);
  CHECK(rig.settle(receiver).size() == 1);
}

TEMPLATE_TEST_CASE("what cannot be sent is taken, lost and reaped", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  burst.add({.id = 0, .remote = to});
  burst.add({.id = 1, .payload_bytes = 70'000, .remote = to});  // too long
  burst.add({.id = 2, .remote = to});
  burst.add({.id = 3, .remote = RemoteHandle{kRigRemotes - 1}});  // not open
  burst.add({.id = 4, .remote = RemoteHandle{kRigRemotes + 100}});
  burst.add({.id = 5, .remote = proto::kNoRemote});
  burst.add({.id = 6, .remote = to});
  rig.send_all(sender, burst);
  CHECK(rig.reap_rest(sender) == numbers(0, 7));
  const auto arrived = rig.settle(receiver);
  REQUIRE(arrived.size() == 3);
  CHECK(arrived[0] == datagram(0, 32));
  CHECK(arrived[1] == datagram(2, 32));
  CHECK(arrived[2] == datagram(6, 32));
  CHECK(rig.reap_rest(sender).empty());
  CHECK(rig.pool.in_use() == 0);
}

TEMPLATE_TEST_CASE("sends to a remote that was closed are still reaped", "[conformance]",
                   HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 5; ++id) burst.add({.id = id, .remote = to});
  rig.send_all(sender, burst);
  sender.close_remote(to);
  CHECK(rig.settle(receiver).size() == 5);
  CHECK(rig.reap_rest(sender) == numbers(0, 5));
  CHECK(rig.pool.in_use() == 0);
}

TEMPLATE_TEST_CASE("sends to a NIC that is gone are reaped", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& gone = rig.make();
  Nic& other = rig.make();
  const RemoteHandle to_gone = open(sender, gone);
  const RemoteHandle to_other = open(sender, other);
  rig.destroy(gone);
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 20; ++id) {
    burst.add({.id = id, .remote = id % 2 == 0 ? to_gone : to_other});
  }
  rig.send_all(sender, burst);
  CHECK(rig.settle(other).size() == 10);
  CHECK(rig.reap_rest(sender) == numbers(0, 20));
  CHECK(rig.pool.in_use() == 0);
}

TEMPLATE_TEST_CASE("after the reap nothing reads header or payload", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 20; ++id) {
    burst.add({.id = id, .header_bytes = 64, .payload_bytes = 900 + id, .remote = to});
  }
  rig.send_all(sender, burst);
  REQUIRE(rig.reap_rest(sender).size() == 20);  // the pool poisons what comes back
  burst.scribble();
  const auto arrived = rig.settle(receiver);
  REQUIRE(arrived.size() == 20);
  for (std::uint64_t id = 0; id < 20; ++id) CHECK(arrived[id] == datagram(id, 964 + id));
}

TEMPLATE_TEST_CASE("an empty burst is nothing", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& nic = rig.make();
  CHECK(nic.tx_burst({}) == 0);
  CHECK(nic.rx_burst(Queue::data, {}) == 0);
  CHECK(nic.rx_burst(Queue::control, {}) == 0);
  CHECK(nic.events({}) == 0);
  CHECK(nic.descriptors({}) == 0);
}

TEMPLATE_TEST_CASE("payload from registered memory arrives like any other", "[conformance]",
                   HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  Burst burst(rig.pool);
  burst.add({.id = 9, .payload_bytes = 500, .remote = to});
  const TxPacket& packet = burst.packets().front();
  const Status status = sender.register_memory(packet.payload, packet.payload_bytes);
  CHECK((status == Status::ok || status == Status::nic_error || status == Status::unsupported));
  rig.send_all(sender, burst);
  const auto arrived = rig.settle(receiver);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0] == datagram(9, 532));
  CHECK(rig.reap_rest(sender).size() == 1);
  sender.deregister_memory(packet.payload, packet.payload_bytes);
}

}  // namespace hawser::test
