// SPDX-License-Identifier: Apache-2.0
// The verbs NIC and the events that a device reports about its ports, itself and its queues.
#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using fake::Side;
using Kind = proto::NicEvent::Kind;
using Two = TwoNics<PooledVerbsRig>;

// Waits until the helper thread has read all of the device's events.
void wait_until_read(fake::Fabric& fabric) {
  while (fabric.events_waiting(kMine) > 0) (void)::poll(nullptr, 0, 1);
}

}  // namespace

TEST_CASE("verbs NIC: events that don't concern it change nothing, also in storms") {
  const ibv_event_type others[] = {IBV_EVENT_COMM_EST,          IBV_EVENT_SQ_DRAINED,
                                   IBV_EVENT_PATH_MIG,          IBV_EVENT_PATH_MIG_ERR,
                                   IBV_EVENT_LID_CHANGE,        IBV_EVENT_PKEY_CHANGE,
                                   IBV_EVENT_SM_CHANGE,         IBV_EVENT_SRQ_ERR,
                                   IBV_EVENT_SRQ_LIMIT_REACHED, IBV_EVENT_QP_LAST_WQE_REACHED,
                                   IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE,
                                   IBV_EVENT_WQ_FATAL,          static_cast<ibv_event_type>(31)};
  for (const ibv_event_type type : others) {
    for (const std::uint64_t times : {1, 10'000}) {
      CAPTURE(type, times);
      Two two;
      two.fabric().raise(kMine, type, 1, times);
      CHECK(exchange(two.rig, two.mine, two.to_theirs, two.theirs, 100) == 100);
      wait_until_read(two.fabric());
      two.works();
    }
  }
}

TEST_CASE("verbs NIC: another port's failure is none of its own") {
  Two two;
  two.fabric().raise(kMine, IBV_EVENT_PORT_ERR, 2, 10'000);
  wait_until_read(two.fabric());
  two.works();
}

TEST_CASE("verbs NIC: its port flaps ten thousand times") {
  Two two;
  for (int i = 0; i < 10'000; ++i) {
    two.fabric().raise(kMine, IBV_EVENT_PORT_ERR);
    two.fabric().raise(kMine, IBV_EVENT_PORT_ACTIVE);
  }
  wait_until_read(two.fabric());
  std::array<proto::NicEvent, 1> events;
  if (two.mine.events(events) == 1) REQUIRE(hears(two.mine, Kind::up));
  two.works();
}

TEST_CASE("verbs NIC: its port goes down, and the device fails, loses or keeps what is sent") {
  using fake::WhenDown;
  for (const WhenDown when_down : {WhenDown::fails, WhenDown::loses, WhenDown::stalls}) {
    CAPTURE(static_cast<int>(when_down));
    Two two;
    two.fabric().change(kMine,
                        [&](fake::DeviceSettings& settings) { settings.when_down = when_down; });
    for (int round = 0; round < 3; ++round) {
      two.fabric().set_port(kMine, 1, IBV_PORT_DOWN);
      two.send(0, 30);  // before the driver knows it
      REQUIRE(hears(two.mine, Kind::down));
      two.send(100, 50);  // after
      // All sends come back while the port is down: no sender waits for a cable to get its memory.
      std::size_t reaped = 0;
      CHECK(comes_true([&] {
        std::array<proto::NicEvent, 1> events;
        CHECK(two.mine.events(events) == 0);
        reaped += two.reap().size();
        return reaped >= 80;
      }));
      CHECK(reaped == 80);
      CHECK(two.rig.pool.in_use() == 0);
      two.fabric().set_port(kMine, 1, IBV_PORT_ACTIVE);
      REQUIRE(hears(two.mine, Kind::up));
      CHECK(two.reap().empty());
      two.works();
    }
  }
}

TEST_CASE("verbs NIC: the device says that it is broken for good, and works when opened anew") {
  for (const std::uint64_t times : {1, 10'000}) {
    Two two;
    const proto::NicAddress before = two.mine.address();
    two.fabric().hold(true);
    two.send(0, 20);
    two.fabric().raise(kMine, IBV_EVENT_DEVICE_FATAL, 1, times);
    REQUIRE(hears(two.mine, Kind::down));
    two.fabric().hold(false);
    two.comes_up();
    CHECK(two.reap().size() == 20);
    CHECK(two.mine.address() != before);
    two.works();
  }
}

TEST_CASE("verbs NIC: a device that is broken for good, and its NIC is destroyed meanwhile") {
  Two two;
  two.fabric().hold(true);
  two.send(0, 20);
  two.fabric().fail(fake::Call::open_device, EIO, 0, ~std::uint64_t{0});
  two.fabric().raise(kMine, IBV_EVENT_DEVICE_FATAL);
  REQUIRE(hears(two.mine, Kind::down));
  two.rig.destroy(two.mine);
  CHECK(two.rig.pool.in_use() == 0);
}

TEST_CASE("verbs NIC: its events break off without a word: it is opened anew") {
  Two two;
  two.send(0, 20);
  two.fabric().break_events(kMine);
  two.returns(20);
}

TEST_CASE("verbs NIC: reading events is interrupted, or has nothing") {
  for (const int error : {EINTR, EAGAIN}) {
    CAPTURE(error);
    Two two;
    two.fabric().fail(fake::Call::get_async_event, error, 0, 100);
    two.fabric().set_port(kMine, 1, IBV_PORT_DOWN);
    REQUIRE(hears(two.mine, Kind::down));
    two.fabric().set_port(kMine, 1, IBV_PORT_ACTIVE);
    REQUIRE(hears(two.mine, Kind::up));
    two.works();
  }
}

TEST_CASE("verbs NIC: a queue pair has failed, says an event, and no completion does") {
  for (const ibv_event_type type :
       {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    for (const Queue queue : {Queue::data, Queue::control}) {
      CAPTURE(type, static_cast<int>(queue));
      Two two;
      two.fabric().hold(true);
      two.send(0, 40, queue);
      two.fabric().raise_of_pair(pair_number(two.mine, queue), type);
      REQUIRE(hears(two.mine, Kind::down));
      REQUIRE(hears(two.mine, Kind::up));
      CHECK(two.reap().size() == 40);
      two.fabric().hold(false);
      CHECK(two.rig.settle(two.theirs, queue).empty());  // a reaped send doesn't go out
      two.works();
    }
  }
}

TEST_CASE("verbs NIC: a completion queue has overrun: it gives all back, and is made anew") {
  for (const bool says_so : {false, true}) {
    for (const Side side : {Side::send, Side::receive}) {
      CAPTURE(says_so, static_cast<int>(side));
      Two two;
      const proto::NicAddress before = two.mine.address();
      two.fabric().change(
          kMine, [&](fake::DeviceSettings& settings) { settings.dead_queues_say_so = says_so; });
      two.fabric().hold(true);
      two.send(0, 40);
      two.fabric().raise_of_completions(pair_number(two.mine, Queue::data), side);
      REQUIRE(hears(two.mine, Kind::down));
      two.fabric().hold(false);
      two.comes_up();
      CHECK(two.reap().size() == 40);
      CHECK(two.mine.address() != before);
      two.works();
    }
  }
}

}  // namespace hawser::test
