// SPDX-License-Identifier: Apache-2.0
// The verbs NIC facing every completion that a device may report: errors of each kind, and reports
// that make no sense. No cookie is lost or comes twice, and the NIC works again.
#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using fake::Side;
using Kind = proto::NicEvent::Kind;
using Two = TwoNics<PooledVerbsRig>;

// Every status of libibverbs except success.
std::vector<ibv_wc_status> errors() {
  std::vector<ibv_wc_status> all;
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    all.push_back(static_cast<ibv_wc_status>(status));
  }
  return all;
}

struct Lie {
  const char* what;
  void (*tell)(ibv_wc&);
};

}  // namespace

TEST_CASE("verbs NIC: a send that completes with an error, whichever") {
  for (const bool sends_only : {false, true}) {
    for (const ibv_wc_status status : errors()) {
      CAPTURE(status, sends_only);
      Two two;
      two.fabric().change(kMine, [&](fake::DeviceSettings& settings) {
        settings.errors_stop_sends_only = sends_only;
      });
      two.fabric().complete_with(Side::send, status, 20);
      two.send(0, 64);
      const std::size_t early = two.reap().size();
      two.recovers(64 - early);
      CHECK(two.mine.stats(Queue::data).send.failed > 0);
    }
  }
}

TEST_CASE("verbs NIC: a receive that completes with an error, whichever") {
  for (const ibv_wc_status status : errors()) {
    CAPTURE(status);
    Two two;
    two.fabric().complete_with(Side::receive, status, 3);
    Burst burst(two.rig.pool);
    for (std::uint64_t id = 0; id < 10; ++id) burst.add({.id = id, .remote = two.to_mine});
    two.rig.send_all(two.theirs, burst);
    REQUIRE(hears(two.mine, Kind::down));
    REQUIRE(hears(two.mine, Kind::up));
    CHECK(two.rig.reap_rest(two.theirs).size() == 10);
    two.works();
    CHECK(two.mine.stats(Queue::data).receive.failed > 0);
  }
}

TEST_CASE("verbs NIC: a completion of a send that makes no sense") {
  const Lie lies[] = {
      {"an unknown number", [](ibv_wc& wc) { wc.wr_id = ~std::uint64_t{0}; }},
      {"one that was never posted", [](ibv_wc& wc) { wc.wr_id += 1000; }},
      {"one that is long over", [](ibv_wc& wc) { wc.wr_id = 0; }},
      {"the other queue's", [](ibv_wc& wc) { wc.wr_id |= 1; }},
      {"of a receive", [](ibv_wc& wc) { wc.opcode = IBV_WC_RECV; }},
      {"of an opcode that doesn't exist",
       [](ibv_wc& wc) { wc.opcode = static_cast<ibv_wc_opcode>(77); }},
      {"of a status that doesn't exist",
       [](ibv_wc& wc) { wc.status = static_cast<ibv_wc_status>(31); }},
  };
  for (const Lie& lie : lies) {
    CAPTURE(lie.what);
    Two two;
    two.send(0, 40);
    CHECK(two.reap().size() == 40);
    two.fabric().lie(Side::send, lie.tell);
    two.send(100, 20);
    const std::vector<std::uint64_t> early = two.reap();
    REQUIRE(hears(two.mine, Kind::down));
    REQUIRE(hears(two.mine, Kind::up));
    CHECK(early.size() + two.reap().size() == 20);
    two.works();
  }
}

TEST_CASE("verbs NIC: a completion of a receive that makes no sense") {
  const Lie lies[] = {
      {"a buffer out of the ring", [](ibv_wc& wc) { wc.wr_id = 1'000'000; }},
      {"beyond 32 bits", [](ibv_wc& wc) { wc.wr_id |= std::uint64_t{1} << 32; }},
      {"a buffer that the device hasn't", [](ibv_wc& wc) { wc.wr_id = 0; }},
      {"longer than its buffer", [](ibv_wc& wc) { wc.byte_len = 70'000; }},
      {"one byte longer than its buffer", [](ibv_wc& wc) { wc.byte_len = 4096 + 41; }},
      {"of a send", [](ibv_wc& wc) { wc.opcode = IBV_WC_SEND; }},
      {"of an opcode that doesn't exist",
       [](ibv_wc& wc) { wc.opcode = static_cast<ibv_wc_opcode>(77); }},
  };
  for (const Lie& lie : lies) {
    CAPTURE(lie.what);
    Two two;
    // Buffer 0 is lent: the receiver is still looking at its packet.
    two.send(0, 1);
    CHECK(two.reap().size() == 1);
    std::array<RxPacket, 1> lent;
    REQUIRE(two.rig.receive(two.theirs, Queue::data, lent) == 1);
    two.fabric().lie(Side::receive, lie.tell);
    two.send(1, 5);
    CHECK(two.reap().size() == 5);
    REQUIRE(hears(two.theirs, Kind::down));
    REQUIRE(hears(two.theirs, Kind::up));
    two.works();
    CHECK(two.theirs.stats(Queue::data).receive.unexpected == 1);
  }
}

TEST_CASE("verbs NIC: a datagram of no bytes, or of less than a header, is dropped and counted") {
  for (const std::uint32_t bytes : {0u, 1u, 39u, 40u}) {
    CAPTURE(bytes);
    Two two;
    two.fabric().lie(Side::receive, [bytes](ibv_wc& wc) { wc.byte_len = bytes; });
    two.send(0, 3);
    CHECK(two.rig.settle(two.theirs).size() == 2);
    CHECK(two.theirs.stats(Queue::data).receive.malformed == 1);
    CHECK(two.reap().size() == 3);
    two.works();
  }
}

TEST_CASE("verbs NIC: completions of nothing, on every queue") {
  for (const Side side : {Side::send, Side::receive}) {
    for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
      CAPTURE(static_cast<int>(side), number);
      Two two;
      // The device has given these buffers back, or never had them.
      ibv_wc nothing{};
      nothing.wr_id = side == Side::send ? number : number | 1u << 20;
      nothing.opcode = side == Side::send ? IBV_WC_SEND : IBV_WC_RECV;
      nothing.byte_len = 100;
      for (int i = 0; i < 100; ++i) {
        two.fabric().invent(pair_number(two.mine, Queue::data), side, nothing);
      }
      (void)two.reap();
      two.recovers(0);
    }
  }
}

TEST_CASE("verbs NIC: polling fails once") {
  for (const std::uint64_t skip : {0u, 1u, 2u}) {
    CAPTURE(skip);
    Two two;
    two.send(0, 50);
    two.fabric().fail(fake::Call::poll_cq, EIO, skip);
    const std::size_t early = two.reap().size();
    // The failure may hit either NIC and any queue.
    std::array<proto::NicEvent, 1> events;
    std::size_t down = 0;
    for (const HangLimit limit; down == 0 && !limit.is_over();) {
      for (Nic* const nic : {static_cast<Nic*>(&two.mine), static_cast<Nic*>(&two.theirs)}) {
        (void)receive_all(*nic);
        (void)receive_all(*nic, Queue::control);
        if (nic->events(events) == 1) down += events[0].kind == Kind::down ? 1 : 0;
      }
    }
    CHECK(down == 1);
    while (two.mine.events(events) == 0 && two.theirs.events(events) == 0) {
      (void)::poll(nullptr, 0, 1);
    }
    CHECK(events[0].kind == Kind::up);
    CHECK(early + two.reap().size() == 50);
    two.works();
  }
}

TEST_CASE("verbs NIC: polling fails for good: it stays down, and gives all back") {
  Two two;
  two.send(0, 50);
  two.fabric().fail(fake::Call::poll_cq, EIO, 0, ~std::uint64_t{0});
  CHECK(two.reap().empty());
  REQUIRE(hears(two.mine, Kind::down));
  std::vector<std::uint64_t> reaped;
  CHECK(comes_true([&] {
    std::array<proto::NicEvent, 1> events;
    CHECK(two.mine.events(events) == 0);
    const auto some = two.reap();
    reaped.insert(reaped.end(), some.begin(), some.end());
    return reaped.size() >= 50;
  }));
  CHECK(reaped.size() == 50);
  two.send(100, 5);  // taken, lost and reaped
  CHECK(two.reap().size() == 5);
  CHECK(two.rig.pool.in_use() == 0);
}

TEST_CASE("verbs NIC: what the device still has is not reaped, and its buffers stay as they are") {
  Two two;
  two.fabric().hold(true);
  two.send(0, 70);
  CHECK(two.reap().empty());
  CHECK(two.rig.pool.in_use() == 70);
  // The sends are chains of 32, 32 and 6, of which only the last request completes.
  two.fabric().let_go(31);
  CHECK(two.reap().empty());
  two.fabric().let_go(1);
  CHECK(two.reap().size() == 32);
  CHECK(two.rig.pool.in_use() == 38);
  two.fabric().let_go(37);
  CHECK(two.reap().size() == 32);
  two.fabric().let_go(1);
  CHECK(two.reap().size() == 6);
  two.fabric().hold(false);
  CHECK(two.rig.settle(two.theirs).size() == 70);
  two.works();
}

}  // namespace hawser::test
