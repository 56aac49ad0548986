// SPDX-License-Identifier: Apache-2.0
// Doubly linked lists through objects of a slab or an array, by index.
//
// The links lie in the objects, so an object can be on as many lists at once as it has ListLinks.
// Nothing is allocated, and removal from the middle is O(1). A list doesn't know its objects: every
// call gets them as `items`, a Slab<T>&, a span of T, or anything else with items[index].
#pragma once

#include <cstdint>

#include "proto/base/assert.hpp"
#include "proto/base/slab.hpp"

namespace hawser::proto {

struct ListLink {
  static constexpr std::uint32_t kOff = 0xfffffffeu;  // in both: on no list

  std::uint32_t next = kOff;  // kNoIndex: the last
  std::uint32_t prev = kOff;  // kNoIndex: the first
};

template <class T, ListLink T::*kLink>
class IndexList {
 public:
  [[nodiscard]] bool empty() const { return head_ == kNoIndex; }
  [[nodiscard]] std::uint32_t front() const { return head_; }  // kNoIndex if empty
  [[nodiscard]] std::uint32_t back() const { return tail_; }   // kNoIndex if empty

  // Index of the neighbour, kNoIndex at the end.
  template <class Items>
  [[nodiscard]] static std::uint32_t next(const Items& items, std::uint32_t index) {
    return (items[index].*kLink).next;
  }

  // Whether the object is on a list through this link. If several lists share the link (one per
  // peer, say), the caller must know which one.
  template <class Items>
  [[nodiscard]] static bool contains(const Items& items, std::uint32_t index) {
    return (items[index].*kLink).next != ListLink::kOff;
  }

  [[nodiscard]] static bool contains(const T& object) {
    return (object.*kLink).next != ListLink::kOff;
  }

  template <class Items>
  void push_back(Items&& items, std::uint32_t index) {
    insert_before(items, kNoIndex, index);
  }

  template <class Items>
  void push_front(Items&& items, std::uint32_t index) {
    insert_before(items, head_, index);
  }

  // Inserts `index` just before `successor`, which is on this list; kNoIndex: at the end.
  template <class Items>
  void insert_before(Items&& items, std::uint32_t successor, std::uint32_t index) {
    ListLink& link = items[index].*kLink;
    HAWSER_ASSERT(link.next == ListLink::kOff, "already on a list through this link");
    const std::uint32_t predecessor =
        successor == kNoIndex ? tail_ : (items[successor].*kLink).prev;
    HAWSER_ASSERT(predecessor != ListLink::kOff, "the successor is on no list");
    link = {successor, predecessor};
    (predecessor == kNoIndex ? head_ : (items[predecessor].*kLink).next) = index;
    (successor == kNoIndex ? tail_ : (items[successor].*kLink).prev) = index;
  }

  // Takes an object off this list.
  template <class Items>
  void remove(Items&& items, std::uint32_t index) {
    ListLink& link = items[index].*kLink;
    HAWSER_ASSERT(link.next != ListLink::kOff, "on no list");
    HAWSER_ASSERT(link.prev != kNoIndex || head_ == index, "on another list");
    HAWSER_ASSERT(link.next != kNoIndex || tail_ == index, "on another list");
    (link.prev == kNoIndex ? head_ : (items[link.prev].*kLink).next) = link.next;
    (link.next == kNoIndex ? tail_ : (items[link.next].*kLink).prev) = link.prev;
    link = ListLink{};
  }

  // Takes the first object off and returns its index, kNoIndex if there is none.
  template <class Items>
  std::uint32_t pop_front(Items&& items) {
    const std::uint32_t index = head_;
    if (index != kNoIndex) remove(items, index);
    return index;
  }

  // Calls visit(index) for each object, first to last. `visit` may remove the object it is given,
  // but no other.
  template <class Items, class Visit>
  void for_each(Items&& items, Visit&& visit) const {
    for (std::uint32_t index = head_; index != kNoIndex;) {
      const std::uint32_t following = next(items, index);
      visit(index);
      index = following;
    }
  }

 private:
  std::uint32_t head_ = kNoIndex;
  std::uint32_t tail_ = kNoIndex;
};

}  // namespace hawser::proto
