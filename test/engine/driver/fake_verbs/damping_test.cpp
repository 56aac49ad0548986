// SPDX-License-Identifier: Apache-2.0
// A verbs NIC that fails again and again is held down longer and longer. The test owns the NIC's
// clock, so a hold ends when the test says so, however busy the host is.
#include <atomic>
#include <chrono>
#include <memory>

#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using fake::Fabric;
using fake::Side;
using Kind = proto::NicEvent::Kind;
using std::chrono::milliseconds;

class HandClock {
 public:
  std::chrono::steady_clock::time_point operator()() {
    const std::int64_t now = now_ms_.load();
    ++readings_;
    return std::chrono::steady_clock::time_point(milliseconds(now));
  }
  void advance(std::int64_t ms) { now_ms_ += ms; }
  // Waits until the driver has checked at this time whether the hold is over, or checks no more.
  void wait_until_looked() const {
    constexpr std::uint64_t kMany = 4;  // it reads at most three times between sleeps
    const std::uint64_t before = readings_.load();
    REQUIRE(comes_true([&] { return readings_.load() >= before + kMany; }));
  }

 private:
  std::atomic<std::int64_t> now_ms_{1'000'000};
  std::atomic<std::uint64_t> readings_{0};
};

class DampedRig : public PooledVerbsRig {
 public:
  HandClock& clock() { return *clock_; }

 private:
  engine::VerbsNicConfig config_of(const std::string& device) override {
    engine::VerbsNicConfig config = verbs_config(device);
    config.longest_hold = milliseconds(400);
    // Only the first NIC gets the clock, which outlives it: the NIC is destroyed after this rig.
    if (device == kMine) config.clock = [clock = clock_] { return (*clock)(); };
    return config;
  }
  std::shared_ptr<HandClock> clock_ = std::make_shared<HandClock>();
};

struct Two : TwoNics<DampedRig> {
  HandClock& clock() { return rig.clock(); }

  // Fails the data queue's pair at a send, with nineteen more sends at the device.
  void fail() {
    fabric().complete_with(Side::send, IBV_WC_RETRY_EXC_ERR);
    send(next_, 20);
    next_ += 20;
    REQUIRE(hears(mine, Kind::down));
  }
  // Checks that the NIC stays down for exactly so long.
  void is_held_for(std::int64_t ms) {
    if (ms > 0) {
      clock().wait_until_looked();
      clock().advance(ms - 1);
      clock().wait_until_looked();
      std::array<proto::NicEvent, 1> events;
      CHECK(mine.events(events) == 0);
      clock().advance(1);
    }
    REQUIRE(hears(mine, Kind::up));
  }
  void wait_until_read() {
    while (fabric().events_waiting(kMine) > 0) (void)::poll(nullptr, 0, 1);
  }

 private:
  std::uint64_t next_ = 0;
};

}  // namespace

TEST_CASE("verbs NIC: a queue pair that fails whenever it is up is brought back later and later") {
  Two two;
  for (const int hold : {0, 100, 200, 400, 400}) {
    CAPTURE(hold);
    two.fail();
    CHECK(two.reap().size() == 20);  // a hold doesn't keep the sender's memory
    two.is_held_for(hold);
    two.works();
  }
  // The NIC works for ten seconds and fails, then works for a minute and fails.
  two.clock().advance(10'000);
  two.fail();
  two.is_held_for(100);
  CHECK(two.reap().size() == 20);
  two.clock().advance(60'000);
  two.fail();
  two.is_held_for(0);
  CHECK(two.reap().size() == 20);
  two.works();
}

TEST_CASE("verbs NIC: sends at a device that keeps them are given back before the hold is over") {
  Two two;
  two.fail();
  two.is_held_for(0);
  (void)two.reap();
  two.fabric().hold(true);
  two.send(1000, 40);
  two.fabric().raise_of_pair(pair_number(two.mine, Queue::data), IBV_EVENT_QP_FATAL);
  REQUIRE(hears(two.mine, Kind::down));
  std::array<proto::NicEvent, 1> events;
  std::size_t reaped = 0;
  CHECK(comes_true([&] {
    CHECK(two.mine.events(events) == 0);
    reaped += two.reap().size();
    return reaped >= 40;
  }));
  CHECK(reaped == 40);
  two.fabric().hold(false);
  two.is_held_for(100);
  two.works();
}

TEST_CASE("verbs NIC: a link that flaps has to stay up before it is used again") {
  Two two;
  const auto set_port = [&](ibv_port_state state) {
    two.fabric().set_port(kMine, 1, state);
    two.wait_until_read();
  };
  set_port(IBV_PORT_DOWN);
  REQUIRE(hears(two.mine, Kind::down));
  two.clock().advance(3000);
  set_port(IBV_PORT_ACTIVE);
  two.is_held_for(0);  // the cable was pulled only once
  two.clock().advance(1000);
  set_port(IBV_PORT_DOWN);
  REQUIRE(hears(two.mine, Kind::down));
  two.clock().wait_until_looked();
  two.clock().advance(90);
  set_port(IBV_PORT_ACTIVE);
  two.clock().advance(50);
  set_port(IBV_PORT_DOWN);
  set_port(IBV_PORT_ACTIVE);
  two.is_held_for(60);  // at most twice the hold, whatever the port does
  two.works();
}

TEST_CASE("verbs NIC: a device that goes again and again is let go of at once, and held") {
  Two two;
  fake::DeviceSettings device;
  two.fabric().change(kMine, [&](fake::DeviceSettings& present) { device = present; });
  for (const int hold : {0, 100, 200}) {
    CAPTURE(hold);
    two.fabric().remove(kMine, Fabric::Removal::told);
    REQUIRE(hears(two.mine, Kind::down));
    REQUIRE(comes_true([&] { return two.fabric().removed_in_use() == 0; }));
    two.fabric().add(device);
    two.is_held_for(hold);
    two.opens_anew();
    two.works();
  }
}

TEST_CASE("verbs NIC: it is destroyed while it is held") {
  Two two;
  two.fail();
  two.is_held_for(0);
  two.fail();
  two.clock().wait_until_looked();
  two.rig.destroy(two.mine);
  CHECK(two.rig.pool.in_use() == 0);
}

}  // namespace hawser::test
