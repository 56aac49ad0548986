// What is known of each message number: a 32-bit value for numbers in [floor, floor + 4096).
//
// A value is what its owner makes of it (a slab index, a final status). Numbers lie in blocks of 64
// that come from a pool shared by all peers and go back when their last entry is gone, so a peer
// costs memory in proportion to what it has under way. The table names the block that the floor is
// in; a block of the same pool, the directory, names the 64 that follow, while there are any. One
// block of the pool is withheld for the floor's block: the oldest number always finds room, however
// empty the pool, and as the floor follows it, so do all others in turn. Numbers may wrap at 2^64.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "proto/assert.hpp"
#include "proto/slab.hpp"

namespace hawser::proto {

struct MessageBlock {
  std::uint64_t present = 0;  // bit i: values[i] means something
  std::array<std::uint32_t, 64> values{};
  void reset() { present = 0; }
};
// At least one block per open table.
using MessageTablePool = Slab<MessageBlock>;

class MessageTable {
 public:
  static constexpr std::uint64_t kSpan = 4096;

  // False, and nothing was taken, if the pool has no block for the reserve.
  [[nodiscard]] bool open(MessageTablePool& pool, std::uint64_t floor);
  // Drops every entry and gives all blocks back. An opened table must be closed.
  void close();
  [[nodiscard]] bool is_open() const { return pool_ != nullptr; }

  [[nodiscard]] std::uint64_t floor() const { return floor_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }  // live entries
  [[nodiscard]] bool in_window(std::uint64_t number) const { return number - floor_ < kSpan; }

  // Enters or overwrites; the number is in the window. False if the pool has no block, or not two
  // where a directory is needed too: then nothing changed. Never false for a number whose block of
  // 64 is the floor's or has an entry already.
  [[nodiscard]] bool set(std::uint64_t number, std::uint32_t value) {
    HAWSER_ASSERT(is_open() && in_window(number));
    std::uint32_t index = block_of(number);
    if (index == kNoIndex) {
      if (!take_block(number)) return false;
      index = block_of(number);
    }
    MessageBlock& block = pool_->at(index);
    const std::uint64_t bit = std::uint64_t{1} << (number % 64);
    if ((block.present & bit) == 0) ++size_;
    block.present |= bit;
    block.values[number % 64] = value;
    return true;
  }
  // The number is in the window, has no entry, and set surely gives it one.
  [[nodiscard]] bool has_place_for(std::uint64_t number) const {
    if (!is_open() || !in_window(number)) return false;
    const std::uint32_t index = block_of(number);
    return index != kNoIndex && (pool_->at(index).present >> (number % 64) & 1) == 0;
  }
  // Nothing if there is no entry, or the number is outside the window.
  [[nodiscard]] std::optional<std::uint32_t> get(std::uint64_t number) const {
    if (!is_open() || !in_window(number)) return std::nullopt;
    const std::uint32_t index = block_of(number);
    if (index == kNoIndex) return std::nullopt;
    const MessageBlock& block = pool_->at(index);
    if (((block.present >> (number % 64)) & 1) == 0) return std::nullopt;
    return block.values[number % 64];
  }
  // Whether there was an entry.
  bool erase(std::uint64_t number);

  // Moves the floor up and calls dropped(number, value) for each entry that falls below it, in
  // order; `dropped` does not change the table. A floor not above the present one changes nothing.
  template <class Dropped>
  void advance_floor(std::uint64_t new_floor, Dropped&& dropped) {
    while (ahead(new_floor, floor_)) {
      const std::uint64_t next_block = base() + 64;
      const bool whole = !ahead(next_block, new_floor);
      drop_below(whole ? 64 : static_cast<std::uint32_t>(new_floor - base()), dropped);
      floor_ = whole ? next_block : new_floor;
      if (whole) {
        front_ = take_out(floor_);
        if (size_ == 0 && ahead(new_floor, floor_)) floor_ = new_floor;  // nothing left to drop
      }
    }
  }

  // Calls visit(number, value) for each entry, in order. `visit` doesn't change the table.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t i = 0; size_ > 0 && i < kBlocks; ++i) {
      const std::uint64_t first = base() + std::uint64_t{64} * i;
      const std::uint32_t index = block_of(first);
      if (index == kNoIndex) continue;
      const MessageBlock& block = pool_->at(index);
      for (std::uint64_t left = block.present; left != 0; left &= left - 1) {
        const auto bit = static_cast<std::uint32_t>(std::countr_zero(left));
        visit(first + bit, block.values[bit]);
      }
    }
  }

 private:
  // One more than the span: a window that doesn't start at a block's first number ends in another.
  static constexpr std::uint32_t kBlocks = kSpan / 64 + 1;
  static_assert(kBlocks == 65, "the floor's, and those that one directory names");

  static bool ahead(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::int64_t>(a - b) > 0;
  }
  // First number of the floor's block.
  [[nodiscard]] std::uint64_t base() const { return floor_ & ~std::uint64_t{63}; }
  [[nodiscard]] bool is_front(std::uint64_t number) const { return number - base() < 64; }
  // Where the directory has the block of a number behind the floor's.
  [[nodiscard]] static std::uint32_t place(std::uint64_t number) {
    return static_cast<std::uint32_t>(number / 64 % 64);
  }
  // The block of a number in the window, or kNoIndex.
  [[nodiscard]] std::uint32_t block_of(std::uint64_t number) const {
    if (is_front(number)) return front_;
    if (directory_ == kNoIndex) return kNoIndex;
    const MessageBlock& directory = pool_->at(directory_);
    return (directory.present >> place(number) & 1) != 0 ? directory.values[place(number)]
                                                         : kNoIndex;
  }
  [[nodiscard]] bool take_block(std::uint64_t number);
  [[nodiscard]] std::uint32_t take_out(std::uint64_t number);
  void give_block(std::uint64_t number);
  void give(std::uint32_t block);

  // Drops the entries of the floor's block below the bit `limit`.
  template <class Dropped>
  void drop_below(std::uint32_t limit, Dropped&& dropped) {
    if (front_ == kNoIndex) return;
    MessageBlock& block = pool_->at(front_);
    while (block.present != 0) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(block.present));
      if (bit >= limit) return;
      block.present &= block.present - 1;
      --size_;
      dropped(base() + bit, block.values[bit]);
    }
    give_block(floor_);
  }

  MessageTablePool* pool_ = nullptr;
  std::uint64_t floor_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t front_ = kNoIndex;      // the floor's block
  std::uint32_t directory_ = kNoIndex;  // not while it would be empty
  bool reserved_ = false;               // a block of the pool is withheld for this table
};
static_assert(sizeof(MessageTable) <= 32);

}  // namespace hawser::proto
