// SPDX-License-Identifier: Apache-2.0
// A 32-bit value for each known message number in [floor, floor + kSpan).
//
// The owner gives values their meaning (a slab index, a final status). Numbers lie in blocks of 64
// from a pool that all peers share. A block goes back with its last entry, so a peer's memory is in
// proportion to its messages under way. The table names the block of the floor, and a root. The
// root names directories, each of 64 consecutive blocks.
//
// A number that stays while later ones end must not hold them up, nor cost much memory. Therefore a
// block beyond the floor's is folded once all 64 numbers have the same value with its top bit set
// (a final status). That value replaces the block's index. Folded numbers keep their value until
// the floor passes them.
//
// The pool withholds one block for the floor's block, so the oldest number always finds room. The
// floor follows it, so all others find room in turn. Numbers may wrap at 2^64.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "proto/base/assert.hpp"
#include "proto/base/slab.hpp"

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
  // A root could name one directory more. But a window that begins inside a directory ends inside
  // another.
  static constexpr std::uint64_t kSpan = std::uint64_t{63} * 64 * 64;

  // False if the pool has no block for the reserve; then nothing was taken.
  [[nodiscard]] bool open(MessageTablePool& pool, std::uint64_t floor);
  // Drops every entry and gives all blocks back. An opened table must be closed.
  void close();
  [[nodiscard]] bool is_open() const { return pool_ != nullptr; }

  [[nodiscard]] std::uint64_t floor() const { return floor_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }  // live entries
  [[nodiscard]] bool in_window(std::uint64_t number) const { return number - floor_ < kSpan; }

  // Enters or overwrites; the number is in the window. False if the pool lacks the blocks that this
  // takes, at most three: then nothing changed. Never false for a number whose block of 64 is the
  // floor's or already has an entry.
  [[nodiscard]] bool set(std::uint64_t number, std::uint32_t value) {
    HAWSER_ASSERT(is_open() && in_window(number));
    std::uint32_t index = block_of(number);
    if (index == kNoIndex) {
      if (!take_block(number)) return false;
      index = block_of(number);
    }
    if (is_folded(index)) {
      HAWSER_ASSERT(index == value, "a final message can't change");
      return true;
    }
    MessageBlock& block = pool_->at(index);
    const std::uint64_t bit = std::uint64_t{1} << (number % 64);
    if ((block.present & bit) == 0) ++size_;
    block.present |= bit;
    block.values[number % 64] = value;
    if (block.present == ~std::uint64_t{0} && is_folded(value)) fold(number, block, value);
    return true;
  }
  // Makes sure that set will succeed. False if the pool lacks the blocks that this takes.
  [[nodiscard]] bool prepare(std::uint64_t number) {
    HAWSER_ASSERT(is_open() && in_window(number));
    return block_of(number) != kNoIndex || take_block(number);
  }
  // Whether set would take a block from the pool, other than the one withheld for the floor.
  [[nodiscard]] bool needs_block(std::uint64_t number) const {
    return is_open() && in_window(number) && !is_front(number) && block_of(number) == kNoIndex;
  }
  // The number is in the window and has no entry, and set would surely succeed.
  [[nodiscard]] bool has_place_for(std::uint64_t number) const {
    if (!is_open() || !in_window(number)) return false;
    const std::uint32_t index = block_of(number);
    return index != kNoIndex && !is_folded(index) &&
           (pool_->at(index).present >> (number % 64) & 1) == 0;
  }
  // Nothing if there is no entry, or the number is outside the window.
  [[nodiscard]] std::optional<std::uint32_t> get(std::uint64_t number) const {
    if (!is_open() || !in_window(number)) return std::nullopt;
    const std::uint32_t index = block_of(number);
    if (index == kNoIndex) return std::nullopt;
    if (is_folded(index)) return index;
    const MessageBlock& block = pool_->at(index);
    if (((block.present >> (number % 64)) & 1) == 0) return std::nullopt;
    return block.values[number % 64];
  }
  // The lowest number that has an entry; `none` if there is none.
  [[nodiscard]] std::uint64_t first(std::uint64_t none) const;
  // Returns whether there was an entry. Folded blocks can't be erased from.
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
    if (size_ == 0) return;
    visit_block(base(), front_, visit);
    for_each_directory([&](std::uint64_t first_number, const MessageBlock& directory) {
      for (std::uint64_t left = directory.present; left != 0; left &= left - 1) {
        const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
        visit_block(first_number + std::uint64_t{64} * i, directory.values[i], visit);
      }
      return true;
    });
  }

 private:
  static constexpr std::uint32_t kFolds = 0x80000000u;
  // Whether a value in the place of a block's index is a folded block.
  static bool is_folded(std::uint32_t index) { return (index & kFolds) != 0 && index != kNoIndex; }
  static bool ahead(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::int64_t>(a - b) > 0;
  }
  [[nodiscard]] std::uint64_t not_below_floor(std::uint64_t number) const {
    return ahead(floor_, number) ? floor_ : number;
  }
  // First number of the floor's block.
  [[nodiscard]] std::uint64_t base() const { return floor_ & ~std::uint64_t{63}; }
  [[nodiscard]] bool is_front(std::uint64_t number) const { return number - base() < 64; }
  // The place of a number's block in its directory, and of the directory in the root.
  [[nodiscard]] static std::uint32_t place(std::uint64_t number) {
    return static_cast<std::uint32_t>(number / 64 % 64);
  }
  [[nodiscard]] static std::uint32_t root_place(std::uint64_t number) {
    return static_cast<std::uint32_t>(number / (64 * 64) % 64);
  }
  [[nodiscard]] static std::uint32_t named(const MessageBlock& block, std::uint32_t at) {
    return (block.present >> at & 1) != 0 ? block.values[at] : kNoIndex;
  }
  // kNoIndex if there is none.
  [[nodiscard]] std::uint32_t directory_of(std::uint64_t number) const {
    return root_ == kNoIndex ? kNoIndex : named(pool_->at(root_), root_place(number));
  }
  // The block of a number in the window, the value that it is folded into, or kNoIndex.
  [[nodiscard]] std::uint32_t block_of(std::uint64_t number) const {
    if (is_front(number)) return front_;
    const std::uint32_t directory = directory_of(number);
    return directory == kNoIndex ? kNoIndex : named(pool_->at(directory), place(number));
  }
  // visit(first number, directory) in the order of numbers, until it says false.
  template <class Visit>
  void for_each_directory(Visit&& visit) const {
    if (root_ == kNoIndex) return;
    const MessageBlock& root = pool_->at(root_);
    const std::uint64_t of_floor = floor_ & ~std::uint64_t{64 * 64 - 1};
    const auto ordered = std::rotr(root.present, static_cast<int>(root_place(floor_)));
    for (std::uint64_t left = ordered; left != 0; left &= left - 1) {
      const auto i = static_cast<std::uint64_t>(std::countr_zero(left));
      const std::uint64_t first_number = of_floor + i * (64 * 64);
      if (!visit(first_number, pool_->at(root.values[root_place(first_number)]))) return;
    }
  }
  template <class Visit>
  void visit_block(std::uint64_t first_number, std::uint32_t index, Visit&& visit) const {
    if (index == kNoIndex) return;
    if (is_folded(index)) {
      for (std::uint64_t n = not_below_floor(first_number); n != first_number + 64; ++n) {
        visit(n, index);
      }
      return;
    }
    const MessageBlock& block = pool_->at(index);
    for (std::uint64_t left = block.present; left != 0; left &= left - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(left));
      visit(first_number + bit, block.values[bit]);
    }
  }
  void fold(std::uint64_t number, const MessageBlock& block, std::uint32_t value);
  void name(std::uint32_t block, std::uint32_t at, std::uint32_t index);
  [[nodiscard]] bool take_block(std::uint64_t number);
  [[nodiscard]] std::uint32_t take_out(std::uint64_t number);
  void give_block(std::uint64_t number);
  void give(std::uint32_t block);

  // Drops the entries of the floor's block below the bit `limit`.
  template <class Dropped>
  void drop_below(std::uint32_t limit, Dropped&& dropped) {
    if (front_ == kNoIndex) return;
    if (is_folded(front_)) {
      const std::uint32_t value = front_;
      if (limit == 64) front_ = kNoIndex;
      for (auto bit = static_cast<std::uint32_t>(floor_ % 64); bit < limit; ++bit) {
        --size_;
        dropped(base() + bit, value);
      }
      return;
    }
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
  std::uint32_t front_ = kNoIndex;  // the floor's block
  std::uint32_t root_ = kNoIndex;   // root and directories exist only while they are not empty
  bool reserved_ = false;           // a block of the pool is withheld for this table
};
static_assert(sizeof(MessageTable) <= 32);

}  // namespace hawser::proto
