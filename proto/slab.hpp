// A slab: a fixed number of objects, all made at construction, handed out and taken back.
//
// An object is named by index and generation, never by a pointer that is kept: the generation
// changes when the object is freed, so a name that outlives its object is recognised (get gives
// null) and can't hit the index's next object. The free list is last-in first-out: what was used
// last is still in the cache.
#pragma once

#include <cstdint>
#include <memory>

#include "proto/assert.hpp"

namespace hawser::proto {

// An index that names nothing.
inline constexpr std::uint32_t kNoIndex = 0xffffffffu;

struct SlabId {
  std::uint32_t index = kNoIndex;
  std::uint32_t generation = 0;  // of a live object at least 1

  friend constexpr bool operator==(SlabId, SlabId) = default;
};
inline constexpr SlabId kNoSlabId{};

template <class T>
class Slab {
 public:
  explicit Slab(std::uint32_t capacity)
      : objects_(std::make_unique<T[]>(capacity)),
        cells_(std::make_unique<Cell[]>(capacity)),
        capacity_(capacity),
        free_(capacity == 0 ? kNoIndex : 0) {
    HAWSER_ASSERT(capacity < kLive);
    for (std::uint32_t i = 0; i < capacity; ++i) {
      cells_[i].next_free = i + 1 == capacity ? kNoIndex : i + 1;
    }
  }

  // An object as if just constructed, or null if all are in use. The caller's until free.
  // T::reset() is called if there is one; otherwise T{} is assigned.
  [[nodiscard]] T* try_allocate() {
    if (free_ == kNoIndex) return nullptr;
    const std::uint32_t index = free_;
    free_ = cells_[index].next_free;
    cells_[index].next_free = kLive;
    ++size_;
    T& object = objects_[index];
    if constexpr (requires { object.reset(); }) {
      object.reset();
    } else {
      object = T{};
    }
    return &object;
  }

  // The same; `id` is its name, and stays as it was if all are in use.
  [[nodiscard]] T* try_allocate(SlabId& id) {
    T* object = try_allocate();
    if (object != nullptr) id = id_of(*object);
    return object;
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

  // Null if that object is no more.
  [[nodiscard]] T* get(SlabId id) {
    return is_live(id.index) && cells_[id.index].generation == id.generation ? &objects_[id.index]
                                                                             : nullptr;
  }
  [[nodiscard]] const T* get(SlabId id) const { return const_cast<Slab*>(this)->get(id); }

  // The object at an index that the caller knows to be live.
  [[nodiscard]] T& at(std::uint32_t index) {
    HAWSER_ASSERT(index < capacity_);
    return objects_[index];
  }
  [[nodiscard]] const T& at(std::uint32_t index) const {
    HAWSER_ASSERT(index < capacity_);
    return objects_[index];
  }
  [[nodiscard]] T& operator[](std::uint32_t index) { return at(index); }
  [[nodiscard]] const T& operator[](std::uint32_t index) const { return at(index); }

  [[nodiscard]] bool is_live(std::uint32_t index) const {
    return index < capacity_ && cells_[index].next_free == kLive;
  }
  [[nodiscard]] std::uint32_t index_of(const T& object) const {
    return static_cast<std::uint32_t>(&object - objects_.get());
  }
  [[nodiscard]] SlabId id_of(const T& object) const { return id_at(index_of(object)); }
  [[nodiscard]] SlabId id_at(std::uint32_t index) const {
    HAWSER_ASSERT(is_live(index));
    return {index, cells_[index].generation};
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] bool full() const { return free_ == kNoIndex; }

 private:
  static constexpr std::uint32_t kLive = 0xfffffffeu;  // in next_free: not on the free list

  // Kept apart from the objects so that these lie as densely, and aligned, as their type says.
  struct Cell {
    std::uint32_t generation = 1;
    std::uint32_t next_free = kNoIndex;
  };

  std::unique_ptr<T[]> objects_;
  std::unique_ptr<Cell[]> cells_;
  std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  std::uint32_t free_;
};

}  // namespace hawser::proto
