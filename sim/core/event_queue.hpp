// What happens next: events of actors in the order of their time, and of their making where that is
// equal, so that a run depends on nothing but its seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "proto/assert.hpp"
#include "proto/time.hpp"

namespace hawser::sim {

class Actor {
 public:
  // `what` is what the actor gave to EventQueue::at.
  virtual void on_event(proto::Time now, std::uint64_t what) = 0;

 protected:
  ~Actor() = default;
};

// Events can't be taken back; an actor knows by its own state that one means nothing any more.
class EventQueue {
 public:
  explicit EventQueue(proto::Time start) : now_(start) {}

  [[nodiscard]] proto::Time now() const { return now_; }
  [[nodiscard]] bool empty() const { return heap_.empty() && turns_.empty(); }
  // kNever if there is none.
  [[nodiscard]] proto::Time next() const { return empty() ? proto::kNever : sooner().first().time; }
  [[nodiscard]] std::uint64_t done() const { return done_; }

  // What is due already happens next. The actor lives until then.
  void at(proto::Time time, Actor& actor, std::uint64_t what) {
    heap_.push({proto::later(time, now_), made_++, &actor, what});
  }
  // The same for a host's next turn, which is asked for anew all the time: in a heap of their own
  // these are few, and don't pass by all the frames under way.
  void turn_at(proto::Time time, Actor& actor) {
    turns_.push({proto::later(time, now_), made_++, &actor, 0});
  }

  // The next event; there must be one.
  void step() {
    HAWSER_ASSERT(!empty());
    const Entry entry = sooner().pop();
    now_ = entry.time;
    ++done_;
    entry.actor->on_event(now_, entry.what);
  }

  // Time passes without an event.
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

  // Four children a node: half the levels of two, and siblings share cache lines.
  class Heap {
   public:
    [[nodiscard]] bool empty() const { return entries_.empty(); }
    [[nodiscard]] const Entry& first() const { return entries_.front(); }

    void push(const Entry& entry) {
      entries_.push_back(entry);
      std::size_t i = entries_.size() - 1;
      for (; i > 0 && entry.before(entries_[(i - 1) / kChildren]); i = (i - 1) / kChildren) {
        entries_[i] = entries_[(i - 1) / kChildren];
      }
      entries_[i] = entry;
    }
    Entry pop() {
      const Entry entry = entries_.front();
      const Entry last = entries_.back();
      entries_.pop_back();
      if (!entries_.empty()) put(last);
      return entry;
    }

   private:
    static constexpr std::size_t kChildren = 4;

    // In place of the first.
    void put(const Entry& entry) {
      std::size_t i = 0;
      for (;;) {
        const std::size_t child = i * kChildren + 1;
        const std::size_t end = std::min(child + kChildren, entries_.size());
        if (child >= end) break;
        std::size_t least = child;
        for (std::size_t other = child + 1; other < end; ++other) {
          if (entries_[other].before(entries_[least])) least = other;
        }
        if (!entries_[least].before(entry)) break;
        entries_[i] = entries_[least];
        i = least;
      }
      entries_[i] = entry;
    }

    std::vector<Entry> entries_;
  };

  // The one that holds the next event, of all.
  [[nodiscard]] const Heap& sooner() const {
    if (turns_.empty()) return heap_;
    return heap_.empty() || turns_.first().before(heap_.first()) ? turns_ : heap_;
  }
  [[nodiscard]] Heap& sooner() { return const_cast<Heap&>(std::as_const(*this).sooner()); }

  Heap heap_;
  Heap turns_;
  proto::Time now_;
  std::uint64_t made_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace hawser::sim
