// SPDX-License-Identifier: Apache-2.0
// A receive ring in memory: a bounded queue of datagrams with any number of senders, in any
// threads, and one receiver. It follows Vyukov's bounded queue: the sequence number of a cell tells
// which datagram the cell holds.
//
// A sender claims a cell, copies its datagram into it and publishes it. The receiver gets views
// into the cells, and returns all of them with its next call. Nobody waits: a full ring drops. If a
// sender is descheduled between claim and publication, its cell holds back those behind it, as a
// packet that is still on the wire would.
//
// A sender may also lend a view of its payload. The receiver owns that view from its pop until it
// returns the cell. Before the pop the sender may take the view back, which copies the payload into
// the cell. The cell's `hold` decides between the two in one atomic step. `hold` also names the
// datagram, because the cell may already hold a later one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "engine/driver/aligned_memory.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

class DatagramRing {
 public:
  // Holds at least `slots` datagrams of up to `datagram_bytes` each. The number of slots is rounded
  // up to a power of two.
  DatagramRing(std::size_t slots, std::size_t datagram_bytes);
  DatagramRing(const DatagramRing&) = delete;
  DatagramRing& operator=(const DatagramRing&) = delete;

  // For any thread. False if the datagram was dropped: the ring is full or closed, or the datagram
  // is longer than a slot.
  bool push(std::span<const std::byte> header, std::span<const std::byte> payload);

  // As push, but the receiver reads the payload (not empty) in place. It must not change until
  // is_released(position) or take_back(position) returns true. If lend returns false, the caller
  // owns it at once.
  [[nodiscard]] bool lend(std::span<const std::byte> header, std::span<const std::byte> payload,
                          std::uint64_t& position);
  // For the lender. True if the receiver has returned the payload, or will never look at it. Once
  // true, it stays true.
  [[nodiscard]] bool is_released(std::uint64_t position) const {
    return released_.load(std::memory_order_acquire) > position;
  }
  // For the lender. Copies the payload into the cell if the receiver hasn't seen it. True: nobody
  // reads the lender's memory any more. False: the receiver is reading it right now.
  [[nodiscard]] bool take_back(std::uint64_t position);

  // For the receiver's thread. Returns views of the next datagrams, in order, and invalidates those
  // of the previous call.
  [[nodiscard]] std::size_t pop(std::span<proto::RxPacket> packets, proto::Queue queue);
  // For the receiver's thread, which pops no more. Returns all cells; later datagrams are dropped.
  void close() { released_.store(kClosed, std::memory_order_release); }

  // Datagrams dropped because the ring was full. For any thread.
  [[nodiscard]] std::uint64_t overruns() const { return overruns_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t slots() const { return mask_ + 1; }

 private:
  static constexpr std::uint64_t kClosed = ~std::uint64_t{0};  // released_: beyond every position

  // The owner of a lent payload.
  enum class Holder : std::uint64_t { lender, receiver, copying, cell };
  [[nodiscard]] static constexpr std::uint64_t hold(std::uint64_t position, Holder holder) {
    return position << 2 | static_cast<std::uint64_t>(holder);
  }

  // Begins as zeros, which pages are that were never written: most cells of most rings are never
  // used, and then cost no memory.
  struct alignas(16) Cell {
    std::uint64_t turn_word;  // p + 1: holds datagram p
    std::uint64_t hold_word;
    const std::byte* lent;
    std::uint32_t bytes;       // that follow this struct
    std::uint32_t lent_bytes;  // at `lent`, or behind those bytes
    // The datagram follows.

    [[nodiscard]] std::atomic_ref<std::uint64_t> turn() {
      return std::atomic_ref<std::uint64_t>(turn_word);
    }
    [[nodiscard]] std::atomic_ref<std::uint64_t> hold() {
      return std::atomic_ref<std::uint64_t>(hold_word);
    }
  };
  static_assert(std::is_trivially_default_constructible_v<Cell>, "no code makes the cells");
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

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};  // changed by senders
  std::atomic<std::uint64_t> overruns_{0};
  // The receiver's, on a cache line of its own. Senders own all cells before this position.
  alignas(kCacheLine) std::atomic<std::uint64_t> released_{0};
  alignas(kCacheLine) std::uint64_t head_ = 0;  // the next cell to hand out
};

}  // namespace hawser::engine
