// SPDX-License-Identifier: Apache-2.0
// Records of arrivals: PathWindow for the numbers of one path, FragmentBitmap for the fragments of
// one message, and BlockPool, the memory of FragmentBitmaps.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "proto/base/assert.hpp"
#include "proto/base/slab.hpp"

namespace hawser::proto {

// The path numbers that arrived: the largest, and which of the 1024 up to it. Older numbers count
// as seen, so that a datagram can't be taken twice however late its copy comes. Numbers are
// compared by their distance, so they may wrap at 2^64.
class PathWindow {
 public:
  static constexpr std::uint64_t kBits = 1024;
  static constexpr std::size_t kWords = kBits / 64;

  enum class Arrival : std::uint8_t { fresh, duplicate, too_old };
  struct Insertion {
    Arrival arrival = Arrival::fresh;
    bool new_gap = false;  // this number jumped ahead and left at least one missing before it
  };

  // Numbers start at `first`; those before it count as seen.
  PathWindow() { restart(0); }
  explicit PathWindow(std::uint64_t first) { restart(first); }

  void restart(std::uint64_t first) {
    largest_ = first - 1;
    words_.fill(~std::uint64_t{0});
  }

  // Marks a number as arrived.
  Insertion insert(std::uint64_t number) {
    const std::uint64_t ahead = number - largest_;
    if (ahead - 1 < kAhead) {
      if (ahead > 1) forget_between(number, ahead);
      words_[position(number) / 64] |= std::uint64_t{1} << (position(number) % 64);
      largest_ = number;
      return {Arrival::fresh, ahead > 1};
    }
    if (largest_ - number >= kBits) return {Arrival::too_old, false};
    std::uint64_t& word = words_[position(number) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (position(number) % 64);
    if ((word & bit) != 0) return {Arrival::duplicate, false};
    word |= bit;
    return {Arrival::fresh, false};
  }

  // The largest number that arrived; first - 1 if none has.
  [[nodiscard]] std::uint64_t largest() const { return largest_; }

  // Whether insert would call it anything but fresh.
  [[nodiscard]] bool seen(std::uint64_t number) const {
    if (number - largest_ - 1 < kAhead) return false;
    if (largest_ - number >= kBits) return true;
    return ((words_[position(number) / 64] >> (position(number) % 64)) & 1) != 0;
  }

  // The bitmap of a PATH_ACK: bit i of word w says whether largest() - 64w - i has arrived. Writes
  // as many words as it takes to reach back to `oldest` (at least 1, at most kWords or what `words`
  // holds) and returns how many.
  std::size_t write_ack(std::uint64_t oldest, std::span<std::uint64_t> words) const;

 private:
  static constexpr std::uint64_t kAhead = std::uint64_t{1} << 63;

  // Numbers lie in falling order, so that an ack's words are plain shifts of these words.
  static std::size_t position(std::uint64_t number) { return ~number & (kBits - 1); }
  void forget_between(std::uint64_t number, std::uint64_t ahead);

  std::array<std::uint64_t, kWords> words_{};
  std::uint64_t largest_ = 0;
};

// Memory for FragmentBitmaps: blocks of 512 bits, and directories that name up to 64 of them.
class BlockPool {
 public:
  static constexpr std::uint32_t kBlockBits = 512;
  static constexpr std::uint32_t kDirectoryBlocks = 64;

  struct alignas(64) Block {
    std::array<std::uint64_t, kBlockBits / 64> words{};
    void reset() { words.fill(0); }
  };
  struct alignas(64) Directory {
    std::array<std::uint32_t, kDirectoryBlocks> blocks{};
    void reset() { blocks.fill(kNoIndex); }
  };

  // A message of more than 64 fragments holds one block throughout. Give at least one block for
  // each such message; more `blocks`, and `directories`, let arrivals run ahead of the first
  // missing fragment.
  BlockPool(std::uint32_t blocks, std::uint32_t directories)
      : blocks_(blocks), directories_(directories) {}

  [[nodiscard]] std::uint32_t blocks_in_use() const { return blocks_.size(); }
  [[nodiscard]] std::uint32_t directories_in_use() const { return directories_.size(); }

 private:
  friend class FragmentBitmap;

  Slab<Block> blocks_;
  Slab<Directory> directories_;
};

// Which fragments of a message have been claimed. The bitmap slides: only fragments from the first
// missing one on take memory, for kSpan fragments or a little more. Blocks come from a pool and go
// back as the first missing fragment passes them.
//
// A message of at most 64 fragments has its bits in this object. A longer one takes a block in
// start and keeps it for the first missing fragment till the end. Every started message can
// therefore finish, however empty the pool: `no_block` only ever befalls fragments further ahead.
class FragmentBitmap {
 public:
  // A fragment below first_missing() + kSpan is never `outside`, wherever in a block the span
  // starts.
  static constexpr std::uint32_t kSpan =
      BlockPool::kBlockBits * (BlockPool::kDirectoryBlocks - 1) + 1;

  enum class Claim : std::uint8_t {
    fresh,      // now claimed: place its bytes
    duplicate,  // was claimed before
    outside,    // not a fragment of the message, or too far ahead
    no_block,   // no memory so far ahead; the fragment must be sent again
  };

  // False if the pool has no block; then nothing was taken. total: 1 to 2^28.
  [[nodiscard]] bool start(BlockPool& pool, std::uint32_t total);
  // Gives all memory back. A bitmap that was started must be released, complete or not.
  void release();
  [[nodiscard]] bool started() const { return total_ != 0; }

  [[nodiscard]] Claim claim(std::uint32_t fragment);

  [[nodiscard]] std::uint32_t total() const { return total_; }
  [[nodiscard]] std::uint32_t first_missing() const { return first_missing_; }
  [[nodiscard]] std::uint32_t claimed() const { return claimed_; }
  [[nodiscard]] std::uint32_t beyond() const { return beyond_; }  // the largest claimed + 1
  [[nodiscard]] bool complete() const { return claimed_ == total_ && total_ != 0; }
  [[nodiscard]] bool is_claimed(std::uint32_t fragment) const;

  // The bitmap of a REQUEST: bit i of word w says that fragment base + 64w + i is below `limit` and
  // missing. Returns how many words were written: up to the last one that isn't 0.
  std::size_t write_missing(std::uint32_t base, std::uint32_t limit,
                            std::span<std::uint64_t> words) const;

 private:
  static constexpr std::uint32_t kBlockBits = BlockPool::kBlockBits;

  [[nodiscard]] std::uint64_t* word_for(std::uint32_t fragment, Claim& refusal);
  [[nodiscard]] std::uint64_t claimed_word(std::uint32_t word) const;
  void advance();
  void next_block();

  BlockPool* pool_ = nullptr;
  std::uint64_t inline_ = 0;            // the bits of a message of at most 64 fragments
  std::uint32_t front_ = kNoIndex;      // the block of first_missing_
  std::uint32_t directory_ = kNoIndex;  // if any: block b beyond the front's is at entry b mod 64
  std::uint32_t total_ = 0;             // 0: not started
  std::uint32_t first_missing_ = 0;
  std::uint32_t claimed_ = 0;
  std::uint32_t beyond_ = 0;  // the largest claimed + 1
};

}  // namespace hawser::proto
