// SPDX-License-Identifier: Apache-2.0
// The results that a worker hands to the process that forked it: plain values and lists of them, in
// memory that both have open.
#pragma once

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/descriptor.hpp"

namespace hawser::tool {

// One worker writes into it. When the worker has ended, its maker reads the same, in the same
// order.
class Parcel {
 public:
  // Throws std::runtime_error if there is no memory for it, as the next two do.
  Parcel();
  // Makes the values put so far visible to others.
  void send() const;
  void receive();

  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(values.size());
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), bytes, bytes + values.size() * sizeof(T));
  }

  // Both throw std::runtime_error if there is not that much left.
  template <class T>
  void take(T& value) {
    std::memcpy(&value, advance(sizeof value), sizeof value);
  }
  template <class T>
  void take(std::vector<T>& values) {
    std::size_t count = 0;
    take(count);
    if (count > bytes_.size()) throw std::runtime_error("a worker's parcel is cut short");
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), advance(count * sizeof(T)), count * sizeof(T));
  }

 private:
  const std::byte* advance(std::size_t bytes) {
    if (bytes > bytes_.size() - taken_) throw std::runtime_error("a worker's parcel is cut short");
    taken_ += bytes;
    return bytes_.data() + (taken_ - bytes);
  }

  engine::Descriptor memory_;
  std::vector<std::byte> bytes_;
  std::size_t taken_ = 0;
};

}  // namespace hawser::tool
