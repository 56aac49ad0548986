// SPDX-License-Identifier: Apache-2.0
// The receiving side of one UDP socket: many messages by one system call, each into a slab of its
// own, and each split again into the datagrams that the kernel coalesced (UDP_GRO).
//
// A slab is free, then pending (received, some of its datagrams not handed out yet), then spent
// (all handed out: its views are valid until the next call), then free again.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/driver/aligned_memory.hpp"
#include "proto/base/ring.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct UdpReceiveStats {
  std::uint64_t calls = 0;     // system calls
  std::uint64_t messages = 0;  // coalesced ones count once
  std::uint64_t datagrams = 0;
  std::uint64_t malformed = 0;         // messages dropped: empty, or in pieces that no kernel makes
  std::uint64_t errors = 0;            // calls that failed
  std::uint64_t by_other_devices = 0;  // datagrams, once expect_device was called
};

class UdpReceiver {
 public:
  UdpReceiver(int fd, proto::Queue queue);

  // From now on what comes by another device counts, but for what this host sends to itself.
  void expect_device(std::uint32_t device, bool is_v6);

  // As Nic::rx_burst.
  [[nodiscard]] std::size_t receive(std::span<proto::RxPacket> packets);

  // Whether the next call gives something that was received before.
  [[nodiscard]] bool holds_some() const { return !pending_.empty(); }

  [[nodiscard]] const UdpReceiveStats& stats() const { return stats_; }

 private:
  // Messages by one call. More would only make the first ones cold before they are looked at.
  static constexpr std::size_t kBatch = 16;
  // Pieces that the kernel coalesces, and ours, at most.
  static constexpr std::size_t kMaxPieces = 128;
  static constexpr std::size_t kMaxMessageBytes = 65535;
  // Each piece may move by up to 7 bytes to be aligned.
  static constexpr std::size_t kSlabBytes = kMaxMessageBytes + 1 + 8 * kMaxPieces;
  // Every slab holds at least one of the datagrams handed out, or one of the next.
  static constexpr std::size_t kSlabs = proto::Nic::kMaxRxBurst + kBatch;

  struct Message {
    std::uint32_t slab = 0;
    std::uint32_t offset = 0;  // of the next piece in the slab
    std::uint32_t left = 0;    // bytes of datagrams not handed out
    std::uint32_t piece = 0;   // bytes of each but the last
    bool congestion_experienced = false;
  };
  struct Batch {
    std::array<mmsghdr, kBatch> headers{};
    std::array<iovec, kBatch> vectors{};
    alignas(cmsghdr) std::array<std::array<std::byte, 96>, kBatch> controls{};
  };

  [[nodiscard]] std::byte* slab(std::uint32_t index) { return memory_.get() + index * kSlabBytes; }
  // Asks the socket for up to `want` datagrams. True if it was seen empty.
  [[nodiscard]] bool fill(std::size_t want);
  // Messages received, 0 if there are none.
  [[nodiscard]] std::size_t call(unsigned messages);
  // Makes the message pending; returns its pieces, 0 if it is malformed.
  [[nodiscard]] std::size_t accept(std::uint32_t index, const mmsghdr& header);
  [[nodiscard]] std::size_t hand_out(std::span<proto::RxPacket> packets);

  int fd_;
  proto::Queue queue_;
  std::uint32_t device_ = 0;  // 0: any
  AlignedMemory memory_;
  std::vector<std::uint32_t> free_;  // the last one used first: it is warm
  std::vector<std::uint32_t> spent_;
  proto::Ring<Message> pending_{kBatch};
  Batch batch_;
  std::size_t prepared_ = 0;  // of the batch: laid out for the slabs on top of free_, and not used.
                              // So a poll that finds nothing is little more than its system call
  std::size_t pieces_per_message_ = 1;  // of the last batch
  UdpReceiveStats stats_;
};

}  // namespace hawser::engine
