// SPDX-License-Identifier: Apache-2.0
// Datagrams on their way through the fabric.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>

#include "proto/nic.hpp"

namespace hawser::sim {

struct Frame {
  std::unique_ptr<std::uint64_t[]> words;  // so that headers are aligned
  std::uint32_t room = 0;                  // in bytes; frames are reused
  std::uint32_t bytes = 0;
  std::uint32_t from = 0;  // ports of the fabric
  std::uint32_t to = 0;
  std::uint32_t address = 0;  // the address that it was sent to
  std::uint32_t next_free = 0;
  proto::Queue queue = proto::Queue::data;
  std::uint16_t entropy = 0;
  bool congestion_experienced = false;
  bool spoiled = false;  // on a cable: a NIC that checks frames itself sees it

  [[nodiscard]] std::span<std::byte> data() {
    return {reinterpret_cast<std::byte*>(words.get()), bytes};
  }
  void fill(std::span<const std::byte> header, std::span<const std::byte> payload) {
    bytes = static_cast<std::uint32_t>(header.size() + payload.size());
    if (room < bytes) make_room(bytes);
    if (!header.empty()) std::memcpy(data().data(), header.data(), header.size());
    if (!payload.empty()) {
      std::memcpy(data().data() + header.size(), payload.data(), payload.size());
    }
  }
  // Keeps the bytes that the frame has; new ones are zero.
  void grow(std::uint32_t to_bytes) {
    if (room < to_bytes) {
      const std::unique_ptr<std::uint64_t[]> old = std::move(words);
      make_room(to_bytes);
      if (bytes > 0) std::memcpy(words.get(), old.get(), bytes);
    }
    std::memset(reinterpret_cast<std::byte*>(words.get()) + bytes, 0, to_bytes - bytes);
    bytes = to_bytes;
  }

 private:
  void make_room(std::uint32_t least) {
    room = std::bit_ceil(std::max<std::uint32_t>(least, 8));
    words = std::make_unique_for_overwrite<std::uint64_t[]>(room / 8);
  }
};

// All frames of a world, which are reused. Ids stay below the most frames ever taken at once.
class FrameStore {
 public:
  [[nodiscard]] std::uint32_t take() {
    ++out_;
    if (free_ == kNone) {
      frames_.emplace_back();
      return static_cast<std::uint32_t>(frames_.size() - 1);
    }
    const std::uint32_t id = free_;
    free_ = frames_[id].next_free;
    return id;
  }
  void give(std::uint32_t id) {
    --out_;
    frames_[id].congestion_experienced = frames_[id].spoiled = false;
    frames_[id].next_free = free_;
    free_ = id;
  }
  [[nodiscard]] Frame& at(std::uint32_t id) { return frames_[id]; }
  [[nodiscard]] std::uint32_t copy(std::uint32_t id) {
    const std::uint32_t twin = take();
    Frame& original = frames_[id];
    Frame& frame = frames_[twin];
    frame.fill(original.data(), {});
    frame.from = original.from;
    frame.to = original.to;
    frame.address = original.address;
    frame.queue = original.queue;
    frame.entropy = original.entropy;
    frame.congestion_experienced = original.congestion_experienced;
    frame.spoiled = original.spoiled;
    return twin;
  }
  [[nodiscard]] std::uint64_t out() const { return out_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  std::deque<Frame> frames_;  // frames stay where they are: views of them are lent out
  std::uint32_t free_ = kNone;
  std::uint64_t out_ = 0;
};

}  // namespace hawser::sim
