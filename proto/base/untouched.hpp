// SPDX-License-Identifier: Apache-2.0
// Memory for a fixed number of objects, reserved at once and not written to. The limits of an
// endpoint cost only address space; only objects that it has used cost memory.
//
// The system provides pages when they are first written, so nothing here makes objects in advance.
// A user writes a place before reading it, and takes the lowest places first if it can choose.
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
                "assignment begins its objects, and no destructor ends them");

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

// The same, but each object is made when its place, or a later one, is first asked for. For places
// that are used from the lowest on, as a slab's are.
template <class T>
class MadeAtUse {
 public:
  explicit MadeAtUse(std::size_t count) : objects_(count) {}

  [[nodiscard]] T& operator[](std::size_t i) {
    HAWSER_ASSERT(i < objects_.size());
    while (made_ <= i) objects_[made_++] = T{};
    return objects_[i];
  }
  // For an object that is made already.
  [[nodiscard]] const T& operator[](std::size_t i) const {
    HAWSER_ASSERT(i < made_);
    return objects_[i];
  }
  // All objects that are made, for callers that have asked for theirs before.
  [[nodiscard]] std::span<T> all() { return {objects_.data(), made_}; }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  [[nodiscard]] std::size_t made() const { return made_; }

 private:
  Untouched<T> objects_;
  std::size_t made_ = 0;
};

}  // namespace hawser::proto
