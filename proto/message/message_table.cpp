// SPDX-License-Identifier: Apache-2.0
#include "proto/message/message_table.hpp"

#include <utility>

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
  const auto free = [this](std::uint32_t index) {
    if (index != kNoIndex && !is_folded(index)) pool_->free(index);
  };
  const auto free_named = [&](const MessageBlock& block) {
    for (std::uint64_t left = block.present; left != 0; left &= left - 1) {
      free(block.values[static_cast<std::uint32_t>(std::countr_zero(left))]);
    }
  };
  free(front_);
  for_each_directory([&](std::uint64_t, const MessageBlock& directory) {
    free_named(directory);
    return true;
  });
  if (root_ != kNoIndex) free_named(pool_->at(root_));
  free(root_);
  if (reserved_) pool_->release(1);
  *this = MessageTable{};
}

std::uint64_t MessageTable::first(std::uint64_t none) const {
  if (size_ == 0) return none;
  const auto lowest = [this](std::uint64_t first_number, std::uint32_t index) {
    if (is_folded(index)) return not_below_floor(first_number);
    return first_number + static_cast<std::uint64_t>(std::countr_zero(pool_->at(index).present));
  };
  if (front_ != kNoIndex) return lowest(base(), front_);
  std::uint64_t found = none;
  for_each_directory([&](std::uint64_t first_number, const MessageBlock& directory) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(directory.present));
    found = lowest(first_number + std::uint64_t{64} * i, directory.values[i]);
    return false;
  });
  return found;
}

bool MessageTable::erase(std::uint64_t number) {
  if (!is_open() || !in_window(number)) return false;
  const std::uint32_t index = block_of(number);
  if (index == kNoIndex) return false;
  HAWSER_ASSERT(!is_folded(index), "only the floor erases a final message");
  MessageBlock& block = pool_->at(index);
  if (((block.present >> (number % 64)) & 1) == 0) return false;
  block.present &= ~(std::uint64_t{1} << (number % 64));
  --size_;
  if (block.present == 0) give_block(number);
  return true;
}

// The floor's block is never folded: it is freed soon, or not at all.
void MessageTable::fold(std::uint64_t number, const MessageBlock& block, std::uint32_t value) {
  if (is_front(number)) return;
  if (!std::ranges::all_of(block.values, [value](std::uint32_t v) { return v == value; })) return;
  MessageBlock& directory = pool_->at(directory_of(number));
  give(std::exchange(directory.values[place(number)], value));
}

bool MessageTable::take_block(std::uint64_t number) {
  SlabId taken;
  if (is_front(number)) {
    if (pool_->available() == 0) {
      HAWSER_ASSERT(reserved_, "the reserve is in use, but the floor's block has no memory");
      pool_->release(1);
      reserved_ = false;
    }
    pool_->allocate(taken);
    front_ = taken.index;
    return true;
  }
  const bool has_directory = directory_of(number) != kNoIndex;
  const std::uint32_t needed = has_directory ? 1 : root_ != kNoIndex ? 2 : 3;
  if (pool_->available() < needed) return false;
  pool_->allocate(taken);
  if (!has_directory) {
    SlabId directory;
    pool_->allocate(directory);
    if (root_ == kNoIndex) {
      SlabId root;
      pool_->allocate(root);
      root_ = root.index;
    }
    name(root_, root_place(number), directory.index);
  }
  name(directory_of(number), place(number), taken.index);
  return true;
}

void MessageTable::name(std::uint32_t block, std::uint32_t at, std::uint32_t index) {
  MessageBlock& names = pool_->at(block);
  names.present |= std::uint64_t{1} << at;
  names.values[at] = index;
}

// Takes a number's block out of its directory; kNoIndex if it has none.
std::uint32_t MessageTable::take_out(std::uint64_t number) {
  const std::uint32_t in = directory_of(number);
  if (in == kNoIndex) return kNoIndex;
  MessageBlock& directory = pool_->at(in);
  const std::uint32_t index = named(directory, place(number));
  if (index == kNoIndex) return kNoIndex;
  directory.present &= ~(std::uint64_t{1} << place(number));
  if (directory.present != 0) return index;
  give(in);
  MessageBlock& root = pool_->at(root_);
  root.present &= ~(std::uint64_t{1} << root_place(number));
  if (root.present == 0) give(std::exchange(root_, kNoIndex));
  return index;
}

// Frees the block of a number, which has no entry any more.
void MessageTable::give_block(std::uint64_t number) {
  if (is_front(number)) {
    give(std::exchange(front_, kNoIndex));
  } else {
    give(take_out(number));
  }
}

// Frees a block. The reserve is filled first.
void MessageTable::give(std::uint32_t block) {
  pool_->free(block);
  if (reserved_) return;
  pool_->withhold(1);
  reserved_ = true;
}

}  // namespace hawser::proto
