// SPDX-License-Identifier: Apache-2.0
#include "proto/base/bitmap.hpp"

#include <algorithm>

namespace hawser::proto {

namespace {

constexpr std::uint64_t kOnes = ~std::uint64_t{0};

// The lowest n bits; n up to 64.
constexpr std::uint64_t low_bits(std::uint32_t n) {
  return n >= 64 ? kOnes : (std::uint64_t{1} << n) - 1;
}

}  // namespace

// Forgets the bits that fall out of the window, where a number is `ahead` of the largest. The
// places of the numbers in between, and its own, held numbers 1024 lower.
void PathWindow::forget_between(std::uint64_t number, std::uint64_t ahead) {
  if (ahead >= kBits) {
    words_.fill(0);
  } else {
    for (std::uint64_t left = ahead - 1, at = number - 1; left > 0;) {
      // At most from the place of `at` upwards to the end of its word.
      const std::size_t place = position(at);
      const std::uint64_t run = std::min<std::uint64_t>(left, 64 - place % 64);
      words_[place / 64] &= ~(low_bits(static_cast<std::uint32_t>(run)) << (place % 64));
      left -= run;
      at -= run;
    }
  }
}

std::size_t PathWindow::write_ack(std::uint64_t oldest, std::span<std::uint64_t> words) const {
  const std::uint64_t back = largest_ - oldest;
  std::size_t count = 1;
  if (back < kAhead) count = static_cast<std::size_t>(std::min(back / 64 + 1, kBits / 64));
  count = std::min(count, words.size());
  const std::size_t start = position(largest_);
  const std::size_t shift = start % 64;
  for (std::size_t w = 0; w < count; ++w) {
    const std::size_t at = start / 64 + w;
    words[w] = words_[at % kWords] >> shift;
    if (shift != 0) words[w] |= words_[(at + 1) % kWords] << (64 - shift);
  }
  return count;
}

bool FragmentBitmap::start(BlockPool& pool, std::uint32_t total) {
  HAWSER_ASSERT(!started(), "started twice");
  HAWSER_ASSERT(total >= 1 && total <= (1u << 28));
  if (total > 64) {
    SlabId block;
    if (pool.blocks_.try_allocate(block) == nullptr) return false;
    front_ = block.index;
  }
  pool_ = &pool;
  total_ = total;
  return true;
}

void FragmentBitmap::release() {
  if (directory_ != kNoIndex) {
    for (const std::uint32_t block : pool_->directories_[directory_].blocks) {
      if (block != kNoIndex) pool_->blocks_.free(block);
    }
    pool_->directories_.free(directory_);
  }
  if (front_ != kNoIndex) pool_->blocks_.free(front_);
  *this = FragmentBitmap{};
}

// The word with the bit of a fragment from first_missing_ on; allocates memory if need be.
inline std::uint64_t* FragmentBitmap::word_for(std::uint32_t fragment, Claim& refusal) {
  if (total_ <= 64) return &inline_;
  const std::uint32_t block = fragment / kBlockBits;
  const std::uint32_t ahead = block - first_missing_ / kBlockBits;
  const std::uint32_t word = fragment % kBlockBits / 64;
  if (ahead == 0) return &pool_->blocks_[front_].words[word];
  if (ahead >= BlockPool::kDirectoryBlocks) return nullptr;
  refusal = Claim::no_block;
  SlabId taken;
  if (directory_ == kNoIndex) {
    if (pool_->blocks_.full() || pool_->directories_.try_allocate(taken) == nullptr) return nullptr;
    directory_ = taken.index;
  }
  std::uint32_t& entry =
      pool_->directories_[directory_].blocks[block % BlockPool::kDirectoryBlocks];
  if (entry == kNoIndex) {
    if (pool_->blocks_.try_allocate(taken) == nullptr) return nullptr;
    entry = taken.index;
  }
  return &pool_->blocks_[entry].words[word];
}

// Moves first_missing_ past claimed fragments; frees the blocks left behind.
inline void FragmentBitmap::advance() {
  while (first_missing_ < total_) {
    const std::uint64_t* words = total_ <= 64 ? &inline_ : pool_->blocks_[front_].words.data();
    const std::uint64_t rest = words[first_missing_ % kBlockBits / 64] >> (first_missing_ % 64);
    const auto run = static_cast<std::uint32_t>(std::countr_one(rest));
    if (run == 0) return;
    first_missing_ += run;
    if (first_missing_ % 64 != 0) return;  // a gap, or the end, inside this word
    if (first_missing_ % kBlockBits == 0 && first_missing_ < total_) next_block();
  }
}

FragmentBitmap::Claim FragmentBitmap::claim(std::uint32_t fragment) {
  if (fragment >= total_) return Claim::outside;
  if (fragment < first_missing_) return Claim::duplicate;
  Claim refusal = Claim::outside;
  std::uint64_t* word = word_for(fragment, refusal);
  if (word == nullptr) return refusal;
  const std::uint64_t bit = std::uint64_t{1} << (fragment % 64);
  if ((*word & bit) != 0) return Claim::duplicate;
  *word |= bit;
  ++claimed_;
  const bool in_order = fragment == first_missing_ && fragment + 1 > beyond_;
  beyond_ = std::max(beyond_, fragment + 1);
  if (in_order && (fragment + 1) % kBlockBits != 0) {  // the usual case
    first_missing_ = fragment + 1;
  } else if (fragment == first_missing_) {
    advance();
  }
  return Claim::fresh;
}

// first_missing_ has reached the start of a block, which becomes the front.
void FragmentBitmap::next_block() {
  if (directory_ != kNoIndex) {
    std::uint32_t& entry = pool_->directories_[directory_]
                               .blocks[first_missing_ / kBlockBits % BlockPool::kDirectoryBlocks];
    if (entry != kNoIndex) {
      pool_->blocks_.free(front_);
      front_ = entry;
      entry = kNoIndex;
      return;
    }
  }
  pool_->blocks_[front_].reset();
}

// The claimed bits of fragments [64 word, 64 word + 64), those behind first_missing_ included.
std::uint64_t FragmentBitmap::claimed_word(std::uint32_t word) const {
  const std::uint32_t start = word * 64;
  if (start + 64 <= first_missing_) return kOnes;
  if (start >= beyond_) return 0;
  if (total_ <= 64) return inline_;
  const std::uint32_t block = start / kBlockBits;
  std::uint32_t index = front_;
  if (block != first_missing_ / kBlockBits) {
    index = directory_ == kNoIndex
                ? kNoIndex
                : pool_->directories_[directory_].blocks[block % BlockPool::kDirectoryBlocks];
  }
  return index == kNoIndex ? 0 : pool_->blocks_[index].words[start % kBlockBits / 64];
}

bool FragmentBitmap::is_claimed(std::uint32_t fragment) const {
  return fragment < total_ && ((claimed_word(fragment / 64) >> (fragment % 64)) & 1) != 0;
}

std::size_t FragmentBitmap::write_missing(std::uint32_t base, std::uint32_t limit,
                                          std::span<std::uint64_t> words) const {
  limit = std::min(limit, total_);
  std::size_t used = 0;
  for (std::size_t w = 0; w < words.size() && base < limit; ++w, base += 64) {
    const std::uint32_t shift = base % 64;
    std::uint64_t claimed = claimed_word(base / 64) >> shift;
    if (shift != 0) claimed |= claimed_word(base / 64 + 1) << (64 - shift);
    words[w] = ~claimed & low_bits(limit - base);
    if (words[w] != 0) used = w + 1;
  }
  return used;
}

}  // namespace hawser::proto
