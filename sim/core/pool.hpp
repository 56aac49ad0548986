// SPDX-License-Identifier: Apache-2.0
// Header buffers of a host. The pool asserts that a driver gives no buffer back twice. It
// overwrites buffers that come back, so that a later read visibly doesn't find what was written.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "proto/base/assert.hpp"
#include "proto/nic.hpp"

namespace hawser::sim {

class Pool final : public proto::PacketPool {
 public:
  explicit Pool(std::size_t buffers)
      : memory_(std::make_unique_for_overwrite<proto::PacketBuffer[]>(buffers)),
        out_(buffers, false) {
    free_.reserve(buffers);
    for (std::size_t i = buffers; i-- > 0;) free_.push_back(&memory_[i]);
  }

  [[nodiscard]] std::size_t take(std::span<proto::PacketBuffer*> buffers) override {
    const std::size_t count = is_dry_ ? 0 : std::min(buffers.size(), free_.size());
    for (proto::PacketBuffer*& buffer : buffers.first(count)) {
      buffer = free_.back();
      free_.pop_back();
      out_[index_of(buffer)] = true;
    }
    return count;
  }
  void give(std::span<proto::PacketBuffer* const> buffers) override {
    for (proto::PacketBuffer* const buffer : buffers) {
      const std::size_t index = index_of(buffer);
      HAWSER_ASSERT(index < out_.size() && out_[index],
                    "a buffer returned twice, or of another pool");
      out_[index] = false;
      std::memset(buffer->bytes, 0xdd, kPoisoned);
      free_.push_back(buffer);
    }
  }
  [[nodiscard]] std::size_t in_use() const override { return out_.size() - free_.size(); }
  // A fault: the pool behaves as if others held all buffers.
  void set_dry(bool dry) { is_dry_ = dry; }

 private:
  static constexpr std::size_t kPoisoned = 64;  // bytes of each buffer; headers begin there
  [[nodiscard]] std::size_t index_of(const proto::PacketBuffer* buffer) const {
    return static_cast<std::size_t>(buffer - memory_.get());
  }

  std::unique_ptr<proto::PacketBuffer[]> memory_;
  std::vector<proto::PacketBuffer*> free_;
  std::vector<bool> out_;
  bool is_dry_ = false;
};

}  // namespace hawser::sim
