// SPDX-License-Identifier: Apache-2.0
// The packets in flight on one path. Each path number has a record, from the oldest that still
// matters to the newest, in blocks of a pool that all paths of an endpoint share.
//
// A record lives until its packet is acknowledged. The record of a lost packet lives until a late
// acknowledgement, which would prove the loss spurious, is no longer to be expected. Path numbers
// are consecutive, so a record is found by arithmetic. This object names a few blocks, enough for
// small messages; for bulk a directory from the pool names them.
//
// Invariants: next() - base() <= kPathNumbers; records below base() are gone; without records no
// block is held, except for reserved places.
#pragma once

#include <array>
#include <cstdint>

#include "proto/base/assert.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

// No more packets may be in flight on a path than its acknowledgements cover.
inline constexpr std::uint64_t kPathNumbers = 1024;

struct SentPacket {
  enum class State : std::uint8_t { in_flight, acknowledged, lost };
  Time sent{};
  // In flight and acknowledged: when it left the cable's near end, estimated from what the NIC had
  // to send before it. Lost: when it was declared lost.
  Time departed{};
  // `packed`: the next three are an index, the first message's number as on the wire, and how many
  // messages follow it; `retransmit` counts entries in the queue.
  std::uint32_t message = kNoIndex;      // index of the outgoing message; kNoIndex: a probe
  std::uint32_t message_generation = 0;  // a finished message's slot may have been given away
  std::uint32_t fragment = 0;
  std::uint32_t retransmit = kNoIndex;  // lost: its entry in the retransmit queue, while queued
  std::uint32_t retransmit_generation = 0;
  std::uint16_t wire_bytes = 0;
  std::uint8_t lane = 0;  // over which it went
  State state : 2 = State::in_flight;
  bool full_probe : 1 = false;
  bool lost_by_order : 1 = false;  // lost: because a later packet of its path had arrived
  bool requested : 1 = false;      // in flight: the receiver misses it
  bool marked : 1 = false;         // in flight: it arrived with a mark, and an ack will follow
  bool packed : 1 = false;         // carries several messages
  bool at_end : 1 = false;         // it carried the last of its message; a probe: an early one

  [[nodiscard]] bool is_early_probe() const { return message == kNoIndex && at_end; }
  // When the packet left; if that was forgotten, the earliest possible time.
  [[nodiscard]] Time left() const { return state == State::lost ? sent : departed; }
};
static_assert(sizeof(SentPacket) <= 40);

// Records in small blocks. A block keeps its old contents: push makes each record anew.
class SentBlockPool {
 public:
  static constexpr std::uint32_t kRecords = 8;
  static constexpr std::uint32_t kNamed = kPathNumbers / kRecords;  // blocks that a directory names

  explicit SentBlockPool(std::uint32_t blocks) : blocks_(blocks), directories_(blocks / 4 + 1) {}
  // kNoIndex: the pool is empty.
  [[nodiscard]] std::uint32_t take() { return take_from(blocks_); }
  void give(std::uint32_t block) { blocks_.free(block); }
  [[nodiscard]] SentPacket& at(std::uint32_t block, std::uint32_t i) {
    return blocks_.at(block).records[i];
  }
  [[nodiscard]] std::size_t available() const { return blocks_.capacity() - blocks_.size(); }

  [[nodiscard]] std::uint32_t take_directory() { return take_from(directories_); }
  void give_directory(std::uint32_t directory) { directories_.free(directory); }
  [[nodiscard]] std::array<std::uint32_t, kNamed>& directory(std::uint32_t index) {
    return directories_.at(index).blocks;
  }
  [[nodiscard]] std::size_t directories_in_use() const { return directories_.size(); }

 private:
  struct Block {
    std::array<SentPacket, kRecords> records;
    void reset() {}
  };
  struct Directory {
    std::array<std::uint32_t, kNamed> blocks;
    void reset() { blocks.fill(kNoIndex); }
  };
  template <class T>
  [[nodiscard]] static std::uint32_t take_from(Slab<T>& slab) {
    SlabId id;
    return slab.try_allocate(id) == nullptr ? kNoIndex : id.index;
  }
  Slab<Block> blocks_;
  Slab<Directory> directories_;
};

class SentPackets {
 public:
  SentPackets() { near_.fill(kNoIndex); }

  void start(std::uint64_t first_number) {
    HAWSER_ASSERT(base_ == next_);
    base_ = next_ = first_number;
  }

  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] std::uint64_t next() const { return next_; }
  [[nodiscard]] bool empty() const { return base_ == next_; }
  [[nodiscard]] bool contains(std::uint64_t number) const { return number - base_ < next_ - base_; }

  // How many more records fit, if the pool has blocks.
  [[nodiscard]] std::uint64_t room() const {
    return kPathNumbers - (next_ - base_ / kRecords * kRecords);
  }

  // Makes sure that the next `count` numbers have a place; returns how many of them have.
  [[nodiscard]] std::uint64_t reserve(SentBlockPool& pool, std::uint64_t count) {
    if (count > room()) count = room();
    if (count == 0) return 0;
    const std::uint64_t near_end = (base_ / kRecords + kNear) * kRecords;
    if (directory_ == kNoIndex && next_ + count - near_end - 1 < kPathNumbers && !widen(pool)) {
      count = near_end - next_;
    }
    for (std::uint64_t i = 0; i < count; i += kRecords - (next_ + i) % kRecords) {
      std::uint32_t& block = entry(pool, next_ + i);
      if (block == kNoIndex && (block = pool.take()) == kNoIndex) return i;
    }
    return count;
  }

  // The record of number next(), which becomes part of the window. Its place must be reserved.
  SentPacket& push(SentBlockPool& pool) {
    HAWSER_ASSERT(room() > 0);
    SentPacket& record = at(pool, next_);
    ++next_;
    record = SentPacket{};
    return record;
  }

  [[nodiscard]] SentPacket& at(SentBlockPool& pool, std::uint64_t number) {
    const std::uint32_t block = entry(pool, number);
    HAWSER_ASSERT(block != kNoIndex);
    return pool.at(block, static_cast<std::uint32_t>(number % kRecords));
  }

  // Forgets acknowledged records at the base, and lost ones that were declared before
  // `forget_before`.
  void trim(SentBlockPool& pool, Time forget_before) {
    while (base_ != next_) {
      const SentPacket& record = at(pool, base_);
      if (record.state == SentPacket::State::in_flight) return;
      if (record.state == SentPacket::State::lost && record.departed > forget_before) return;
      ++base_;
      if (base_ == next_) return clear(pool);
      if (base_ % kRecords == 0) give(pool, entry(pool, base_ - 1));
    }
  }

  // Forgets everything and gives back every block.
  void clear(SentBlockPool& pool) {
    // Blocks in use or reserved are neighbours. The first may be that of the number before.
    const std::uint64_t first = base_ / kRecords;
    if (base_ % kRecords == 0) give(pool, entry(pool, base_ - 1));
    for (std::uint64_t i = 0; i < kPathNumbers / kRecords; ++i) {
      std::uint32_t& block = entry(pool, (first + i) * kRecords);
      if (block == kNoIndex) break;
      give(pool, block);
    }
    base_ = next_;
    if (directory_ == kNoIndex) return;
    pool.give_directory(directory_);
    directory_ = kNoIndex;
  }

 private:
  static constexpr std::uint64_t kRecords = SentBlockPool::kRecords;
  static constexpr std::uint32_t kNear = 4;

  // The entry for the block of a number in, or next to, the window.
  [[nodiscard]] std::uint32_t& entry(SentBlockPool& pool, std::uint64_t number) {
    const std::uint64_t block = number / kRecords;
    if (directory_ == kNoIndex) return near_[block % kNear];
    return pool.directory(directory_)[block % SentBlockPool::kNamed];
  }
  static void give(SentBlockPool& pool, std::uint32_t& block) {
    if (block != kNoIndex) pool.give(block);
    block = kNoIndex;
  }
  // Moves from the few blocks to a directory. False: the pool has none.
  [[nodiscard]] bool widen(SentBlockPool& pool) {
    const std::uint32_t directory = pool.take_directory();
    if (directory == kNoIndex) return false;
    for (std::uint64_t i = 0; i < kNear; ++i) {
      const std::uint64_t block = base_ / kRecords + i;
      pool.directory(directory)[block % SentBlockPool::kNamed] = near_[block % kNear];
    }
    near_.fill(kNoIndex);
    directory_ = directory;
    return true;
  }

  std::uint64_t base_ = 0;
  std::uint64_t next_ = 0;
  std::array<std::uint32_t, kNear> near_;
  std::uint32_t directory_ = kNoIndex;
};
static_assert(sizeof(SentPackets) <= 40);

}  // namespace hawser::proto
