// SPDX-License-Identifier: Apache-2.0
// The descriptors of the verbs NIC are readable exactly when there is something to do, also after a
// repair. If one stayed readable, a thread would never sleep.
#include "test/engine/driver/fake_verbs/two_nics.hpp"

namespace hawser::test {
namespace {

using Kind = proto::NicEvent::Kind;
using Two = TwoNics<PooledVerbsRig>;

class Waking {
 public:
  explicit Waking(Nic& nic) : nic_(nic) {
    std::array<int, 8> fds;
    count_ = nic.descriptors(fds);
    for (std::size_t i = 0; i < count_; ++i) polled_[i] = {fds[i], POLLIN, 0};
  }
  [[nodiscard]] bool is_readable(int milliseconds) {
    return ::poll(polled_.data(), count_, milliseconds) > 0;
  }
  // Prepares to sleep: polls as long as arming asks for it. Returns how many packets came.
  std::size_t arm() {
    std::size_t came = 0;
    while (nic_.arm()) {
      came += receive_all(nic_).size();
      came += receive_all(nic_, Queue::control).size();
    }
    return came;
  }
  // Whether nothing wakes any more. Arms, and polls events at every wake-up, as a thread of the
  // engine does. One vain wake-up may come late from the NIC's helper; it does not repeat.
  bool becomes_quiet() {
    std::array<proto::NicEvent, 1> events;
    bool quiet = false;
    int milliseconds = 0;
    for (const HangLimit limit; !(quiet || limit.is_over()); milliseconds = 1) {
      (void)arm();
      quiet = !is_readable(milliseconds);
      if (!quiet) CHECK(nic_.events(events) == 0);
    }
    return quiet;
  }

 private:
  Nic& nic_;
  std::array<pollfd, 8> polled_{};
  std::size_t count_ = 0;
};

void send_one(Two& two) {
  Burst burst(two.rig.pool);
  burst.add({.id = 1, .remote = two.to_mine});
  two.rig.send_all(two.theirs, burst);
  CHECK(two.rig.reap_rest(two.theirs).size() == 1);
}

void sleeps_and_wakes(Two& two, Waking& waking) {
  for (int round = 0; round < 3; ++round) {
    CHECK(waking.becomes_quiet());
    send_one(two);
    CHECK(waking.is_readable(kHangLimitMs));
    CHECK(receive_all(two.mine).size() == 1);
  }
}

}  // namespace

TEST_CASE("verbs NIC: what wakes is quiet again after a repair, and wakes again") {
  for (const bool cleans : {true, false}) {
    for (const bool armed : {true, false}) {
      CAPTURE(cleans, armed);
      Two two;
      Waking waking(two.mine);
      two.fabric().change(kMine,
                          [&](fake::DeviceSettings& settings) { settings.reset_cleans = cleans; });
      if (armed) (void)waking.arm();
      two.fabric().complete_with(fake::Side::send, IBV_WC_RETRY_EXC_ERR);
      two.send(0, 10);  // all posted receives complete, which wakes
      CHECK(two.reap().size() == 10);
      REQUIRE(hears(two.mine, Kind::down));
      REQUIRE(hears(two.mine, Kind::up));
      sleeps_and_wakes(two, waking);
      two.works();
    }
  }
}

TEST_CASE("verbs NIC: what comes right after a repair, before anybody armed, leaves no wake-up") {
  Two two;
  Waking waking(two.mine);
  (void)waking.arm();
  two.fabric().raise_of_pair(pair_number(two.mine, Queue::data), IBV_EVENT_QP_FATAL);
  REQUIRE(hears(two.mine, Kind::down));
  REQUIRE(hears(two.mine, Kind::up));
  send_one(two);
  CHECK(receive_all(two.mine).size() == 1);
  sleeps_and_wakes(two, waking);
  two.works();
}

TEST_CASE("verbs NIC: while its port is down nothing wakes") {
  Two two;
  Waking waking(two.mine);
  (void)waking.arm();
  two.fabric().set_port(kMine, 1, IBV_PORT_DOWN);
  two.send(0, 30);
  REQUIRE(hears(two.mine, Kind::down));
  // The only exception is the NIC's report that the sends have ended.
  std::array<proto::NicEvent, 1> events;
  std::size_t reaped = 0;
  bool quiet = false;
  for (const HangLimit limit; !((quiet && reaped == 30) || limit.is_over());) {
    CHECK_FALSE(waking.arm() > 0);
    quiet = !waking.is_readable(1);
    CHECK(two.mine.events(events) == 0);
    reaped += two.reap().size();
  }
  CHECK(quiet);
  CHECK(reaped == 30);
  two.fabric().set_port(kMine, 1, IBV_PORT_ACTIVE);
  REQUIRE(hears(two.mine, Kind::up));
  sleeps_and_wakes(two, waking);
  two.works();
}

TEST_CASE("verbs NIC: its queues are made anew, and wake") {
  Two two;
  Waking waking(two.mine);
  (void)waking.arm();
  two.fabric().raise_of_completions(pair_number(two.mine, Queue::data), fake::Side::receive);
  REQUIRE(hears(two.mine, Kind::down));
  two.comes_up();
  sleeps_and_wakes(two, waking);
  two.works();
}

}  // namespace hawser::test
