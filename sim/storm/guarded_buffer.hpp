// SPDX-License-Identifier: Apache-2.0
// A buffer between two stretches of bytes that nobody may write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace hawser::sim {

class GuardedBuffer {
 public:
  // To be called once; gives all its bytes this value.
  void make(std::size_t bytes, std::byte value) {
    memory_.assign(bytes + 2 * kGuard, kGuardValue);
    std::ranges::fill(this->bytes(), value);
  }
  [[nodiscard]] bool is_made() const { return !memory_.empty(); }
  [[nodiscard]] std::span<std::byte> bytes() {
    return std::span(memory_).subspan(guard(), memory_.size() - 2 * guard());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::span(memory_).subspan(guard(), memory_.size() - 2 * guard());
  }
  // Whether nothing was written beside it.
  [[nodiscard]] bool is_intact() const {
    const auto is_guard = [](std::byte byte) { return byte == kGuardValue; };
    return std::ranges::all_of(std::span(memory_).first(guard()), is_guard) &&
           std::ranges::all_of(std::span(memory_).last(guard()), is_guard);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardValue{0x5c};

  [[nodiscard]] std::size_t guard() const { return is_made() ? kGuard : 0; }

  std::vector<std::byte> memory_;
};

}  // namespace hawser::sim
