// SPDX-License-Identifier: Apache-2.0
// The bytes of injected sends, one place for each operation. The endpoint owns the copy, so the
// caller's buffer is free at once, and no completion has to give it back.
//
// Only a send that failed completes, once no NIC reads its copy any more. Its operation then
// belongs to the caller of poll, who hides its name.
//
// One thread at a time uses the place of an operation: the one that holds the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/driver/aligned_memory.hpp"
#include "hawser/status.hpp"
#include "hawser/types.hpp"

namespace hawser::engine {

class InjectedSends {
 public:
  InjectedSends(std::size_t max_operations, std::uint32_t most_bytes)
      : most_bytes_(most_bytes),
        is_injected_(max_operations, 0),
        copies_(allocate_aligned(max_operations * most_bytes)) {}

  [[nodiscard]] std::uint32_t most_bytes() const { return most_bytes_; }

  // Copies up to most_bytes; returns the copy, which stays until the operation's next use.
  const std::byte* copy(std::uint32_t index, const void* data, std::size_t bytes) {
    std::byte* const to = copies_.get() + std::size_t{index} * most_bytes_;
    if (bytes > 0) std::memcpy(to, data, bytes);
    is_injected_[index] = 1;
    return to;
  }
  [[nodiscard]] bool holds(std::uint32_t index) const { return is_injected_[index] != 0; }
  void forget(std::uint32_t index) { is_injected_[index] = 0; }

  // Whether the caller hears of this completion of an injected send.
  [[nodiscard]] static bool is_told(const Completion& completion) {
    return completion.released && completion.status != Status::ok;
  }

 private:
  std::uint32_t most_bytes_;
  std::vector<std::uint8_t> is_injected_;  // not bits: threads write neighbours
  AlignedMemory copies_;                   // the system backs only what was used
};

}  // namespace hawser::engine
