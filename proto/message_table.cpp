#include "proto/message_table.hpp"

namespace hawser::proto {

bool MessageTable::open(MessageTablePool& pool, std::uint64_t floor) {
  HAWSER_ASSERT(!is_open(), "opened twice");
  SlabId reserve;
  if (pool.try_allocate(reserve) == nullptr) return false;
  pool_ = &pool;
  floor_ = floor;
  reserve_ = reserve.index;
  blocks_.fill(kNoIndex);
  return true;
}

void MessageTable::close() {
  HAWSER_ASSERT(is_open());
  for (const std::uint32_t block : blocks_) {
    if (block != kNoIndex) pool_->free(block);
  }
  if (reserve_ != kNoIndex) pool_->free(reserve_);
  *this = MessageTable{};
}

bool MessageTable::set(std::uint64_t number, std::uint32_t value) {
  HAWSER_ASSERT(is_open() && in_window(number));
  const std::uint32_t place = slot_of(number);
  if (blocks_[place] == kNoIndex && !take_block(place)) return false;
  MessageBlock& block = pool_->at(blocks_[place]);
  const std::uint64_t bit = std::uint64_t{1} << (number % 64);
  if ((block.present & bit) == 0) ++size_;
  block.present |= bit;
  block.values[number % 64] = value;
  return true;
}

std::optional<std::uint32_t> MessageTable::get(std::uint64_t number) const {
  if (!is_open() || !in_window(number)) return std::nullopt;
  const std::uint32_t index = blocks_[slot_of(number)];
  if (index == kNoIndex) return std::nullopt;
  const MessageBlock& block = pool_->at(index);
  if (((block.present >> (number % 64)) & 1) == 0) return std::nullopt;
  return block.values[number % 64];
}

bool MessageTable::erase(std::uint64_t number) {
  if (!get(number).has_value()) return false;
  const std::uint32_t place = slot_of(number);
  MessageBlock& block = pool_->at(blocks_[place]);
  block.present &= ~(std::uint64_t{1} << (number % 64));
  --size_;
  if (block.present == 0) give_block(place);
  return true;
}

bool MessageTable::take_block(std::uint32_t slot) {
  SlabId taken;
  if (pool_->try_allocate(taken) != nullptr) {
    blocks_[slot] = taken.index;
    return true;
  }
  if (slot != head_) return false;
  HAWSER_ASSERT(reserve_ != kNoIndex, "the reserve is out while the floor's block has no memory");
  blocks_[slot] = reserve_;
  reserve_ = kNoIndex;
  return true;
}

// The block has no entry any more. The reserve is filled first.
void MessageTable::give_block(std::uint32_t slot) {
  const std::uint32_t index = blocks_[slot];
  blocks_[slot] = kNoIndex;
  if (reserve_ == kNoIndex) {
    reserve_ = index;
  } else {
    pool_->free(index);
  }
}

}  // namespace hawser::proto
