// SPDX-License-Identifier: Apache-2.0
// Packets of one direction that the fault layer holds back: a copy of each in a preallocated slot.
//
// A slot is free until its user takes it, fills it, and puts it in one of three places:
//   until a time   a heap by (time, order of arrival)
//   behind others  until that many packets of its queue have passed, or a time at the latest
//   ready          a FIFO per queue, from which the user takes it
// The user frees it when the copy is no longer needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/driver/aligned_memory.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/time.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct HeldPacket {
  std::byte* data = nullptr;  // header || payload, 64-byte aligned; fixed from construction
  std::uint32_t bytes = 0;
  std::uint32_t header_bytes = 0;  // tx only
  proto::RemoteHandle remote = proto::kNoRemote;
  std::uint16_t entropy = 0;
  proto::Queue queue = proto::Queue::data;
  bool congestion_experienced = false;
  bool overtakes = true;  // when it goes, it counts as passing the packets held behind others
};

class HeldPackets {
 public:
  using Slot = std::uint32_t;

  HeldPackets(std::size_t slots, std::size_t slot_bytes);

  [[nodiscard]] std::size_t free_slots() const { return free_.size(); }
  [[nodiscard]] std::size_t slot_bytes() const { return stride_; }
  [[nodiscard]] std::size_t slots() const { return packets_.size(); }

  // Requires a free slot.
  [[nodiscard]] Slot take();
  void free(Slot slot) { free_.push_back(slot); }

  [[nodiscard]] HeldPacket& operator[](Slot slot) { return packets_[slot]; }

  void hold_until(Slot slot, proto::Time due);
  void hold_behind(Slot slot, std::uint32_t packets, proto::Time latest);
  void make_ready(Slot slot) { ready(packets_[slot].queue).put(slot); }

  // A packet of `queue` overtakes those that are held behind others.
  void passed(proto::Queue queue);
  // Makes all packets ready that are due by `now`.
  void advance(proto::Time now);
  // Makes all held packets ready.
  void release_all();

  [[nodiscard]] proto::Ring<Slot>& ready(proto::Queue queue) {
    return ready_[static_cast<std::size_t>(queue)];
  }
  [[nodiscard]] bool any_behind() const { return !behind_.empty(); }
  [[nodiscard]] bool any_ready() const { return !ready_[0].empty() || !ready_[1].empty(); }
  // True if nothing is held or ready.
  [[nodiscard]] bool idle() const { return timed_.empty() && behind_.empty() && !any_ready(); }
  // The time at which the next packet becomes ready by time; kNever if none will.
  [[nodiscard]] proto::Time next_due() const;

  // The slot that `data` lies in, or kNoSlot.
  static constexpr Slot kNoSlot = std::numeric_limits<Slot>::max();
  [[nodiscard]] Slot slot_of(const std::byte* data) const;

 private:
  struct Timed {
    proto::Time due;
    std::uint64_t order;
    Slot slot;
    // std::push_heap keeps the greatest element in front, and the earliest is wanted there.
    friend bool operator<(const Timed& a, const Timed& b) {
      return a.due != b.due ? b.due < a.due : b.order < a.order;
    }
  };
  struct Behind {
    Slot slot;
    std::uint32_t packets;
    proto::Time latest;
  };
  std::size_t stride_;
  AlignedMemory memory_;
  std::vector<HeldPacket> packets_;
  std::vector<Slot> free_;
  std::vector<Timed> timed_;    // heap
  std::vector<Behind> behind_;  // in order of arrival
  proto::Ring<Slot> ready_[2];
  std::uint64_t next_order_ = 0;
};

}  // namespace hawser::engine
