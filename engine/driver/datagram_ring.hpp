// A receive ring in memory: a bounded queue of datagrams, any number of senders in any threads, one
// receiver. (Vyukov's bounded queue: each cell has a sequence number that says whose turn it is.)
//
// A sender claims a cell, copies its datagram into it and publishes it. The receiver gets views
// into the cells and gives the cells back on its next call. Nobody waits: a full ring drops. A cell
// that is claimed and not published yet, because its sender was descheduled, holds back those
// behind it, as a packet that is still on the wire would.
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

  // Any thread. False if the ring is full or the datagram longer than a slot: it is dropped.
  bool push(std::span<const std::byte> header, std::span<const std::byte> payload);

  // The receiver's thread. Views of the next datagrams, in order; invalidates the previous call's.
  [[nodiscard]] std::size_t pop(std::span<proto::RxPacket> packets, proto::Queue queue);

  // Datagrams dropped because the ring was full. Any thread.
  [[nodiscard]] std::uint64_t overruns() const { return overruns_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t slots() const { return mask_ + 1; }

 private:
  struct alignas(16) Cell {
    std::atomic<std::uint64_t> turn{
        0};  // position p: free for p's sender · p + 1: holds datagram p
    std::uint32_t bytes = 0;
    // The datagram follows.
  };
  static_assert(sizeof(Cell) % 8 == 0, "datagrams are at least 8-byte aligned");

  [[nodiscard]] Cell& cell(std::uint64_t position) const {
    return *reinterpret_cast<Cell*>(memory_.get() + (position & mask_) * stride_);
  }
  [[nodiscard]] static std::byte* data_of(Cell& cell) {
    return reinterpret_cast<std::byte*>(&cell + 1);
  }

  std::size_t mask_;
  std::size_t datagram_bytes_;
  std::size_t stride_;
  AlignedMemory memory_;

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};  // the senders'
  std::atomic<std::uint64_t> overruns_{0};
  alignas(kCacheLine) std::uint64_t head_ = 0;  // the receiver's: the next to hand out
  std::uint64_t released_ = 0;                  // cells before this one are the senders' again
};

}  // namespace hawser::engine
