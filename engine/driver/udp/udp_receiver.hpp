// SPDX-License-Identifier: Apache-2.0
// The receiving side of one UDP socket. One system call receives many messages, each into a slab of
// its own. If the kernel has coalesced several datagrams into a message (UDP_GRO), the receiver
// splits it again.
//
// A slab is free, then pending (received, with datagrams that are not handed out yet), then spent,
// then free again. A spent slab has been handed out entirely; its views are valid until the next
// call.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/driver/aligned_memory.hpp"
#include "engine/driver/udp/udp_overruns.hpp"
#include "engine/driver/udp/udp_socket.hpp"
#include "proto/base/ring.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct UdpReceiveStats {
  std::uint64_t calls = 0;     // system calls
  std::uint64_t messages = 0;  // coalesced ones count once
  std::uint64_t datagrams = 0;
  std::uint64_t malformed = 0;         // messages dropped: empty, or split as no kernel does it
  std::uint64_t errors = 0;            // calls that failed
  std::uint64_t by_other_devices = 0;  // datagrams by another device than the expected one
};

class UdpReceiver {
 public:
  UdpReceiver(int fd, proto::Queue queue);

  // From now on counts datagrams that come by another device, except those that this host sends to
  // itself. 0: they may come by any device.
  void expect_device(std::uint32_t device, bool is_v6);

  // As Nic::rx_burst.
  [[nodiscard]] std::size_t receive(std::span<proto::RxPacket> packets);

  // True if the next call returns something without a system call.
  [[nodiscard]] bool holds_some() const { return !pending_.empty(); }

  [[nodiscard]] const UdpReceiveStats& stats() const { return stats_; }
  // Messages lost because the receive buffer was full. Takes a system call.
  [[nodiscard]] std::uint64_t overruns() const { return overruns_.count(receive_buffer_of(fd_)); }

 private:
  // Messages per call. With more, the first ones would leave the cache before they are read.
  static constexpr std::size_t kBatch = 16;
  // Upper bound for the pieces that the kernel coalesces, and for ours.
  static constexpr std::size_t kMaxPieces = 128;
  static constexpr std::size_t kMaxMessageBytes = 65535;
  // Each piece may move by up to 7 bytes to be aligned.
  static constexpr std::size_t kSlabBytes = kMaxMessageBytes + 1 + 8 * kMaxPieces;
  // Each slab holds at least one datagram that is handed out, or is one of the next batch.
  static constexpr std::size_t kSlabs = proto::Nic::kMaxRxBurst + kBatch;

  struct Message {
    std::uint32_t slab = 0;
    std::uint32_t offset = 0;  // offset of the next piece in the slab
    std::uint32_t left = 0;    // bytes of datagrams that are not handed out yet
    std::uint32_t piece = 0;   // length of each piece but the last
    bool congestion_experienced = false;
  };
  struct Batch {
    std::array<mmsghdr, kBatch> headers{};
    std::array<iovec, kBatch> vectors{};
    alignas(cmsghdr) std::array<std::array<std::byte, 96>, kBatch> controls{};
  };

  [[nodiscard]] std::byte* slab(std::uint32_t index) { return memory_.get() + index * kSlabBytes; }
  // Asks the socket for up to `want` datagrams. Returns true if it was seen empty.
  [[nodiscard]] bool fill(std::size_t want);
  // Returns the number of messages received; 0 if there are none.
  [[nodiscard]] std::size_t call(unsigned messages);
  // Makes the message pending. Returns the number of its pieces; 0 if it is malformed.
  [[nodiscard]] std::size_t accept(std::uint32_t index, const mmsghdr& header);
  [[nodiscard]] std::size_t hand_out(std::span<proto::RxPacket> packets);

  int fd_;
  proto::Queue queue_;
  std::uint32_t device_ = 0;  // 0: any
  bool hears_device_ = false;
  AlignedMemory memory_;
  std::vector<std::uint32_t> free_;  // the last one is used first, because it is warm
  std::vector<std::uint32_t> spent_;
  proto::Ring<Message> pending_{kBatch};
  Batch batch_;
  // Unused entries of the batch, laid out for the slabs on top of free_. They make a poll that
  // finds nothing cost little more than its system call.
  std::size_t prepared_ = 0;
  std::size_t pieces_per_message_ = 1;  // of the last batch
  UdpReceiveStats stats_;
  mutable UdpOverruns overruns_;  // a look at the buffer changes only what the next one compares
};

}  // namespace hawser::engine
