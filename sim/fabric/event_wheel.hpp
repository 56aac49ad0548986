// SPDX-License-Identifier: Apache-2.0
// The events of a fabric, in the order of their time. Events of equal time happen in the order in
// which they were made, so that a run depends on nothing but its inputs.
//
// A fabric of thousands of hosts has tens of thousands of events pending, nearly all of them within
// the next microseconds. Those lie unsorted in the buckets of a wheel, a nanosecond each; the wheel
// sorts a bucket when its time comes. Events further off wait in a heap until the wheel has come
// near. Events made for the current bucket, or before it, go to a small heap of their own. Making
// and taking an event therefore costs the same however many there are. The bucket also shows which
// events come next: the wheel tells their actors a little ahead, so that they can prefetch what
// they will need. The state of thousands of hosts fits in no cache.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "proto/base/assert.hpp"
#include "sim/fabric/instant.hpp"

namespace hawser::fabric {

// How soon an actor's event comes.
enum class Ahead : std::uint8_t { far, near, next };

class Actor {
 public:
  // `what` is what the actor gave to EventWheel::at.
  virtual void on_event(Instant now, std::uint32_t what) = 0;
  // The event comes soon. There may be no such call if the event was made too late for it. Changes
  // nothing.
  virtual void prepare(std::uint32_t what, Ahead ahead) const {
    static_cast<void>(what);
    static_cast<void>(ahead);
  }

 protected:
  ~Actor() = default;
};

// Events can't be taken back; an actor knows by its own state that one means nothing any more.
class EventWheel {
 public:
  EventWheel() { heads_.fill(kNone); }

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::size_t pending() const { return pending_; }
  [[nodiscard]] bool empty() const { return pending_ == 0; }
  [[nodiscard]] std::uint64_t done() const { return done_; }

  // An event whose time has passed already happens next. The actor lives until the event.
  void at(Instant time, Actor& actor, std::uint32_t what) {
    const Event event{std::max(time, now_), made_++, &actor, what, kNone};
    ++pending_;
    const std::int64_t bucket = bucket_of(event.time);
    if (bucket <= current_) {
      push(late_, event);
    } else if (bucket < current_ + kBuckets) {
      put(event);
    } else {
      push(far_, event);
    }
  }

  // The time of the next event; kNever if there is none.
  [[nodiscard]] Instant next() {
    if (pending_ == 0) return kNever;
    if (taken_ == run_.size() && late_.empty()) advance();
    if (late_.empty()) return run_[taken_].time;
    if (taken_ == run_.size()) return late_.front().time;
    return std::min(run_[taken_].time, late_.front().time);
  }

  // Runs the next event; there must be one.
  void step() {
    HAWSER_ASSERT(pending_ > 0);
    if (taken_ == run_.size() && late_.empty()) advance();
    const bool is_late =
        taken_ == run_.size() || (!late_.empty() && late_.front().before(run_[taken_]));
    const Event event = is_late ? pop(late_) : run_[taken_++];
    if (!is_late) prepare();
    --pending_;
    ++done_;
    now_ = event.time;
    event.actor->on_event(now_, event.what);
  }

  void run() {
    while (pending_ > 0) step();
  }
  // Runs the events that are due until then, and advances the time to it.
  void run_until(Instant end) {
    while (next() <= end) step();
    now_ = std::max(now_, end);
  }

 private:
  static constexpr unsigned kWidthBits = 10;  // of a bucket: 1024 ps
  static constexpr std::int64_t kBuckets = 1 << 14;
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::int64_t kWord = 64;
  static constexpr std::size_t kNear = 8;  // events ahead
  static constexpr std::size_t kNext = 4;

  struct Event {
    Instant time;
    std::uint64_t order;
    Actor* actor;
    std::uint32_t what;
    std::uint32_t next;
    [[nodiscard]] bool before(const Event& other) const {
      return time != other.time ? time < other.time : order < other.order;
    }
  };
  static_assert(sizeof(Event) == 32);

  [[nodiscard]] static std::int64_t bucket_of(Instant time) { return time.ps >> kWidthBits; }
  [[nodiscard]] static bool after(const Event& a, const Event& b) { return b.before(a); }
  static void push(std::vector<Event>& heap, const Event& event) {
    heap.push_back(event);
    std::push_heap(heap.begin(), heap.end(), after);
  }
  static Event pop(std::vector<Event>& heap) {
    std::pop_heap(heap.begin(), heap.end(), after);
    const Event event = heap.back();
    heap.pop_back();
    return event;
  }

  void prepare() const {
    if (taken_ + kNear < run_.size()) {
      run_[taken_ + kNear].actor->prepare(run_[taken_ + kNear].what, Ahead::near);
    }
    if (taken_ + kNext < run_.size()) {
      run_[taken_ + kNext].actor->prepare(run_[taken_ + kNext].what, Ahead::next);
    }
  }

  void put(Event event) {
    const auto place = static_cast<std::size_t>(bucket_of(event.time) & (kBuckets - 1));
    event.next = heads_[place];
    std::uint32_t node = free_;
    if (node == kNone) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(event);
    } else {
      free_ = nodes_[node].next;
      nodes_[node] = event;
    }
    heads_[place] = node;
    filled_[place / kWord] |= std::uint64_t{1} << place % kWord;
  }

  // The distance to the next bucket that has an event, kBuckets if none has. Buckets before the
  // current one on the wheel are a turn later.
  [[nodiscard]] std::int64_t steps_to_next() const {
    constexpr std::size_t kWords = kBuckets / kWord;
    const auto first = static_cast<std::size_t>((current_ + 1) & (kBuckets - 1));
    std::size_t word = first / kWord;
    std::uint64_t bits = filled_[word] & ~std::uint64_t{0} << first % kWord;
    for (std::size_t i = 0; i <= kWords; ++i) {
      if (bits != 0) {
        const std::size_t place = word * kWord + static_cast<std::size_t>(std::countr_zero(bits));
        return static_cast<std::int64_t>((place - first) & (kBuckets - 1)) + 1;
      }
      word = (word + 1) % kWords;
      bits = filled_[word];
    }
    return kBuckets;
  }

  // Goes to the next bucket that has an event, and sorts it. Only when the current one is done.
  void advance() {
    std::int64_t next = current_ + steps_to_next();
    if (next == current_ + kBuckets) {
      HAWSER_ASSERT(!far_.empty());
      next = bucket_of(far_.front().time);
    }
    current_ = next;
    while (!far_.empty() && bucket_of(far_.front().time) < current_ + kBuckets) put(pop(far_));
    run_.clear();
    taken_ = 0;
    const auto place = static_cast<std::size_t>(current_ & (kBuckets - 1));
    for (std::uint32_t node = heads_[place]; node != kNone;) {
      run_.push_back(nodes_[node]);
      run_.back().actor->prepare(run_.back().what, Ahead::far);
      const std::uint32_t follower = nodes_[node].next;
      nodes_[node].next = free_;
      free_ = node;
      node = follower;
    }
    heads_[place] = kNone;
    filled_[place / kWord] &= ~(std::uint64_t{1} << place % kWord);
    // A bucket's chain is last made first, which is mostly the reverse of its order in time.
    std::reverse(run_.begin(), run_.end());
    std::sort(run_.begin(), run_.end(), [](const Event& a, const Event& b) { return a.before(b); });
  }

  std::array<std::uint32_t, kBuckets> heads_;
  std::array<std::uint64_t, kBuckets / kWord> filled_{};
  std::vector<Event> nodes_;
  std::uint32_t free_ = kNone;
  std::vector<Event> run_;  // the current bucket, sorted; up to `taken_` done
  std::size_t taken_ = 0;
  std::vector<Event> late_;  // heaps
  std::vector<Event> far_;
  std::int64_t current_ = -1;
  Instant now_;
  std::uint64_t made_ = 0;
  std::uint64_t done_ = 0;
  std::size_t pending_ = 0;
};

}  // namespace hawser::fabric
