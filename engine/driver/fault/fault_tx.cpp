// SPDX-License-Identifier: Apache-2.0
// The sending half of the fault NIC: the fates of outgoing packets, sending of held packets,
// reaping.
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/driver/fault/fault_nic.hpp"

namespace hawser::engine {

using proto::PacketBuffer;
using proto::TxPacket;

namespace {

// Packets judged before the inner NIC is asked to take them. Each needs a slot if it refuses.
constexpr std::size_t kStretch = 64;

// One slot for a packet and one for its duplicate.
constexpr std::size_t kSlotsPerPacket = 2;

}  // namespace

bool FaultNic::tx_passes_through() const {
  return !settings_.dead && !hook_ && settings_.partial_burst <= 0 && tx_.judge.idle() &&
         tx_.held.idle();
}

std::size_t FaultNic::tx_burst(std::span<const TxPacket> packets) {
  if (tx_passes_through()) return inner_->tx_burst(packets);
  if (tx_.held.any_ready() && !send_ready()) return 0;
  if (packets.size() > 1 && tx_.judge.hits(settings_.partial_burst)) {
    packets = packets.first(1 + tx_.judge.below(packets.size() - 1));
  }
  std::size_t sent = 0;  // from here to `judged`: packets that passed but are not handed over yet
  std::size_t judged = 0;
  bool taking = true;
  while (taking && judged < packets.size()) {
    if (!room_to_judge(judged - sent)) {
      collect();
      if (sent == judged && !room_to_judge(0)) break;
      taking = send(packets.subspan(sent, judged - sent));
      sent = judged;
      continue;
    }
    const TxPacket& packet = packets[judged++];
    const Fate fate = judge(packet);
    if (fate.passes()) {
      if (!tx_.held.any_behind()) continue;
      // Send it before the held packets that it overtakes.
      taking = send(packets.subspan(sent, judged - sent));
      tx_.held.passed(packet.queue);
    } else {
      // Send the packets before it first, because it may become ready at once.
      taking = send(packets.subspan(sent, judged - 1 - sent));
      hold_with_fate(packet, fate);
    }
    sent = judged;
    taking = taking && send_ready();
  }
  (void)send(packets.subspan(sent, judged - sent));
  return judged;
}

bool FaultNic::room_to_judge(std::size_t waiting) const {
  return waiting < kStretch && tx_.held.free_slots() >= waiting + kSlotsPerPacket &&
         completion_room() > waiting;
}

bool FaultNic::sendable(const TxPacket& packet) const {
  return packet.header_bytes + std::uint64_t{packet.payload_bytes} <= caps_.max_datagram_bytes &&
         static_cast<std::size_t>(packet.remote) < remotes_.size();
}

Fate FaultNic::judge(const TxPacket& packet) {
  if (!sendable(packet)) return Fate{.drop = true};
  return judge(tx_, {Direction::tx,
                     packet.queue,
                     packet.remote,
                     packet.entropy,
                     {packet.buffer->bytes, packet.header_bytes},
                     {packet.payload, packet.payload_bytes}});
}

bool FaultNic::send(std::span<const TxPacket> passed) {
  if (passed.empty()) return true;
  const std::size_t taken = inner_->tx_burst(passed);
  for (const TxPacket& packet : passed.subspan(taken)) {
    const Slot slot = hold(packet);
    tx_.held[slot].overtakes = false;  // it overtook others when it was judged
    tx_.held.make_ready(slot);
    complete(packet);
  }
  return taken == passed.size();
}

HeldPackets::Slot FaultNic::hold(const TxPacket& packet) {
  const Slot slot = tx_.held.take();
  HeldPacket& held = tx_.held[slot];
  held.bytes = packet.header_bytes + packet.payload_bytes;
  held.header_bytes = packet.header_bytes;
  held.remote = packet.remote;
  held.entropy = packet.entropy;
  held.queue = packet.queue;
  held.overtakes = true;
  std::memcpy(held.data, packet.buffer->bytes, packet.header_bytes);
  if (packet.payload_bytes > 0) {
    std::memcpy(held.data + packet.header_bytes, packet.payload, packet.payload_bytes);
  }
  ++remotes_[static_cast<std::size_t>(packet.remote)].held;
  return slot;
}

void FaultNic::hold_with_fate(const TxPacket& packet, const Fate& fate) {
  record(tx_.counts, fate);
  if (!fate.drop) {
    const Slot slot = hold(packet);
    damage(tx_, slot, fate);
    place(tx_, slot, fate);
    if (fate.duplicate) place(tx_, hold(packet), fate);
  }
  complete(packet);
}

void FaultNic::complete(const TxPacket& packet) {
  pool_.give({&packet.buffer, 1});
  if (packet.cookie != TxPacket::kNoCookie) {
    completions_.put({packet.cookie, now_ + settings_.late_reap});
  }
}

bool FaultNic::send_ready() {
  for (const proto::Queue queue : {proto::Queue::data, proto::Queue::control}) {
    proto::Ring<Slot>& ready = tx_.held.ready(queue);
    while (!ready.empty()) {
      if (send_held(ready) == 0) return false;
    }
  }
  return true;
}

// Offers a batch from the front of `ready` to the inner NIC. Returns how many it took.
std::size_t FaultNic::send_held(proto::Ring<Slot>& ready) {
  std::array<PacketBuffer*, kStretch> buffers;
  std::array<TxPacket, kStretch> packets;
  const std::size_t count =
      pool_.take(std::span(buffers).first(std::min<std::size_t>(kStretch, ready.size())));
  for (std::size_t i = 0; i < count; ++i) {
    HeldPacket& held = tx_.held[ready.at(static_cast<std::uint32_t>(i))];
    std::memcpy(buffers[i]->bytes, held.data, held.header_bytes);
    packets[i] = {.buffer = buffers[i],
                  .header_bytes = held.header_bytes,
                  .payload_bytes = held.bytes - held.header_bytes,
                  .payload = held.data + held.header_bytes,
                  .remote = held.remote,
                  .entropy = held.entropy,
                  .queue = held.queue,
                  .cookie = TxPacket::kDriverCookies | reinterpret_cast<std::uintptr_t>(held.data)};
  }
  const std::size_t taken = inner_->tx_burst(std::span(packets).first(count));
  for (std::size_t i = 0; i < taken; ++i) {
    const Slot slot = ready.pop();
    forget_remote_of(slot);
    if (tx_.held[slot].overtakes) tx_.held.passed(tx_.held[slot].queue);
  }
  own_sends_ += taken;
  pool_.give(std::span(buffers).first(count).subspan(taken));
  return taken;
}

HeldPackets::Slot FaultNic::own_slot(std::uint64_t cookie) const {
  if ((cookie & TxPacket::kDriverCookies) == 0) return HeldPackets::kNoSlot;
  const auto at = static_cast<std::uintptr_t>(cookie & ~TxPacket::kDriverCookies);
  return tx_.held.slot_of(reinterpret_cast<const std::byte*>(at));
}

// Takes what the inner NIC has reaped, as far as there is room: cookies to report, slots to free.
void FaultNic::collect() {
  std::array<std::uint64_t, kStretch> cookies;
  for (;;) {
    const std::size_t want = std::min(cookies.size(), completion_room());
    const std::size_t got = inner_->reap(std::span(cookies).first(want));
    for (std::size_t i = 0; i < got; ++i) {
      const Slot slot = own_slot(cookies[i]);
      if (slot == HeldPackets::kNoSlot) {
        completions_.put({cookies[i], now_ + settings_.late_reap});
      } else {
        tx_.held.free(slot);
        --own_sends_;
      }
    }
    if (got == 0) return;
  }
}

std::size_t FaultNic::reap(std::span<std::uint64_t> cookies) {
  if (own_sends_ == 0 && settings_.late_reap.ns <= 0 && completions_.empty()) {
    return inner_->reap(cookies);
  }
  collect();
  std::size_t count = 0;
  while (count < cookies.size() && !completions_.empty() && completions_.front().due <= now_) {
    cookies[count++] = completions_.pop().cookie;
  }
  return count;
}

}  // namespace hawser::engine
