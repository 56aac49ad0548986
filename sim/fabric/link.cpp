// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/link.hpp"

#include <algorithm>

#include "proto/base/assert.hpp"
#include "sim/core/digest.hpp"

namespace hawser::fabric {

Link::Link(const LinkSettings& settings, std::uint32_t end, std::uint64_t salt)
    : pace_(Pace::of(settings.bits_per_s)),
      latency_(settings.latency),
      end_(end),
      queue_(settings.queue),
      dice_(sim::scramble(salt)) {}

double Link::chance() {
  dice_ += 0x9e3779b97f4a7c15u;  // SplitMix64
  return static_cast<double>(sim::scramble(dice_) >> 11) * 0x1.0p-53;
}

bool Link::leaves_mark() {
  if (waiting_ <= queue_.mark_min) return false;
  if (waiting_ > queue_.mark_max) return true;
  const double range = queue_.mark_max - queue_.mark_min;
  return chance() < (waiting_ - queue_.mark_min) / range;
}

void Link::start(Instant at, Packet& packet, PacketId id) {
  busy_until_ = at + pace_.time_of(packet.wire_bytes);
  packet.arrival = busy_until_ + latency_;
  started_ = id;
  sending_ = packet.urgent ? 0 : packet.wire_bytes;
}

// Begins to send the first packet that waits, when the one before it has been sent. That one is
// still in the chain.
void Link::start_next(PacketStore& packets) {
  Packet& before = packets.at(started_);
  if (before.takes_marks && !before.urgent && leaves_mark()) {
    before.marked = true;
    ++counters_.marked;
  }
  const PacketId id = before.next;
  Packet& packet = packets.at(id);
  (packet.urgent ? waiting_urgent_ : waiting_) -= packet.wire_bytes;
  if (last_urgent_ == id) last_urgent_ = kNoPacket;
  start(busy_until_, packet, id);
}

// Begins all packets whose start is due by now.
void Link::start_waiting(Instant now, PacketStore& packets) {
  while ((waiting_ | waiting_urgent_) != 0 && busy_until_ <= now) start_next(packets);
}

// Whether the packet waits, fits and causes no mark however much of the rest has begun.
bool Link::joins_quietly(Instant now, const Packet& packet) const {
  const std::uint64_t waiting = std::uint64_t{waiting_} + packet.wire_bytes;
  return !packet.urgent && waiting <= queue_.mark_min && waiting + sending_ <= queue_.capacity &&
         backlog(now) > Span{};
}

void Link::append(PacketId id, PacketStore& packets) {
  if (tail_ == kNoPacket) {
    head_ = id;
  } else {
    packets.at(tail_).next = id;
  }
  tail_ = id;
}

void Link::append_urgent(PacketId id, PacketStore& packets) {
  const PacketId before = last_urgent_ != kNoPacket ? last_urgent_ : started_;
  last_urgent_ = id;
  if (before == tail_) return append(id, packets);
  packets.at(id).next = packets.at(before).next;
  packets.at(before).next = id;
}

// For a packet that comes while another one is being sent.
bool Link::makes_room(Packet& packet) {
  if (!packet.urgent) {
    if (packet.wire_bytes <= queue_.capacity - std::min(queue_.capacity, waiting_ + sending_)) {
      return true;
    }
    if (queue_.trim_to == 0) return false;
    packet.wire_bytes = std::min(packet.wire_bytes, queue_.trim_to);
    packet.urgent = packet.trimmed = true;
    ++counters_.trimmed;
  }
  return packet.wire_bytes <= queue_.capacity - std::min(queue_.capacity, waiting_urgent_);
}

bool Link::enter(Instant now, PacketId id, PacketStore& packets) {
  if (down_ > 0) {
    ++counters_.cut;
    packets.give(id);
    return false;
  }
  Packet& packet = packets.at(id);
  packet.next = kNoPacket;
  bool is_busy = true;
  if (!joins_quietly(now, packet)) {
    start_waiting(now, packets);
    is_busy = busy_until_ > now;
    if (is_busy && !makes_room(packet)) {
      ++counters_.dropped;
      packets.give(id);
      return false;
    }
  }
  ++counters_.packets;
  counters_.bytes += packet.wire_bytes;
  if (!is_busy) {
    append(id, packets);
    start(now, packet, id);
  } else if (packet.urgent) {
    waiting_urgent_ += packet.wire_bytes;
    append_urgent(id, packets);
  } else {
    waiting_ += packet.wire_bytes;
    append(id, packets);
  }
  if (head_ != id) return false;
  due_ = packet.arrival;
  return true;
}

PacketId Link::leave(PacketStore& packets) {
  const PacketId id = head_;
  if (started_ == id && tail_ != id) start_next(packets);
  const PacketId next = packets.at(id).next;
  head_ = next;
  if (next == kNoPacket) tail_ = kNoPacket;
  if (started_ == id) started_ = kNoPacket;
  HAWSER_ASSERT(next == kNoPacket || started_ != kNoPacket, "a queue waits for nothing");
  due_ = next == kNoPacket ? kNever : packets.at(next).arrival;
  if (loss_ > 0 && chance() < static_cast<double>(loss_)) {
    ++counters_.lost;
    packets.give(id);
    return kNoPacket;
  }
  return id;
}

void Link::put_down(PacketStore& packets) {
  if (++down_ > 1) return;
  while (head_ != kNoPacket) {
    const PacketId next = packets.at(head_).next;
    packets.give(head_);
    ++counters_.cut;
    head_ = next;
  }
  started_ = last_urgent_ = tail_ = kNoPacket;
  waiting_ = waiting_urgent_ = sending_ = 0;
  busy_until_ = due_ = kNever;
}

void Link::put_up() {
  HAWSER_ASSERT(down_ > 0, "put up more often than down");
  if (--down_ == 0) busy_until_ = Instant{};
}

void Link::set_rate(Instant now, std::uint64_t bits_per_s, PacketStore& packets) {
  start_waiting(now, packets);
  pace_ = Pace::of(bits_per_s);
}

}  // namespace hawser::fabric
