// SPDX-License-Identifier: Apache-2.0
// Counts the messages that a socket lost because its receive buffer was full.
//
// The kernel counts all drops at a socket together, also those with a wrong checksum. Peers must
// send less after an overrun, so damaged or forged datagrams must not count as one. A rise counts
// only if the buffer can have been full since the last look. The receiver drains all that fills a
// buffer before it finds the buffer empty again. The buffer can thus have been full only if the
// receiver drained that much in a row, or if most of it is still queued.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/driver/udp/udp_socket.hpp"

namespace hawser::engine {

class UdpOverruns {
 public:
  // The receiver took a message of so many datagrams, the longest of this length.
  void on_message(std::size_t datagrams, std::uint32_t bytes) {
    drained_ += datagrams * most_memory_of(bytes);
  }
  // The receiver found the buffer empty.
  void on_empty() {
    most_drained_ = std::max(most_drained_, drained_);
    drained_ = 0;
  }
  // Looks at the buffer. Returns all overruns so far. A coalesced message counts once.
  std::uint64_t count(const ReceiveBuffer& buffer);

 private:
  // An upper bound of the memory that the kernel charges for a datagram: its own struct, one page
  // for the head, and up to twice the bytes.
  static std::uint64_t most_memory_of(std::uint32_t bytes) {
    constexpr std::uint64_t kPacketStruct = 256;
    return kPacketStruct + kPage + std::uint64_t{2} * bytes;
  }
  static const std::uint64_t kPage;

  std::uint64_t drained_ = 0;       // memory since the buffer was last empty
  std::uint64_t most_drained_ = 0;  // the largest such figure since the last look
  std::uint32_t drops_ = 0;         // at the last look
  std::uint64_t overruns_ = 0;
};

}  // namespace hawser::engine
