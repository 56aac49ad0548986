// SPDX-License-Identifier: Apache-2.0
// The frames that a connection still has to send. A frame that goes to many connections exists
// once. The answer to a round is as large as the job, so a copy for each rank would take the square
// of that.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/bootstrap/bootstrap_wire.hpp"

namespace hawser::engine::bootstrap {

using SharedFrame = std::shared_ptr<const std::vector<std::byte>>;

class SendQueue {
 public:
  void append(SharedFrame frame) { frames_.push_back(std::move(frame)); }
  void append(FrameType type, std::uint8_t detail, std::span<const std::byte> body) {
    auto frame = std::make_shared<std::vector<std::byte>>();
    append_frame(*frame, type, detail, body);
    append(std::move(frame));
  }

  [[nodiscard]] bool empty() const { return frames_.empty(); }
  // The bytes to send next; the queue must not be empty.
  [[nodiscard]] std::span<const std::byte> next() const {
    return std::span(*frames_.front()).subspan(sent_);
  }
  // Drops that many of next().
  void drop(std::size_t bytes) {
    sent_ += bytes;
    if (sent_ < frames_.front()->size()) return;
    frames_.pop_front();
    sent_ = 0;
  }

 private:
  std::deque<SharedFrame> frames_;
  std::size_t sent_ = 0;  // of the first
};

}  // namespace hawser::engine::bootstrap
