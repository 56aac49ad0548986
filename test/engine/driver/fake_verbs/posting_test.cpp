// SPDX-License-Identifier: Apache-2.0
// The verbs NIC over a device that accepts only some of the requests it is given, or none.
#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using fake::Call;
using fake::Side;
using Kind = proto::NicEvent::Kind;
using Two = TwoNics<PooledVerbsRig>;
using BareTwo = TwoNics<BareVerbsRig>;

}  // namespace

TEST_CASE("verbs NIC: what is handed over bit by bit goes out by one doorbell, with the flush") {
  Two two;
  std::array<PacketBuffer*, 40> buffers;
  REQUIRE(two.rig.pool.take(buffers) == buffers.size());
  const auto hand_over = [&](std::size_t i) {
    fill({buffers[i]->bytes, 200}, i);
    const TxPacket packet{
        .buffer = buffers[i], .header_bytes = 200, .remote = two.to_theirs, .cookie = i};
    REQUIRE(two.mine.tx_burst({&packet, 1}) == 1);
  };
  const auto doorbells = [&] { return two.mine.stats(Queue::data).send.doorbells; };
  for (std::size_t i = 0; i < 7; ++i) hand_over(i);
  CHECK(two.reap().empty());
  CHECK(two.rig.settle(two.theirs).empty());
  CHECK(doorbells() == 0);
  two.mine.flush();
  CHECK(doorbells() == 1);
  CHECK(two.rig.settle(two.theirs).size() == 7);
  CHECK(two.reap().size() == 7);
  for (std::size_t i = 7; i < 40; ++i) hand_over(i);  // a full chain goes out
  CHECK(doorbells() == 2);
  CHECK(two.rig.settle(two.theirs).size() == 32);
  CHECK(two.reap().size() == 32);
  two.mine.flush();
  two.mine.flush();
  CHECK(doorbells() == 3);
  CHECK(two.rig.settle(two.theirs).size() == 1);
  CHECK(two.reap().size() == 1);
}

TEST_CASE("verbs NIC: what was not flushed is lost with a failure, and comes out of reap") {
  Two two;
  two.fabric().hold(true);
  two.send(0, 10);
  PacketBuffer* buffer = nullptr;
  REQUIRE(two.rig.pool.take({&buffer, 1}) == 1);
  const TxPacket packet{
      .buffer = buffer, .header_bytes = 200, .remote = two.to_theirs, .cookie = 10};
  REQUIRE(two.mine.tx_burst({&packet, 1}) == 1);
  two.fabric().raise_of_pair(pair_number(two.mine, Queue::data), IBV_EVENT_QP_FATAL);
  REQUIRE(hears(two.mine, Kind::down));
  two.mine.flush();
  REQUIRE(hears(two.mine, Kind::up));
  two.fabric().hold(false);
  CHECK(two.reap().size() == 11);
  CHECK(two.mine.stats(Queue::data).send.lost == 1);
  two.works();
}

TEST_CASE("verbs NIC: a chain of sends is refused from any request on") {
  for (const std::uint64_t taken : {0u, 1u, 5u, 31u, 32u, 33u, 63u}) {
    for (const bool held : {false, true}) {
      CAPTURE(taken, held);
      Two two;
      two.fabric().hold(held);
      two.fabric().refuse_after(Side::send, taken, ENOMEM);
      two.send(0, 64);  // the NIC takes all of them, to be sent or lost
      std::size_t reaped = two.reap().size();
      // Sends behind a chain that has ended are lost and end with it. No send of a chain that the
      // device took in part has ended yet.
      const std::uint64_t went = devices_are_extended() ? taken / 32 * 32 : taken;  // all or none
      const bool whole = went % 32 == 0 && (!held || went == 0);
      CHECK(reaped == (whole ? 64 : held ? 0 : went / 32 * 32));
      REQUIRE(hears(two.mine, Kind::down));
      two.send(100, 10);  // lost, after the others
      REQUIRE(hears(two.mine, Kind::up));
      two.fabric().hold(false);
      CHECK(two.rig.settle(two.theirs).size() == (held ? 0 : went));
      CHECK(two.mine.stats(Queue::data).send.lost == 64 - went + 10);
      reaped += two.reap().size();
      CHECK(reaped == 74);
      two.works();
    }
  }
}

TEST_CASE("verbs NIC: a chain of sends is refused, the copied ones too") {
  for (const std::uint64_t taken : {0u, 1u, 20u}) {
    CAPTURE(taken);
    BareTwo two;
    for (int round = 0; round < 20; ++round) {  // enough to notice a leak of copy slots
      two.fabric().refuse_after(Side::send, taken, ENOMEM);
      two.send(0, 32);
      const std::size_t early = two.reap().size();
      REQUIRE(hears(two.mine, Kind::down));
      REQUIRE(hears(two.mine, Kind::up));
      CHECK(early + two.reap().size() == 32);
    }
    two.works();
  }
}

TEST_CASE("verbs NIC: posting sends fails as a whole, with any error") {
  for (const int error : {EINVAL, ENOMEM, EIO, ENODEV, EAGAIN}) {
    CAPTURE(error);
    Two two;
    two.fabric().fail(Call::post_send, error);
    two.send(0, 40);
    two.recovers(40);
  }
}

TEST_CASE("verbs NIC: receive buffers are refused from any request on") {
  for (const std::uint64_t taken : {0u, 1u, 31u, 32u, 40u}) {
    CAPTURE(taken);
    Two two;
    two.fabric().refuse_after(Side::receive, taken, ENOMEM);
    std::size_t arrived = 0;
    for (std::uint64_t id = 0; id < 800; id += 20) {  // so many that posted buffers get filled
      two.send(id, 20);
      CHECK(two.reap().size() == 20);
      arrived += two.rig.settle(two.theirs).size();
    }
    CHECK(arrived < 800);
    CHECK(two.theirs.stats(Queue::data).receive.unexpected == 0);
    REQUIRE(hears(two.theirs, Kind::down));
    REQUIRE(hears(two.theirs, Kind::up));
    two.works();
  }
}

TEST_CASE("verbs NIC: a device that refuses receive buffers at the start is asked again") {
  PooledVerbsRig rig;
  rig.fabric.fail(Call::post_recv, ENOMEM);
  auto& mine = dynamic_cast<engine::VerbsNic&>(rig.make());
  auto& theirs = dynamic_cast<engine::VerbsNic&>(rig.make());
  REQUIRE(hears(mine, Kind::down));
  REQUIRE(hears(mine, Kind::up));
  CHECK(exchange(rig, theirs, open(theirs, mine), mine, 200) == 200);
}

TEST_CASE("verbs NIC: arming is refused") {
  Two two;
  two.fabric().fail(Call::req_notify_cq, EIO);
  two.send(0, 1);
  CHECK(two.rig.settle(two.theirs).size() == 1);
  REQUIRE(hears(two.theirs, Kind::down));
  REQUIRE(hears(two.theirs, Kind::up));
  CHECK(two.reap().size() == 1);
  two.works();
}

TEST_CASE("verbs NIC: memory that can't be registered is sent from by a copy") {
  BareTwo two;
  std::vector<std::byte> memory(4096);
  two.fabric().fail(Call::reg_mr, ENOMEM);
  CHECK(two.mine.register_memory(memory.data(), memory.size()) == Status::nic_error);
  two.send(0, 10);
  CHECK(two.rig.settle(two.theirs).size() == 10);
  CHECK(two.mine.stats(Queue::data).send.copied == 10);
  CHECK(two.reap().size() == 10);
  CHECK(two.mine.register_memory(memory.data(), memory.size()) == Status::ok);
  two.mine.deregister_memory(memory.data(), memory.size());
  two.works();
}

}  // namespace hawser::test
