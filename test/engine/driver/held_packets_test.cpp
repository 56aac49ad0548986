// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/fault/held_packets.hpp"

#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {
namespace {

using engine::HeldPackets;
using proto::Time;

HeldPackets::Slot taken(HeldPackets& held, Queue queue = Queue::data) {
  const auto slot = held.take();
  held[slot].queue = queue;
  return slot;
}

std::vector<HeldPackets::Slot> drain(HeldPackets& held, Queue queue = Queue::data) {
  std::vector<HeldPackets::Slot> slots;
  while (!held.ready(queue).empty()) slots.push_back(held.ready(queue).pop());
  return slots;
}

}  // namespace

TEST_CASE("held packets: become ready by time, and in order of arrival at the same time") {
  HeldPackets held(8, 100);
  const auto a = taken(held), b = taken(held), c = taken(held), d = taken(held);
  held.hold_until(a, Time{30});
  held.hold_until(b, Time{10});
  held.hold_until(c, Time{20});
  held.hold_until(d, Time{10});
  CHECK(held.next_due() == Time{10});
  held.advance(Time{9});
  CHECK(drain(held).empty());
  held.advance(Time{20});
  CHECK(drain(held) == std::vector{b, d, c});
  CHECK(held.next_due() == Time{30});
  CHECK_FALSE(held.idle());
  held.advance(Time{30});
  CHECK(drain(held) == std::vector{a});
  CHECK(held.idle());
  CHECK(held.next_due() == proto::kNever);
}

TEST_CASE("held packets: wait behind packets of their own queue, but not for ever") {
  HeldPackets held(8, 100);
  const auto data = taken(held), control = taken(held, Queue::control), other = taken(held);
  held.hold_behind(data, 2, Time{100});
  held.hold_behind(control, 1, Time{100});
  held.hold_behind(other, 3, Time{50});
  held.passed(Queue::data);
  CHECK_FALSE(held.any_ready());
  held.passed(Queue::data);
  CHECK(drain(held) == std::vector{data});
  CHECK(held.next_due() == Time{50});
  held.passed(Queue::control);
  CHECK(drain(held, Queue::control) == std::vector{control});
  held.advance(Time{50});
  CHECK(drain(held) == std::vector{other});
  CHECK(held.idle());
}

TEST_CASE("held packets: slots are found by their memory, which is theirs alone") {
  HeldPackets held(3, 100);
  CHECK(held.slot_bytes() >= 100);
  std::vector<HeldPackets::Slot> slots;
  for (int i = 0; i < 3; ++i) slots.push_back(taken(held));
  CHECK(held.free_slots() == 0);
  for (const auto slot : slots) {
    std::byte* const data = held[slot].data;
    CHECK(reinterpret_cast<std::uintptr_t>(data) % 64 == 0);
    CHECK(held.slot_of(data) == slot);
    CHECK(held.slot_of(data + held.slot_bytes() - 1) == slot);
    fill({data, held.slot_bytes()}, slot);
  }
  for (const auto slot : slots) {
    CHECK(std::memcmp(held[slot].data, datagram(slot, held.slot_bytes()).data(),
                      held.slot_bytes()) == 0);
  }
  std::byte elsewhere{};
  CHECK(held.slot_of(&elsewhere) == HeldPackets::kNoSlot);
  CHECK(held.slot_of(nullptr) == HeldPackets::kNoSlot);
  for (const auto slot : slots) held.free(slot);
  CHECK(held.free_slots() == 3);
}

TEST_CASE("held packets: release_all makes everything ready") {
  HeldPackets held(4, 100);
  const auto a = taken(held), b = taken(held), c = taken(held, Queue::control);
  held.hold_until(a, Time{1'000'000});
  held.hold_behind(b, 7, Time{500});
  held.hold_until(c, Time{5});
  held.release_all();
  CHECK(drain(held).size() == 2);
  CHECK(drain(held, Queue::control).size() == 1);
  CHECK(held.idle());
}

}  // namespace hawser::test
