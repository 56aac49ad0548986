// SPDX-License-Identifier: Apache-2.0
// A packet pool for tests and benches: a free list that notices a driver's mistakes. Giving a
// buffer back twice, or one of another pool, breaks an invariant. Bytes that are read after their
// buffer was given back visibly differ from those that were written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "proto/base/assert.hpp"
#include "proto/nic.hpp"

namespace hawser::test {

class SimplePool final : public proto::PacketPool {
 public:
  // Without `poison`, giving a buffer back costs as little as in a real pool (for benches).
  explicit SimplePool(std::size_t buffers, bool poison = true)
      : memory_(std::make_unique_for_overwrite<proto::PacketBuffer[]>(buffers)),
        out_(buffers, false),
        poison_(poison) {
    for (std::size_t i = buffers; i-- > 0;) free_.push_back(&memory_[i]);
  }

  [[nodiscard]] std::size_t take(std::span<proto::PacketBuffer*> buffers) override {
    const std::size_t count = std::min(buffers.size(), free_.size());
    for (std::size_t i = 0; i < count; ++i) {
      buffers[i] = free_.back();
      free_.pop_back();
      out_[index_of(buffers[i])] = true;
    }
    return count;
  }

  void give(std::span<proto::PacketBuffer* const> buffers) override {
    for (proto::PacketBuffer* const buffer : buffers) {
      const std::size_t index = index_of(buffer);
      HAWSER_ASSERT(index < out_.size() && out_[index],
                    "a buffer returned twice, or of another pool");
      out_[index] = false;
      if (poison_) std::memset(buffer->bytes, 0xdd, sizeof buffer->bytes);
      free_.push_back(buffer);
    }
  }

  // The memory that all buffers lie in.
  [[nodiscard]] std::span<const std::byte> memory() const {
    return std::as_bytes(std::span(memory_.get(), out_.size()));
  }

  [[nodiscard]] std::size_t in_use() const override { return out_.size() - free_.size(); }

 private:
  [[nodiscard]] std::size_t index_of(const proto::PacketBuffer* buffer) const {
    return static_cast<std::size_t>(buffer - memory_.get());
  }

  std::unique_ptr<proto::PacketBuffer[]> memory_;
  std::vector<proto::PacketBuffer*> free_;  // never shrinks, so giving can't allocate
  std::vector<bool> out_;
  bool poison_;
};

}  // namespace hawser::test
