// SPDX-License-Identifier: Apache-2.0
// The events of a simulated world, in the order of their time. Events of equal time happen in the
// order in which they were made, so that a run depends on nothing but its seed.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/base/assert.hpp"
#include "proto/base/time.hpp"

namespace hawser::sim {

class Actor {
 public:
  // `what` is what the actor gave to EventQueue::at.
  virtual void on_event(proto::Time now, std::uint64_t what) = 0;

 protected:
  ~Actor() = default;
};

// A heap of four children a node: half the levels of a binary one, and siblings share cache lines.
// Events can't be taken back; an actor knows by its own state that one means nothing any more.
class EventQueue {
 public:
  explicit EventQueue(proto::Time start) : now_(start) {}

  [[nodiscard]] proto::Time now() const { return now_; }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // The time of the next event; kNever if there is none.
  [[nodiscard]] proto::Time next() const {
    return heap_.empty() ? proto::kNever : heap_.front().time;
  }
  [[nodiscard]] std::uint64_t done() const { return done_; }

  // An event whose time has passed already happens next. The actor lives until the event.
  void at(proto::Time time, Actor& actor, std::uint64_t what) {
    heap_.push_back({proto::later(time, now_), made_++, &actor, what});
    sift_up(heap_.size() - 1);
  }

  // Runs the next event; there must be one.
  void step() {
    HAWSER_ASSERT(!heap_.empty());
    const Entry entry = heap_.front();
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(0);
    now_ = entry.time;
    ++done_;
    entry.actor->on_event(now_, entry.what);
  }

  // Lets time pass without an event.
  void advance(proto::Time to) {
    HAWSER_ASSERT(to <= next());
    now_ = proto::later(now_, to);
  }

 private:
  struct Entry {
    proto::Time time;
    std::uint64_t number;
    Actor* actor;
    std::uint64_t what;
    [[nodiscard]] bool before(const Entry& other) const {
      return time != other.time ? time < other.time : number < other.number;
    }
  };
  static constexpr std::size_t kChildren = 4;

  void sift_up(std::size_t i) {
    const Entry entry = heap_[i];
    while (i > 0 && entry.before(heap_[(i - 1) / kChildren])) {
      heap_[i] = heap_[(i - 1) / kChildren];
      i = (i - 1) / kChildren;
    }
    heap_[i] = entry;
  }
  void sift_down(std::size_t i) {
    const Entry entry = heap_[i];
    for (;;) {
      const std::size_t first = i * kChildren + 1;
      if (first >= heap_.size()) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < first + kChildren && child < heap_.size();
           ++child) {
        if (heap_[child].before(heap_[least])) least = child;
      }
      if (!heap_[least].before(entry)) break;
      heap_[i] = heap_[least];
      i = least;
    }
    heap_[i] = entry;
  }

  std::vector<Entry> heap_;
  proto::Time now_;
  std::uint64_t made_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace hawser::sim
