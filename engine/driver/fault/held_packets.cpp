// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/fault/held_packets.hpp"

#include <algorithm>
#include <new>

namespace hawser::engine {

using proto::Queue;
using proto::Time;

HeldPackets::HeldPackets(std::size_t slots, std::size_t slot_bytes)
    : stride_((slot_bytes + kCacheLine - 1) / kCacheLine * kCacheLine),
      memory_(allocate_aligned(slots * stride_)),
      packets_(slots),
      ready_{proto::Ring<Slot>(static_cast<std::uint32_t>(slots)),
             proto::Ring<Slot>(static_cast<std::uint32_t>(slots))} {
  free_.reserve(slots);
  timed_.reserve(slots);
  behind_.reserve(slots);
  for (std::size_t i = slots; i-- > 0;) {
    packets_[i].data = memory_.get() + i * stride_;
    free_.push_back(static_cast<Slot>(i));
  }
}

HeldPackets::Slot HeldPackets::take() {
  HAWSER_ASSERT(!free_.empty());
  const Slot slot = free_.back();
  free_.pop_back();
  return slot;
}

void HeldPackets::hold_until(Slot slot, Time due) {
  timed_.push_back({due, next_order_++, slot});
  std::push_heap(timed_.begin(), timed_.end());
}

void HeldPackets::hold_behind(Slot slot, std::uint32_t packets, Time latest) {
  behind_.push_back({slot, packets, latest});
}

void HeldPackets::passed(Queue queue) {
  std::size_t kept = 0;
  for (Behind& behind : behind_) {
    if (packets_[behind.slot].queue == queue && --behind.packets == 0) {
      make_ready(behind.slot);
    } else {
      behind_[kept++] = behind;
    }
  }
  behind_.resize(kept);
}

void HeldPackets::advance(Time now) {
  while (!timed_.empty() && timed_.front().due <= now) {
    std::pop_heap(timed_.begin(), timed_.end());
    make_ready(timed_.back().slot);
    timed_.pop_back();
  }
  std::erase_if(behind_, [&](const Behind& behind) {
    if (behind.latest > now) return false;
    make_ready(behind.slot);
    return true;
  });
}

void HeldPackets::release_all() { advance(proto::kNever); }

Time HeldPackets::next_due() const {
  Time due = timed_.empty() ? proto::kNever : timed_.front().due;
  for (const Behind& behind : behind_) due = proto::earlier(due, behind.latest);
  return due;
}

HeldPackets::Slot HeldPackets::slot_of(const std::byte* data) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory_.get());
  if (at < begin || at >= begin + packets_.size() * stride_) return kNoSlot;
  return static_cast<Slot>((at - begin) / stride_);
}

}  // namespace hawser::engine
