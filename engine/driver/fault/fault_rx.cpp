// SPDX-License-Identifier: Apache-2.0
// The receiving half of the fault NIC: the fates of arrivals.
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/driver/fault/fault_nic.hpp"

namespace hawser::engine {

using proto::Queue;
using proto::RxPacket;

namespace {

// Bursts that one call takes from the inner NIC while faults swallow them. The bound ends a call on
// a dead NIC that is being flooded.
constexpr int kMaxRounds = 64;

}  // namespace

bool FaultNic::rx_passes_through() const {
  return !settings_.dead && !hook_ && rx_.judge.idle() && rx_.held.idle();
}

std::size_t FaultNic::rx_burst(Queue queue, std::span<RxPacket> packets) {
  packets = packets.first(std::min(packets.size(), kMaxRxBurst));
  std::vector<Slot>& slots = handed_out_[static_cast<std::size_t>(queue)];
  for (const Slot slot : slots) rx_.held.free(slot);
  slots.clear();
  // Ask even if the caller wants no packets: that returns what senders have lent to the inner NIC.
  if (rx_passes_through() || packets.empty()) return inner_->rx_burst(queue, packets);

  std::size_t count = 0;
  hand_out_ready(queue, packets, count);
  for (int round = 0; round < kMaxRounds && count < packets.size(); ++round) {
    stage(packets.first(count));
    if (receive_once(queue, packets, count)) break;
  }
  return count;
}

bool FaultNic::receive_once(Queue queue, std::span<RxPacket> out, std::size_t& count) {
  std::array<RxPacket, kMaxRxBurst> arrivals;
  const std::size_t want = out.size() - count;
  const std::size_t got = inner_->rx_burst(queue, std::span(arrivals).first(want));
  for (const RxPacket& packet : std::span(arrivals).first(got)) receive(packet, out, count);
  return got < want;
}

void FaultNic::receive(const RxPacket& packet, std::span<RxPacket> out, std::size_t& count) {
  const Fate fate = judge(rx_, {Direction::rx,
                                packet.queue,
                                proto::kNoRemote,
                                0,
                                {packet.data, packet.bytes},
                                {packet.payload, packet.payload_bytes}});
  if (fate.drop) {
    record(rx_.counts, fate);
    return;
  }
  if (packet.datagram_bytes() > rx_.held.slot_bytes()) {  // it can't even be copied to a slot
    ++rx_.counts.overflowed;
    return;
  }
  if (fate.passes() && count < out.size()) {
    out[count++] = packet;
    rx_.held.passed(packet.queue);
  } else {
    const std::size_t copies = fate.duplicate ? 2 : 1;
    if (rx_.held.free_slots() < kStagingSlots + copies) {
      ++rx_.counts.overflowed;
      return;
    }
    record(rx_.counts, fate);
    const Slot slot = hold(packet);
    damage(rx_, slot, fate);
    place(rx_, slot, fate);
    if (fate.duplicate) place(rx_, hold(packet), fate);
  }
  hand_out_ready(packet.queue, out, count);
}

HeldPackets::Slot FaultNic::hold(const RxPacket& packet) {
  const Slot slot = rx_.held.take();
  HeldPacket& held = rx_.held[slot];
  held.bytes = packet.datagram_bytes();
  held.queue = packet.queue;
  held.congestion_experienced = packet.congestion_experienced;
  std::memcpy(held.data, packet.data, packet.bytes);
  if (packet.payload_bytes > 0) {
    std::memcpy(held.data + packet.bytes, packet.payload, packet.payload_bytes);
  }
  return slot;
}

RxPacket FaultNic::hand_out(Slot slot) {
  const HeldPacket& held = rx_.held[slot];
  handed_out_[static_cast<std::size_t>(held.queue)].push_back(slot);
  return {held.data, held.bytes, held.queue, held.congestion_experienced};
}

void FaultNic::hand_out_ready(Queue queue, std::span<RxPacket> out, std::size_t& count) {
  proto::Ring<Slot>& ready = rx_.held.ready(queue);
  while (count < out.size() && !ready.empty()) {
    out[count++] = hand_out(ready.pop());
    rx_.held.passed(queue);
  }
}

void FaultNic::stage(std::span<RxPacket> packets) {
  for (RxPacket& packet : packets) {
    if (rx_.held.slot_of(packet.data) == HeldPackets::kNoSlot) packet = hand_out(hold(packet));
  }
}

}  // namespace hawser::engine
