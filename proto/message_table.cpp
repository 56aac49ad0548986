#include "proto/message_table.hpp"

namespace hawser::proto {

bool MessageTable::open(MessageTablePool& pool, std::uint64_t floor) {
  HAWSER_ASSERT(!is_open(), "opened twice");
  if (pool.available() == 0) return false;
  pool.withhold(1);
  reserved_ = true;
  pool_ = &pool;
  floor_ = floor;
  return true;
}

void MessageTable::close() {
  HAWSER_ASSERT(is_open());
  if (front_ != kNoIndex) pool_->free(front_);
  if (directory_ != kNoIndex) {
    const MessageBlock& directory = pool_->at(directory_);
    for (std::uint64_t left = directory.present; left != 0; left &= left - 1) {
      pool_->free(directory.values[static_cast<std::uint32_t>(std::countr_zero(left))]);
    }
    pool_->free(directory_);
  }
  if (reserved_) pool_->release(1);
  *this = MessageTable{};
}

bool MessageTable::erase(std::uint64_t number) {
  if (!is_open() || !in_window(number)) return false;
  const std::uint32_t index = block_of(number);
  if (index == kNoIndex) return false;
  MessageBlock& block = pool_->at(index);
  if (((block.present >> (number % 64)) & 1) == 0) return false;
  block.present &= ~(std::uint64_t{1} << (number % 64));
  --size_;
  if (block.present == 0) give_block(number);
  return true;
}

bool MessageTable::take_block(std::uint64_t number) {
  SlabId taken;
  if (is_front(number)) {
    if (pool_->available() == 0) {
      HAWSER_ASSERT(reserved_, "the reserve is out while the floor's block has no memory");
      pool_->release(1);
      reserved_ = false;
    }
    HAWSER_ASSERT(pool_->try_allocate(taken) != nullptr);
    front_ = taken.index;
    return true;
  }
  if (pool_->available() < (directory_ == kNoIndex ? 2u : 1u)) return false;
  HAWSER_ASSERT(pool_->try_allocate(taken) != nullptr);
  if (directory_ == kNoIndex) {
    SlabId directory;
    HAWSER_ASSERT(pool_->try_allocate(directory) != nullptr);
    directory_ = directory.index;
  }
  MessageBlock& directory = pool_->at(directory_);
  directory.present |= std::uint64_t{1} << place(number);
  directory.values[place(number)] = taken.index;
  return true;
}

// The block of a number that the directory has, which forgets it; kNoIndex if there is none.
std::uint32_t MessageTable::take_out(std::uint64_t number) {
  if (directory_ == kNoIndex) return kNoIndex;
  MessageBlock& directory = pool_->at(directory_);
  const std::uint64_t bit = std::uint64_t{1} << place(number);
  if ((directory.present & bit) == 0) return kNoIndex;
  const std::uint32_t index = directory.values[place(number)];
  directory.present &= ~bit;
  if (directory.present == 0) {
    give(directory_);
    directory_ = kNoIndex;
  }
  return index;
}

// The block of a number, which has no entry any more.
void MessageTable::give_block(std::uint64_t number) {
  if (is_front(number)) {
    give(front_);
    front_ = kNoIndex;
  } else {
    give(take_out(number));
  }
}

// The reserve is filled first.
void MessageTable::give(std::uint32_t block) {
  pool_->free(block);
  if (reserved_) return;
  pool_->withhold(1);
  reserved_ = true;
}

}  // namespace hawser::proto
