// SPDX-License-Identifier: Apache-2.0
// Memory for the buffers of one batch, with guard zones around each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hawser::tool {

// A region allocated from the system once and divided anew for every batch. Each buffer starts on a
// cache line. Before and behind it are kGuardBytes that nobody may write.
class BufferArena {
 public:
  static constexpr std::size_t kGuardBytes = 256;

  // Throws InputError if the system gives no memory.
  explicit BufferArena(std::size_t bytes);
  ~BufferArena();
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;

  // The bytes of the arena that a buffer takes.
  [[nodiscard]] static std::size_t footprint(std::size_t bytes);

  void clear();
  // Asserts that there is room: the caller sized the arena by footprint().
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes);

  // Where take() places the first buffer after clear().
  [[nodiscard]] std::byte* first_buffer() const { return memory_ + kGuardBytes; }

  // The number of changed guard bytes of all buffers taken since clear().
  [[nodiscard]] std::uint64_t damaged_guard_bytes() const;

 private:
  void paint(std::byte* begin);

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;
  std::vector<std::byte*> guards_;
};

}  // namespace hawser::tool
