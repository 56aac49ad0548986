// SPDX-License-Identifier: Apache-2.0
// A range of whole pages of the process's address space: the unit that is registered, watched and
// counted.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace hawser::engine {

struct PageRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
  [[nodiscard]] bool holds(const PageRange& other) const {
    return begin <= other.begin && other.end <= end;
  }
  [[nodiscard]] bool overlaps(const PageRange& other) const {
    return begin < other.end && other.begin < end;
  }
  [[nodiscard]] const std::byte* data() const { return reinterpret_cast<const std::byte*>(begin); }
  friend bool operator==(const PageRange&, const PageRange&) = default;
};

inline std::uintptr_t page_bytes() {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// The pages that contain these bytes. The bytes must not reach beyond the end of the address space.
[[nodiscard]] inline PageRange pages_of(const void* data, std::uint64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t mask = page_bytes() - 1;
  return {address & ~mask, (address + bytes + mask) & ~mask};
}

}  // namespace hawser::engine
