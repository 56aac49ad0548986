#include "engine/driver/datagram_ring.hpp"

#include <bit>
#include <cstring>
#include <new>

namespace hawser::engine {

DatagramRing::DatagramRing(std::size_t slots, std::size_t datagram_bytes)
    : mask_(std::bit_ceil(slots < 1 ? std::size_t{1} : slots) - 1),
      datagram_bytes_(datagram_bytes),
      // An odd number of cache lines, so that the heads of the cells spread over all cache sets.
      stride_((((sizeof(Cell) + datagram_bytes + kCacheLine - 1) / kCacheLine) | 1) * kCacheLine),
      memory_(allocate_aligned((mask_ + 1) * stride_)) {
  for (std::uint64_t position = 0; position <= mask_; ++position) {
    auto* cell = new (memory_.get() + position * stride_) Cell;
    cell->turn.store(position, std::memory_order_relaxed);
  }
}

bool DatagramRing::push(std::span<const std::byte> header, std::span<const std::byte> payload) {
  const std::size_t bytes = header.size() + payload.size();
  if (bytes > datagram_bytes_) return false;
  std::uint64_t position = tail_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t turn = cell(position).turn.load(std::memory_order_acquire);
    if (turn == position) {
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) break;
    } else if (turn < position) {  // the receiver has not given it back since the last round
      overruns_.fetch_add(1, std::memory_order_relaxed);
      return false;
    } else {  // another sender was faster
      position = tail_.load(std::memory_order_relaxed);
    }
  }
  Cell& mine = cell(position);
  mine.bytes = static_cast<std::uint32_t>(bytes);
  std::byte* data = data_of(mine);
  if (!header.empty()) std::memcpy(data, header.data(), header.size());
  if (!payload.empty()) std::memcpy(data + header.size(), payload.data(), payload.size());
  mine.turn.store(position + 1, std::memory_order_release);
  return true;
}

std::size_t DatagramRing::pop(std::span<proto::RxPacket> packets, proto::Queue queue) {
  for (; released_ != head_; ++released_) {
    cell(released_).turn.store(released_ + mask_ + 1, std::memory_order_release);
  }
  std::size_t count = 0;
  while (count < packets.size()) {
    Cell& next = cell(head_);
    if (next.turn.load(std::memory_order_acquire) != head_ + 1) break;
    packets[count++] = {data_of(next), next.bytes, queue, false};
    ++head_;
  }
  return count;
}

}  // namespace hawser::engine
