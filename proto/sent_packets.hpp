// What is in flight on one path: a record per path number, from the oldest that still matters to
// the newest, in blocks of a pool that all paths of an endpoint share.
//
// A record lives until its packet is acknowledged, or was declared lost long enough ago that a late
// acknowledgement is not to be expected any more (it would prove the loss spurious). Path numbers
// are consecutive, so a record is found by arithmetic.
//
// Invariants: next() - base() <= kPathNumbers; records below base() are gone; a block is held only
// while one of its numbers is in [base, next).
#pragma once

#include <array>
#include <cstdint>

#include "proto/assert.hpp"
#include "proto/slab.hpp"
#include "proto/time.hpp"

namespace hawser::proto {

// In flight on a path never exceeds what its acknowledgements cover.
inline constexpr std::uint64_t kPathNumbers = 1024;

struct SentPacket {
  enum class State : std::uint8_t { in_flight, acknowledged, lost };
  Time sent{};
  Time lost_at{};
  std::uint32_t message = kNoIndex;      // index of the outgoing message; kNoIndex: a probe
  std::uint32_t message_generation = 0;  // a finished message's slot may have been given away
  std::uint32_t fragment = 0;
  std::uint32_t retransmit = kNoIndex;  // lost: its entry in the retransmit queue, while queued
  std::uint32_t retransmit_generation = 0;
  std::uint16_t wire_bytes = 0;
  State state = State::in_flight;
  bool full_probe = false;
  bool lost_by_gap = false;  // lost: by layer 1, which reordering could have fooled
  bool requested = false;    // in flight: the receiver misses it
};
static_assert(sizeof(SentPacket) <= 48);

// Records in blocks of 64. What a block held before stays in it: push makes each record anew.
class SentBlockPool {
 public:
  static constexpr std::uint32_t kRecords = 64;

  explicit SentBlockPool(std::uint32_t blocks) : blocks_(blocks) {}
  // kNoIndex: there is none.
  [[nodiscard]] std::uint32_t take() {
    SlabId id;
    return blocks_.try_allocate(id) == nullptr ? kNoIndex : id.index;
  }
  void give(std::uint32_t block) { blocks_.free(block); }
  [[nodiscard]] SentPacket& at(std::uint32_t block, std::uint32_t i) {
    return blocks_.at(block).records[i];
  }
  [[nodiscard]] std::size_t available() const { return blocks_.capacity() - blocks_.size(); }

 private:
  struct Block {
    std::array<SentPacket, kRecords> records;
    void reset() {}
  };
  Slab<Block> blocks_;
};

class SentPackets {
 public:
  SentPackets() { blocks_.fill(kNoIndex); }

  void start(std::uint64_t first_number) {
    HAWSER_ASSERT(base_ == next_);
    base_ = next_ = first_number;
  }

  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] std::uint64_t next() const { return next_; }
  [[nodiscard]] bool empty() const { return base_ == next_; }
  [[nodiscard]] bool contains(std::uint64_t number) const { return number - base_ < next_ - base_; }

  // How many more records fit, given that the pool has blocks.
  [[nodiscard]] std::uint64_t room() const { return kPathNumbers - (next_ - base_); }

  // Makes sure that the next `count` numbers have a place; returns how many of them have.
  [[nodiscard]] std::uint64_t reserve(SentBlockPool& pool, std::uint64_t count) {
    if (count > room()) count = room();
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint32_t& block = blocks_[slot(next_ + i)];
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
    const std::uint32_t block = blocks_[slot(number)];
    HAWSER_ASSERT(block != kNoIndex);
    return pool.at(block, static_cast<std::uint32_t>(number % SentBlockPool::kRecords));
  }

  // Forgets acknowledged records at the base, and lost ones that were declared before
  // `forget_before`.
  void trim(SentBlockPool& pool, Time forget_before) {
    while (base_ != next_) {
      const SentPacket& record = at(pool, base_);
      if (record.state == SentPacket::State::in_flight) return;
      if (record.state == SentPacket::State::lost && record.lost_at > forget_before) return;
      drop_base(pool);
    }
  }

  // Forgets everything and gives back every block.
  void clear(SentBlockPool& pool) {
    base_ = next_;
    for (std::uint32_t& block : blocks_) {
      if (block != kNoIndex) pool.give(block);
      block = kNoIndex;
    }
  }

 private:
  static constexpr std::uint32_t kBlocks =
      static_cast<std::uint32_t>(kPathNumbers / SentBlockPool::kRecords) + 1;

  // One block more than the window spans, as it seldom starts at a block's first record.
  [[nodiscard]] static std::uint32_t slot(std::uint64_t number) {
    return static_cast<std::uint32_t>(number / SentBlockPool::kRecords % kBlocks);
  }

  void drop_base(SentBlockPool& pool) {
    const std::uint32_t s = slot(base_);
    ++base_;
    if (base_ % SentBlockPool::kRecords == 0 || (base_ == next_ && blocks_[s] != kNoIndex)) {
      pool.give(blocks_[s]);
      blocks_[s] = kNoIndex;
    }
  }

  std::uint64_t base_ = 0;
  std::uint64_t next_ = 0;
  std::array<std::uint32_t, kBlocks> blocks_;
};

}  // namespace hawser::proto
