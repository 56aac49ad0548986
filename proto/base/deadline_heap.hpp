// SPDX-License-Identifier: Apache-2.0
// Which timer fires next: an indexed binary min-heap of (deadline, id).
//
// Each id below the capacity has at most one deadline. update moves it either way in O(log n); next
// is O(1). Peers, sent messages and received messages have a heap each. A peer folds its own timers
// and those of its paths into one deadline. The order of ids with equal deadlines depends only on
// the earlier calls, so runs replay.
#pragma once

#include <cstdint>
#include <memory>

#include "proto/base/assert.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/base/untouched.hpp"

namespace hawser::proto {

class DeadlineHeap {
 public:
  struct Entry {
    Time deadline = kNever;
    std::uint32_t id = kNoIndex;
  };

  // For ids 0 to capacity-1.
  explicit DeadlineHeap(std::uint32_t capacity)
      : heap_(capacity),
        position_(std::make_unique<std::uint32_t[]>(capacity)),
        capacity_(capacity) {
    for (std::uint32_t id = 0; id < capacity; ++id) position_[id] = kNoIndex;
  }

  // Arms the id's timer, or moves it. kNever disarms it.
  void update(std::uint32_t id, Time deadline) {
    if (deadline == kNever) return remove(id);
    HAWSER_ASSERT(id < capacity_);
    if (position_[id] == kNoIndex) {
      rise(size_++, {deadline, id});
    } else if (deadline < heap_[position_[id]].deadline) {
      rise(position_[id], {deadline, id});
    } else {
      sink(position_[id], {deadline, id});
    }
  }

  // Disarms the id's timer; nothing happens if it is not armed.
  void remove(std::uint32_t id) {
    HAWSER_ASSERT(id < capacity_);
    const std::uint32_t hole = position_[id];
    if (hole == kNoIndex) return;
    position_[id] = kNoIndex;
    const Entry last = heap_[--size_];
    if (last.id == id) return;
    if (hole > 0 && last.deadline < heap_[(hole - 1) / 2].deadline) {
      rise(hole, last);
    } else {
      sink(hole, last);
    }
  }

  // The earliest entry; the heap is not empty.
  [[nodiscard]] Entry top() const {
    HAWSER_ASSERT(size_ > 0);
    return heap_[0];
  }
  // Removes and returns the earliest entry.
  Entry pop() {
    const Entry entry = top();
    remove(entry.id);
    return entry;
  }

  // The earliest deadline, kNever if none is armed.
  [[nodiscard]] Time next() const { return size_ == 0 ? kNever : heap_[0].deadline; }
  // The id's deadline, kNever if it is not armed.
  [[nodiscard]] Time deadline_of(std::uint32_t id) const {
    HAWSER_ASSERT(id < capacity_);
    return position_[id] == kNoIndex ? kNever : heap_[position_[id]].deadline;
  }
  [[nodiscard]] bool contains(std::uint32_t id) const { return deadline_of(id) != kNever; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

 private:
  void place(std::uint32_t at, Entry entry) {
    heap_[at] = entry;
    position_[entry.id] = at;
  }

  // Moves the hole at `at` up or down, and puts `entry` where it stops.
  void rise(std::uint32_t at, Entry entry) {
    while (at > 0) {
      const std::uint32_t parent = (at - 1) / 2;
      if (!(entry.deadline < heap_[parent].deadline)) break;
      place(at, heap_[parent]);
      at = parent;
    }
    place(at, entry);
  }
  void sink(std::uint32_t at, Entry entry) {
    for (;;) {
      std::uint32_t child = 2 * at + 1;
      if (child >= size_) break;
      if (child + 1 < size_ && heap_[child + 1].deadline < heap_[child].deadline) ++child;
      if (!(heap_[child].deadline < entry.deadline)) break;
      place(at, heap_[child]);
      at = child;
    }
    place(at, entry);
  }

  Untouched<Entry> heap_;
  std::unique_ptr<std::uint32_t[]> position_;  // by id; kNoIndex: not armed
  std::uint32_t capacity_;
  std::uint32_t size_ = 0;
};

}  // namespace hawser::proto
