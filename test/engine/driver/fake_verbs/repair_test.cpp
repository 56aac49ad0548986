// SPDX-License-Identifier: Apache-2.0
// The verbs NIC while it is repaired, and when it is destroyed in any state.
#include <thread>

#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using fake::Call;
using fake::Side;
using Kind = proto::NicEvent::Kind;
using Two = TwoNics<PooledVerbsRig>;

// Makes the data queue fail, with `count` sends at the device.
void fail_data_queue(Two& two, std::size_t count) {
  two.fabric().complete_with(Side::send, IBV_WC_RETRY_EXC_ERR);
  two.send(0, count);
}

// Waits until the device has been made ready again, without any call of the NIC.
class UntilRepaired {
 public:
  explicit UntilRepaired(fake::Fabric& fabric) : fabric_(fabric) {}
  void wait() const {
    constexpr std::uint64_t kSteps = 8;  // of two pairs: Reset, Init, Receive, Send
    while (fabric_.calls(Call::modify_qp) < before_ + kSteps) (void)::poll(nullptr, 0, 1);
  }

 private:
  fake::Fabric& fabric_;
  std::uint64_t before_ = fabric_.calls(Call::modify_qp);
};

}  // namespace

TEST_CASE("verbs NIC: a repair is refused several times, then granted") {
  // A repair has up to eight steps. Each of them in turn is the one that is refused.
  for (const std::uint64_t skip : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
    CAPTURE(skip);
    Two two;
    fail_data_queue(two, 30);
    two.fabric().fail(Call::modify_qp, ENOMEM, skip, 3);
    two.recovers(30);
  }
}

TEST_CASE("verbs NIC: while it is brought back nothing is posted, on the other queue either") {
  for (const bool cleans : {true, false}) {
    CAPTURE(cleans);
    Two two;
    two.fabric().change(kMine,
                        [&](fake::DeviceSettings& settings) { settings.reset_cleans = cleans; });
    fail_data_queue(two, 10);
    const UntilRepaired repaired(two.fabric());
    REQUIRE(hears(two.mine, Kind::down));
    repaired.wait();  // the test has not polled the event
    two.fabric().hold(true);
    two.send(100, 40, Queue::control);
    for (int round = 0; round < 40; ++round) {
      (void)receive_all(two.mine);
      (void)receive_all(two.mine, Queue::control);
    }
    REQUIRE(hears(two.mine, Kind::up));
    CHECK(two.reap().size() == 50);  // the pool overwrites their buffers
    two.fabric().hold(false);
    CHECK(two.rig.settle(two.theirs, Queue::control).empty());
    two.works();
  }
}

TEST_CASE("verbs NIC: views that are lent outlive a repair") {
  Two two;
  Burst burst(two.rig.pool);
  for (std::uint64_t id = 0; id < 40; ++id) {
    burst.add({.id = id, .payload_bytes = 600, .remote = two.to_mine});
  }
  two.rig.send_all(two.theirs, burst);
  CHECK(two.rig.reap_rest(two.theirs).size() == 40);
  std::array<RxPacket, 20> lent;
  REQUIRE(two.mine.rx_burst(Queue::data, lent) == 20);
  fail_data_queue(two, 10);
  CHECK(two.reap().size() == 10);
  std::array<proto::NicEvent, 1> events;
  REQUIRE(two.mine.events(events) == 1);
  // Wait without receiving, since that would give the lent buffers back.
  REQUIRE(comes_true([&] { return two.mine.events(events) == 1; }));
  REQUIRE(events[0].kind == Kind::up);
  CHECK(exchange(two.rig, two.theirs, two.to_mine, two.theirs, 200) == 0);
  for (std::uint64_t id = 0; id < 20; ++id) CHECK(equals(lent[id], datagram(id, 632)));
  // The packets that were not handed out yet arrive, and the new ones behind them.
  CHECK(two.rig.settle(two.mine).size() == 220);
}

TEST_CASE("verbs NIC: it is destroyed in any state") {
  enum class State { idle, sending, failed, down, refused, repaired, port_down };
  for (const State state : {State::idle, State::sending, State::failed, State::down, State::refused,
                            State::repaired, State::port_down}) {
    CAPTURE(static_cast<int>(state));
    Two two;
    std::array<proto::NicEvent, 1> events;
    const UntilRepaired repaired(two.fabric());
    if (state != State::idle) {
      two.fabric().hold(true);
      two.send(1000, 40);
      two.send(2000, 40, Queue::control);
    }
    if (state == State::refused) {
      two.fabric().fail(Call::modify_qp, EIO, 0, ~std::uint64_t{0});
    }
    if (state >= State::failed && state <= State::repaired) {
      two.fabric().complete_with(Side::send, IBV_WC_FATAL_ERR);
      two.fabric().let_go(1);
      (void)two.reap();
    }
    if (state >= State::down && state <= State::repaired) {
      REQUIRE(two.mine.events(events) == 1);
    }
    if (state == State::repaired) repaired.wait();
    if (state == State::port_down) {
      two.fabric().set_port(kMine, 1, IBV_PORT_DOWN);
      REQUIRE(hears(two.mine, Kind::down));
    }
    two.rig.destroy(two.mine);
    CHECK(two.rig.pool.in_use() == 0);
  }
}

TEST_CASE("verbs NIC: making address handles blocks, and nothing else does") {
  Two two;
  proto::NicAddress other = two.theirs.address();
  engine::VerbsAddress address;
  REQUIRE(from_nic_address(other, address));
  const fake::Gid gid = fake::gid_of("fe80::99");
  address.gid = gid;
  two.rig.add_neighbour("fe80::99");
  other = to_nic_address(address);
  two.fabric().block_handles(true);
  RemoteHandle handle = proto::kNoRemote;
  CHECK(two.mine.open_remote(other, handle) == Status::again);
  while (two.fabric().handles_blocked() == 0) (void)::poll(nullptr, 0, 1);
  two.works();
  CHECK(two.mine.open_remote(other, handle) == Status::again);
  SECTION("and then it is reached") {
    two.fabric().block_handles(false);
    while (two.mine.open_remote(other, handle) == Status::again) (void)::poll(nullptr, 0, 1);
    CHECK(handle != proto::kNoRemote);
  }
  SECTION("or the NIC is destroyed, once the kernel lets go") {
    std::thread kernel([&] { two.fabric().block_handles(false); });
    two.rig.destroy(two.mine);
    kernel.join();
  }
}

TEST_CASE("verbs NIC: nobody answers for an address, then somebody does") {
  for (const int error : {ETIMEDOUT, EHOSTUNREACH, ENOMEM, EAGAIN}) {
    CAPTURE(error);
    PooledVerbsRig rig;
    Nic& mine = rig.make();
    Nic& theirs = rig.make();
    rig.fabric.fail(Call::create_ah, error, 2, 2);  // among the entropies' handles
    CHECK(exchange(rig, mine, open(mine, theirs), theirs, 10) == 10);
  }
}

}  // namespace hawser::test
