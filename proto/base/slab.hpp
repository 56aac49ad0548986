// SPDX-License-Identifier: Apache-2.0
// A slab: a fixed number of objects, allocated and freed. The constructor reserves memory for all,
// but only the most ever in use at once are touched: used places are allocated first.
//
// Callers name an object by index and generation, and never keep a pointer. The generation changes
// when the object is freed. A name that outlives its object is therefore recognised (get gives
// null) and can't hit the index's next object. The free list is last-in first-out, as the place
// used last is still in the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "proto/base/assert.hpp"
#include "proto/base/prefetch.hpp"
#include "proto/base/untouched.hpp"

namespace hawser::proto {

// An index that names nothing.
inline constexpr std::uint32_t kNoIndex = 0xffffffffu;

struct SlabId {
  std::uint32_t index = kNoIndex;
  std::uint32_t generation = 0;  // at least 1 for a live object

  friend constexpr bool operator==(SlabId, SlabId) = default;
};
inline constexpr SlabId kNoSlabId{};

template <class T>
class Slab {
 public:
  explicit Slab(std::uint32_t capacity)
      : objects_(capacity), cells_(capacity), capacity_(capacity) {
    HAWSER_ASSERT(capacity < kLive);
  }

  // An object as if just constructed, or null if all are in use. It is the caller's until free.
  // Calls T::reset() if there is one; otherwise assigns T{}.
  [[nodiscard]] T* try_allocate() {
    if (available() == 0) return nullptr;
    const bool is_new = free_ == kNoIndex;
    const std::uint32_t index = is_new ? made_++ : free_;
    T& object = objects_[index];
    ++size_;
    if (is_new) {
      cells_[index] = Cell{};
      object = T{};
    } else {
      free_ = cells_[index].next_free;
    }
    cells_[index].next_free = kLive;
    if constexpr (requires { object.reset(); }) {
      object.reset();
    } else if constexpr (std::is_trivially_destructible_v<T>) {
      std::construct_at(&object);  // in place: an assignment would make a copy first
    } else {
      object = T{};
    }
    return &object;
  }

  // The same; `id` becomes its name, and stays as it was if all are in use.
  [[nodiscard]] T* try_allocate(SlabId& id) {
    T* object = try_allocate();
    if (object != nullptr) id = id_of(*object);
    return object;
  }

  // The same, for who knows that one is left.
  T& allocate(SlabId& id) {
    T* const object = try_allocate(id);
    HAWSER_ASSERT(object != nullptr);
    return *object;
  }

  // Ends the object's life: its names are void from here on.
  void free(std::uint32_t index) {
    HAWSER_ASSERT(is_live(index), "freed twice, or never allocated");
    Cell& cell = cells_[index];
    if (++cell.generation == 0) cell.generation = 1;
    cell.next_free = free_;
    free_ = index;
    --size_;
  }

  // Null if that object was freed.
  [[nodiscard]] T* get(SlabId id) {
    return is_live(id.index) && cells_[id.index].generation == id.generation ? &objects_[id.index]
                                                                             : nullptr;
  }
  [[nodiscard]] const T* get(SlabId id) const { return const_cast<Slab*>(this)->get(id); }

  // The object at any index; null if none lives there.
  [[nodiscard]] T* find(std::uint32_t index) { return is_live(index) ? &objects_[index] : nullptr; }
  [[nodiscard]] const T* find(std::uint32_t index) const {
    return const_cast<Slab*>(this)->find(index);
  }

  // The object at an index that the caller knows to be live.
  [[nodiscard]] T& at(std::uint32_t index) {
    HAWSER_ASSERT(index < made_);
    return objects_[index];
  }
  [[nodiscard]] const T& at(std::uint32_t index) const {
    HAWSER_ASSERT(index < made_);
    return objects_[index];
  }
  [[nodiscard]] T& operator[](std::uint32_t index) { return at(index); }
  [[nodiscard]] const T& operator[](std::uint32_t index) const { return at(index); }

  // Prefetches an object that is about to be used. Ignores an index that names nothing.
  void fetch(std::uint32_t index) const {
    if (index < made_) prefetch(&objects_[index], &objects_[index] + 1);
  }

  [[nodiscard]] bool is_live(std::uint32_t index) const {
    return index < made_ && cells_[index].next_free == kLive;
  }
  [[nodiscard]] std::uint32_t index_of(const T& object) const {
    return static_cast<std::uint32_t>(&object - objects_.data());
  }
  [[nodiscard]] SlabId id_of(const T& object) const { return id_at(index_of(object)); }
  [[nodiscard]] SlabId id_at(std::uint32_t index) const {
    HAWSER_ASSERT(is_live(index));
    return {index, cells_[index].generation};
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  // How many more can be allocated now.
  [[nodiscard]] std::uint32_t available() const { return capacity_ - size_ - withheld_; }

  // Keeps so many places, which must be available, from being allocated until they are released.
  void withhold(std::uint32_t count) {
    HAWSER_ASSERT(count <= available());
    withheld_ += count;
  }
  void release(std::uint32_t count) {
    HAWSER_ASSERT(count <= withheld_);
    withheld_ -= count;
  }

  // How many places have ever been in use at once: only their memory is touched.
  [[nodiscard]] std::uint32_t touched() const { return made_; }
  [[nodiscard]] bool full() const { return size_ == capacity_; }

 private:
  static constexpr std::uint32_t kLive = 0xfffffffeu;  // in next_free: not on the free list

  // Kept apart from the objects, so that these keep the density and alignment of their type.
  struct Cell {
    std::uint32_t generation = 1;
    std::uint32_t next_free = kNoIndex;
  };

  Untouched<T> objects_;
  Untouched<Cell> cells_;
  std::uint32_t capacity_;
  std::uint32_t made_ = 0;  // objects below it have been in use
  std::uint32_t size_ = 0;
  std::uint32_t withheld_ = 0;
  std::uint32_t free_ = kNoIndex;
};

}  // namespace hawser::proto
