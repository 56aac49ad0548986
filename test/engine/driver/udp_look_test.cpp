// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_look.hpp"

#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {
namespace {

using engine::Attention;
using engine::UdpLook;
using engine::UdpNic;
using proto::kNever;
using proto::Time;

using Outlook = proto::Nic::Outlook;

constexpr Time kStart{1'000'000'000};

struct World {
  World() {
    look.add(one);
    look.add(two);
  }
  void send(Nic& to, Queue queue) {
    Burst burst(pool);
    const RemoteHandle handle = open(sender, to);
    burst.add({.id = 1, .payload_bytes = 32, .remote = handle, .queue = queue});
    REQUIRE(burst.send(sender) == 1);
    (void)reap_all(sender);
    sender.close_remote(handle);
  }
  // Takes a turn as the protocol does; returns how many packets it received.
  std::size_t turn(Time now, Time due = kNever) {
    look.begin_turn(now, due);
    std::size_t count = 0;
    for (const Queue queue : {Queue::control, Queue::data}) {
      for (UdpNic* nic : {&one, &two}) {
        std::array<RxPacket, 8> packets;
        if (nic->outlook(queue) == Outlook::ask) count += nic->rx_burst(queue, packets);
      }
    }
    return count;
  }
  [[nodiscard]] std::uint64_t calls() const {
    std::uint64_t calls = 0;
    for (const UdpNic* nic : {&one, &two}) {
      calls += nic->stats(Queue::data).receive.calls + nic->stats(Queue::control).receive.calls;
    }
    return calls;
  }

  SimplePool pool{64};
  UdpNic sender{{.address = "127.0.0.1"}, pool};
  UdpNic one{{.address = "127.0.0.2"}, pool};
  UdpNic two{{.address = "127.0.0.3"}, pool};
  UdpLook look;
};

}  // namespace

TEST_CASE("UDP look: only queues that have something are asked") {
  World world;
  CHECK(world.turn(kStart) == 0);
  CHECK(world.calls() == 0);
  world.send(world.two, Queue::control);
  CHECK(world.turn(kStart + Attention::kWarm) == 1);
  CHECK(world.calls() == 1);
}

TEST_CASE("UDP look: a NIC that nobody guesses is heard within the interval, or when it matters") {
  World world;
  for (int i = 0; i < 2; ++i) {
    world.send(world.one, Queue::data);
    CHECK(world.turn(kStart + proto::Duration{i}) == 1);
  }
  world.send(world.two, Queue::data);
  const Time soon = kStart + proto::microseconds(1);
  CHECK(world.turn(soon) == 0);
  SECTION("the interval is over") { CHECK(world.turn(kStart + Attention::kLookInterval * 2) == 1); }
  SECTION("something is due") { CHECK(world.turn(soon, soon) == 1); }
}

TEST_CASE("UDP look: a NIC that never brings anything is seen empty within the interval") {
  World world;
  Time now = kStart;
  for (int i = 0; i < 100; ++i) {
    const Time until = now + Attention::kLookInterval;
    bool seen_empty = false;
    for (; now <= until; now = now + proto::microseconds(5)) {
      world.send(world.one, Queue::data);
      CHECK(world.turn(now) == 1);
      const Outlook outlook = world.two.outlook(Queue::data);
      CHECK(outlook != Outlook::ask);
      seen_empty |= outlook == Outlook::empty;
    }
    REQUIRE(seen_empty);
  }
}

TEST_CASE("UDP look: what a NIC holds of a coalesced message is taken, however late") {
  World world;
  Burst burst(world.pool);
  const RemoteHandle handle = open(world.sender, world.one);
  for (std::uint64_t id = 0; id < 16; ++id) {
    burst.add({.id = id, .payload_bytes = 32, .remote = handle});
  }
  REQUIRE(burst.send(world.sender) == 16);
  CHECK(world.turn(kStart) == 8);
  CHECK(world.turn(kStart + Attention::kWarm * 10) == 8);
}

}  // namespace hawser::test
