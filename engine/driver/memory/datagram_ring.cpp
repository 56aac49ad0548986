// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/memory/datagram_ring.hpp"

#include <bit>
#include <cstring>

namespace hawser::engine {

DatagramRing::DatagramRing(std::size_t slots, std::size_t datagram_bytes)
    : mask_(std::bit_ceil(slots < 1 ? std::size_t{1} : slots) - 1),
      datagram_bytes_(datagram_bytes),
      // An odd number of cache lines, so that the heads of the cells spread over all cache sets.
      stride_((((sizeof(Cell) + datagram_bytes + kCacheLine - 1) / kCacheLine) | 1) * kCacheLine),
      memory_(allocate_aligned((mask_ + 1) * stride_)) {
  if (memory_.get_deleter().began_zeroed()) return;
  for (std::uint64_t position = 0; position <= mask_; ++position) cell(position) = Cell{};
}

bool DatagramRing::claim(std::uint64_t& position) {
  position = tail_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t released = released_.load(std::memory_order_acquire);
    if (released == kClosed) return false;
    // Negative if other senders have claimed cells since and the receiver has passed this position.
    // The exchange below then fails.
    const auto taken = static_cast<std::int64_t>(position - released);
    if (taken > static_cast<std::int64_t>(mask_)) {
      overruns_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) return true;
  }
}

bool DatagramRing::push(std::span<const std::byte> header, std::span<const std::byte> payload) {
  const std::size_t bytes = header.size() + payload.size();
  std::uint64_t position = 0;
  if (bytes > datagram_bytes_ || !claim(position)) return false;
  Cell& mine = cell(position);
  mine.bytes = static_cast<std::uint32_t>(bytes);
  mine.lent_bytes = 0;
  std::byte* data = data_of(mine);
  if (!header.empty()) std::memcpy(data, header.data(), header.size());
  if (!payload.empty()) std::memcpy(data + header.size(), payload.data(), payload.size());
  mine.turn().store(position + 1, std::memory_order_release);
  return true;
}

bool DatagramRing::lend(std::span<const std::byte> header, std::span<const std::byte> payload,
                        std::uint64_t& position) {
  if (header.size() + payload.size() > datagram_bytes_ || !claim(position)) return false;
  Cell& mine = cell(position);
  mine.lent = payload.data();
  mine.bytes = static_cast<std::uint32_t>(header.size());
  mine.lent_bytes = static_cast<std::uint32_t>(payload.size());
  if (!header.empty()) std::memcpy(data_of(mine), header.data(), header.size());
  mine.hold().store(hold(position, Holder::lender), std::memory_order_relaxed);
  mine.turn().store(position + 1, std::memory_order_release);
  return true;
}

bool DatagramRing::take_back(std::uint64_t position) {
  Cell& mine = cell(position);
  std::uint64_t expected = hold(position, Holder::lender);
  if (!mine.hold().compare_exchange_strong(expected, hold(position, Holder::copying),
                                           std::memory_order_relaxed)) {
    return expected == hold(position, Holder::cell) || is_released(position);
  }
  std::memcpy(data_of(mine) + mine.bytes, mine.lent, mine.lent_bytes);
  mine.hold().store(hold(position, Holder::cell), std::memory_order_release);
  return true;
}

std::size_t DatagramRing::pop(std::span<proto::RxPacket> packets, proto::Queue queue) {
  // Store only on change, because senders read it for every packet.
  if (released_.load(std::memory_order_relaxed) != head_) {
    released_.store(head_, std::memory_order_release);
  }
  std::size_t count = 0;
  for (; count < packets.size(); ++count, ++head_) {
    Cell& next = cell(head_);
    if (next.turn().load(std::memory_order_acquire) != head_ + 1) break;
    proto::RxPacket& packet =
        packets[count] = {.data = data_of(next), .bytes = next.bytes, .queue = queue};
    if (next.lent_bytes == 0) continue;
    std::uint64_t holder = hold(head_, Holder::lender);
    if (next.hold().compare_exchange_strong(holder, hold(head_, Holder::receiver),
                                            std::memory_order_acquire)) {
      packet.payload = next.lent;
      packet.payload_bytes = next.lent_bytes;
    } else if (holder == hold(head_, Holder::cell)) {
      packet.bytes += next.lent_bytes;
    } else {
      break;  // not published yet: its sender is still copying it
    }
  }
  return count;
}

}  // namespace hawser::engine
