// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/remote_table.hpp"

#include <bit>

namespace hawser::engine {

using proto::NicAddress;
using proto::RemoteHandle;

RemoteTable::RemoteTable(std::uint32_t capacity)
    : entries_(capacity), buckets_(std::bit_ceil(std::size_t{capacity} + 1), kEnd) {
  for (std::uint32_t i = capacity; i-- > 0;) {
    entries_[i].next = free_;
    free_ = i;
  }
}

std::uint32_t& RemoteTable::bucket_of(const NicAddress& address) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const std::byte byte : address.bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  }
  return buckets_[hash & (buckets_.size() - 1)];
}

RemoteTable::Opened RemoteTable::open(const NicAddress& address) {
  std::uint32_t& head = bucket_of(address);
  for (std::uint32_t i = head; i != kEnd; i = entries_[i].next) {
    if (entries_[i].address == address) {
      ++entries_[i].openings;
      return {RemoteHandle{i}, false};
    }
  }
  if (free_ == kEnd) return {};
  const std::uint32_t index = free_;
  Entry& entry = entries_[index];
  free_ = entry.next;
  entry = {address, 1, head};
  head = index;
  return {RemoteHandle{index}, true};
}

bool RemoteTable::close(RemoteHandle handle) {
  if (!is_open(handle)) return false;
  const auto index = static_cast<std::uint32_t>(handle);
  Entry& entry = entries_[index];
  if (--entry.openings > 0) return false;
  std::uint32_t* link = &bucket_of(entry.address);
  while (*link != index) link = &entries_[*link].next;
  *link = entry.next;
  entry.next = free_;
  free_ = index;
  return true;
}

}  // namespace hawser::engine
