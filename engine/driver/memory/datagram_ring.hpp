// SPDX-License-Identifier: Apache-2.0
// A receive ring in memory: a bounded queue of datagrams, any number of senders in any threads, one
// receiver. (After Vyukov's bounded queue: each cell has a sequence number that says which datagram
// it holds.)
//
// A sender claims a cell, copies its datagram into it and publishes it. The receiver gets views
// into the cells and gives all of them back on its next call. Nobody waits: a full ring drops. A
// cell that is claimed and not published yet, because its sender was descheduled, holds back those
// behind it, as a packet that is still on the wire would.
//
// Of a payload the sender may also lend a view. It is the receiver's from when it is popped to when
// the cell is given back; before, the sender may take it back, which copies it into the cell. Which
// of both comes first is decided in the cell's `hold`, in one atomic step that names the datagram:
// the cell may long hold another.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/driver/aligned_memory.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

class DatagramRing {
 public:
  // At least `slots` datagrams of up to `datagram_bytes` each; the slots are rounded up to a power
  // of two.
  DatagramRing(std::size_t slots, std::size_t datagram_bytes);
  DatagramRing(const DatagramRing&) = delete;
  DatagramRing& operator=(const DatagramRing&) = delete;

  // Any thread. False if the ring is full or closed, or the datagram longer than a slot: it is
  // dropped.
  bool push(std::span<const std::byte> header, std::span<const std::byte> payload);

  // As push, but the payload, which is not empty, stays where it is and as it is until
  // is_released(position) or take_back(position) say true. False: it is the caller's at once.
  [[nodiscard]] bool lend(std::span<const std::byte> header, std::span<const std::byte> payload,
                          std::uint64_t& position);
  // Who lent it: whether the receiver has given it back, or will never look at it. Once true, it
  // is true for good.
  [[nodiscard]] bool is_released(std::uint64_t position) const {
    return released_.load(std::memory_order_acquire) > position;
  }
  // Who lent it: copies it, if the receiver hasn't seen it. True: nothing reads it any more.
  // False: the receiver is at it right now.
  [[nodiscard]] bool take_back(std::uint64_t position);

  // The receiver's thread. Views of the next datagrams, in order; invalidates the previous call's.
  [[nodiscard]] std::size_t pop(std::span<proto::RxPacket> packets, proto::Queue queue);
  // The receiver's thread, which pops no more: all is given back, and what still comes is dropped.
  void close() { released_.store(kClosed, std::memory_order_release); }

  // Datagrams dropped because the ring was full. Any thread.
  [[nodiscard]] std::uint64_t overruns() const { return overruns_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t slots() const { return mask_ + 1; }

 private:
  static constexpr std::uint64_t kClosed = ~std::uint64_t{0};  // released_: beyond every position

  // Whose a lent payload is.
  enum class Holder : std::uint64_t { lender, receiver, copying, cell };
  [[nodiscard]] static constexpr std::uint64_t hold(std::uint64_t position, Holder holder) {
    return position << 2 | static_cast<std::uint64_t>(holder);
  }

  struct alignas(16) Cell {
    std::atomic<std::uint64_t> turn{0};  // p + 1: holds datagram p
    std::atomic<std::uint64_t> hold{0};
    const std::byte* lent = nullptr;
    std::uint32_t bytes = 0;       // behind this
    std::uint32_t lent_bytes = 0;  // at `lent`, or behind those
    // The datagram follows.
  };
  static_assert(sizeof(Cell) % 8 == 0, "datagrams are at least 8-byte aligned");

  [[nodiscard]] Cell& cell(std::uint64_t position) const {
    return *reinterpret_cast<Cell*>(memory_.get() + (position & mask_) * stride_);
  }
  [[nodiscard]] static std::byte* data_of(Cell& cell) {
    return reinterpret_cast<std::byte*>(&cell + 1);
  }
  [[nodiscard]] bool claim(std::uint64_t& position);

  std::size_t mask_;
  std::size_t datagram_bytes_;
  std::size_t stride_;
  AlignedMemory memory_;

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};  // the senders'
  std::atomic<std::uint64_t> overruns_{0};
  // The receiver's, on a line of its own: cells before this one are the senders' again.
  alignas(kCacheLine) std::atomic<std::uint64_t> released_{0};
  alignas(kCacheLine) std::uint64_t head_ = 0;  // the next to hand out
};

}  // namespace hawser::engine
