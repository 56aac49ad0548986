// SPDX-License-Identifier: Apache-2.0
// Memory for a fixed number of objects, taken at once and not written to: what an endpoint may need
// at its limits costs address space, and only what it has used costs memory.
//
// The system gives pages when they are first written. So nothing here makes objects in advance: who
// uses a place writes it before reading it, lowest places first where there is a choice.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "proto/base/assert.hpp"
#include "proto/base/pages.hpp"

namespace hawser::proto {

template <class T>
class Untouched {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "its objects begin by assignment and end without notice");

 public:
  explicit Untouched(std::size_t count) : data_(take(count), Release{count}) {}

  [[nodiscard]] T* data() { return data_.get(); }
  [[nodiscard]] const T* data() const { return data_.get(); }
  [[nodiscard]] T& operator[](std::size_t i) { return data_.get()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data_.get()[i]; }
  [[nodiscard]] std::size_t size() const { return data_.get_deleter().count; }

 private:
  [[nodiscard]] static bool is_pages(std::size_t count) { return count >= kLeastPages / sizeof(T); }
  [[nodiscard]] static T* take(std::size_t count) {
    if (!is_pages(count)) return std::allocator<T>().allocate(count);
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(take_pages(count * sizeof(T)));
  }
  struct Release {
    std::size_t count = 0;
    void operator()(T* data) const {
      if (is_pages(count)) {
        give_pages(data, count * sizeof(T));
      } else {
        std::allocator<T>().deallocate(data, count);
      }
    }
  };
  std::unique_ptr<T, Release> data_;
};

// The same, each object made the first time that its place, or a later one, is asked for. For
// places that are used from the lowest on, as a slab's are.
template <class T>
class MadeAtUse {
 public:
  explicit MadeAtUse(std::size_t count) : objects_(count) {}

  [[nodiscard]] T& operator[](std::size_t i) {
    HAWSER_ASSERT(i < objects_.size());
    while (made_ <= i) objects_[made_++] = T{};
    return objects_[i];
  }
  // One that is made already.
  [[nodiscard]] const T& operator[](std::size_t i) const {
    HAWSER_ASSERT(i < made_);
    return objects_[i];
  }
  // All that are made, for who has looked already.
  [[nodiscard]] std::span<T> all() { return {objects_.data(), made_}; }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  [[nodiscard]] std::size_t made() const { return made_; }

 private:
  Untouched<T> objects_;
  std::size_t made_ = 0;
};

}  // namespace hawser::proto
