// SPDX-License-Identifier: Apache-2.0
#include "bench/engine_cost/passing_nic.hpp"

#include <algorithm>
#include <cstring>

#include "proto/base/assert.hpp"

namespace hawser::bench {

PassingNic::PassingNic(std::uint8_t number, proto::PacketPool& pool) : pool_(pool) {
  caps_.max_datagram_bytes = kDatagramBytes;
  caps_.burst = 1;
  caps_.needs_checksum = false;
  caps_.receive_bytes = std::uint64_t{kSlots} * kDatagramBytes;
  address_.bytes[0] = std::byte{static_cast<std::uint8_t>(proto::NicKind::memory)};
  address_.bytes[1] = std::byte{number};
  for (Ring& ring : rings_) ring.slots.resize(kSlots);
}

PassingNic::~PassingNic() {
  for (Ring& ring : rings_) {
    for (; ring.reaped != ring.end; ++ring.reaped) {
      pool_.give({&ring.slots[ring.reaped % kSlots].buffer, 1});
    }
  }
}

std::size_t PassingNic::tx_burst(std::span<const proto::TxPacket> packets) {
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const proto::TxPacket& packet = packets[i];
    Ring& ring = rings_[static_cast<std::size_t>(packet.queue)];
    if (ring.end - ring.reaped == kSlots) return i;
    if (packet.payload_bytes > 0 && packet.payload_bytes <= kCarried) {
      HAWSER_ASSERT(packet.header_bytes + packet.payload_bytes <= proto::PacketBuffer::kBytes);
      std::memcpy(packet.buffer->bytes + packet.header_bytes, packet.payload, packet.payload_bytes);
    }
    ring.slots[ring.end++ % kSlots] = {packet.buffer, packet.header_bytes + packet.payload_bytes,
                                       packet.cookie};
  }
  return packets.size();
}

std::size_t PassingNic::reap(std::span<std::uint64_t> cookies) {
  std::array<proto::PacketBuffer*, kMaxRxBurst> buffers;
  std::size_t given = 0;
  std::size_t count = 0;
  for (Ring& ring : rings_) {
    for (; ring.reaped != ring.begin && count < cookies.size(); ++ring.reaped) {
      const Sent& sent = ring.slots[ring.reaped % kSlots];
      buffers[given++] = sent.buffer;
      if (sent.cookie != proto::TxPacket::kNoCookie) cookies[count++] = sent.cookie;
      if (given < buffers.size()) continue;
      pool_.give(buffers);
      given = 0;
    }
  }
  pool_.give(std::span(buffers).first(given));
  return count;
}

std::size_t PassingNic::rx_burst(proto::Queue queue, std::span<proto::RxPacket> packets) {
  Ring& ring = other_->rings_[static_cast<std::size_t>(queue)];
  ring.begin = ring.seen;
  const std::size_t count =
      std::min({packets.size(), kMaxRxBurst, std::size_t{ring.end - ring.seen}});
  for (std::size_t i = 0; i < count; ++i) {
    const Sent& sent = ring.slots[ring.seen++ % kSlots];
    packets[i] = {.data = sent.buffer->bytes, .bytes = sent.bytes, .queue = queue};
  }
  return count;
}

}  // namespace hawser::bench
