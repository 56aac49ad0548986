// SPDX-License-Identifier: Apache-2.0
// A first-in first-out ring of fixed capacity, for one thread.
//
// The capacity is rounded up to a power of two. The two counters run free and wrap; their
// difference is the size. They start just short of the wrap, so that every run goes through it, not
// only one of 2^32 elements. Elements are assigned over. Plain ones are not constructed in advance,
// so a ring takes only the memory of what was in it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "proto/base/assert.hpp"
#include "proto/base/untouched.hpp"

namespace hawser::proto {

template <class T>
class Ring {
 public:
  explicit Ring(std::uint32_t capacity)
      : mask_(std::bit_ceil(checked(capacity)) - 1), slots_(std::size_t{mask_} + 1) {}

  // False, and nothing happens, if the ring is full.
  [[nodiscard]] bool push(T value) {
    if (full()) return false;
    slots_[tail_++ & mask_] = std::move(value);
    return true;
  }

  // The same, for who knows that there is room.
  void put(T value) {
    const bool had_room = push(std::move(value));
    HAWSER_ASSERT(had_room);
  }

  // Removes the oldest element and returns it.
  T pop() {
    HAWSER_ASSERT(!empty());
    return std::move(slots_[head_++ & mask_]);
  }

  [[nodiscard]] T& front() { return at(0); }
  [[nodiscard]] const T& front() const { return at(0); }
  [[nodiscard]] T& back() { return at(size() - 1); }
  [[nodiscard]] const T& back() const { return at(size() - 1); }

  // The i-th oldest.
  [[nodiscard]] T& at(std::uint32_t i) {
    HAWSER_ASSERT(i < size());
    return slots_[(head_ + i) & mask_];
  }
  [[nodiscard]] const T& at(std::uint32_t i) const {
    HAWSER_ASSERT(i < size());
    return slots_[(head_ + i) & mask_];
  }

  void clear() { head_ = tail_; }

  [[nodiscard]] std::uint32_t size() const { return tail_ - head_; }
  [[nodiscard]] std::uint32_t capacity() const { return mask_ + 1; }
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] bool full() const { return size() == capacity(); }

 private:
  static constexpr bool kPlain =
      std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>;
  using Slots = std::conditional_t<kPlain, Untouched<T>, std::vector<T>>;

  static std::uint32_t checked(std::uint32_t capacity) {
    HAWSER_ASSERT(capacity >= 1 && capacity <= 0x80000000u);
    return capacity;
  }

  std::uint32_t mask_;
  std::uint32_t head_ = 0xffffffe0u;
  std::uint32_t tail_ = 0xffffffe0u;
  Slots slots_;
};

}  // namespace hawser::proto
