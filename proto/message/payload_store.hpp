// SPDX-License-Identifier: Apache-2.0
// Payload of messages that no receive has matched yet. Each message has a chain of chunks, the
// newest first, of which it keeps the head.
//
// Chunks are small even if fragments are large, or a store full of small messages would hold few.
// One full fragment always finds room in an empty store.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "proto/base/slab.hpp"
#include "proto/base/untouched.hpp"

namespace hawser::proto {

class PayloadStore {
 public:
  static constexpr std::uint32_t kMostChunkBytes = 1024;

  // Holds about `bytes`, in chunks of a fragment or of kMostChunkBytes.
  PayloadStore(std::uint64_t bytes, std::uint32_t fragment_bytes)
      : chunk_bytes_(std::min(fragment_bytes, kMostChunkBytes)),
        chunks_(chunks_for(bytes, fragment_bytes, chunk_bytes_)),
        memory_(std::size_t{chunks_.capacity()} * chunk_bytes_) {}

  // Stores bytes that begin at `begin` of their message, in front of the chain. False: there is no
  // room, and nothing was stored. No bytes need no room.
  [[nodiscard]] bool store(std::uint32_t& head, std::uint64_t begin,
                           std::span<const std::byte> bytes) {
    const std::uint32_t before = head;
    for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes_) {
      SlabId id;
      Chunk* const chunk = chunks_.try_allocate(id);
      if (chunk == nullptr) {
        drop(head, before);
        return false;
      }
      chunk->next = head;
      chunk->begin = begin + at;
      chunk->bytes =
          static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size() - at, chunk_bytes_));
      head = id.index;
      std::memcpy(place_of(id.index), bytes.data() + at, chunk->bytes);
      held_ += chunk->bytes;
    }
    return true;
  }
  // Drops the newest chunks, down to `until`: all, if that is kNoIndex.
  void drop(std::uint32_t& head, std::uint32_t until = kNoIndex) {
    while (head != until) {
      const std::uint32_t index = head;
      head = chunks_.at(index).next;
      held_ -= chunks_.at(index).bytes;
      chunks_.free(index);
    }
  }
  // Calls visit(begin, bytes) for each chunk, the newest first.
  template <class Visit>
  void for_each(std::uint32_t head, Visit&& visit) const {
    for (std::uint32_t i = head; i != kNoIndex; i = chunks_.at(i).next) {
      const Chunk& chunk = chunks_.at(i);
      visit(chunk.begin, std::span<const std::byte>(place_of(i), chunk.bytes));
    }
  }
  [[nodiscard]] std::uint64_t bytes_held() const { return held_; }

 private:
  struct Chunk {
    std::uint32_t next = kNoIndex;
    std::uint32_t bytes = 0;
    std::uint64_t begin = 0;  // in the message
  };

  [[nodiscard]] static std::uint32_t chunks_for(std::uint64_t bytes, std::uint32_t fragment_bytes,
                                                std::uint32_t chunk_bytes) {
    const std::uint64_t least = (fragment_bytes + chunk_bytes - 1) / chunk_bytes;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::max(bytes / chunk_bytes, least), 0xfffffff0u));
  }
  [[nodiscard]] std::byte* place_of(std::uint32_t index) {
    return memory_.data() + std::size_t{index} * chunk_bytes_;
  }
  [[nodiscard]] const std::byte* place_of(std::uint32_t index) const {
    return memory_.data() + std::size_t{index} * chunk_bytes_;
  }

  std::uint32_t chunk_bytes_;
  Slab<Chunk> chunks_;
  Untouched<std::byte> memory_;  // chunks_.capacity() x chunk_bytes_
  std::uint64_t held_ = 0;
};

}  // namespace hawser::proto
