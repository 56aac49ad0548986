// SPDX-License-Identifier: Apache-2.0
// Packets in flight, without their payload. All that a fabric and its ends must know of a packet
// fits in one cache line. Beside it is room for the bytes of its headers, for users that carry
// them. Headers longer than that room are rare, and lie in blocks of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "proto/base/assert.hpp"
#include "sim/fabric/instant.hpp"

namespace hawser::fabric {

using PacketId = std::uint32_t;
inline constexpr PacketId kNoPacket = 0xffffffffu;
inline constexpr std::size_t kLongestHeader = 1024;

struct alignas(64) Packet {
  // ---- the sender's
  Instant sent;            // for the sender to use
  std::uint32_t from = 0;  // ports
  std::uint32_t to = 0;
  std::uint32_t wire_bytes = 0;  // all of it, payload too: what cables carry
  std::uint32_t flow = 0;        // for the sender to use, as are the next two
  std::uint32_t number = 0;
  std::uint16_t entropy = 0;       // what ECMP hashes on, besides the ports
  std::uint16_t header_bytes = 0;  // PacketStore::set_header sets it
  bool urgent = false;             // before all packets that aren't, in queues
  bool takes_marks = true;         // ECN-capable; other packets are never marked
  // ---- what happened to it on the way
  bool marked = false;   // congestion experienced
  bool trimmed = false;  // the payload is gone; wire_bytes is the rest
  // ---- the network's
  std::uint32_t next = kNoPacket;  // the packet behind it in the same link, or the next free one
  Instant arrival;                 // at the link's far end, once it is on its way
  std::uint32_t hash = 0;
  std::uint32_t leaf = 0;  // of `to`
  std::uint16_t pod = 0;
  std::uint16_t place = 0;  // at the leaf
};
static_assert(sizeof(Packet) == 64);

// Ids stay below the most packets ever taken at once. Packets stay where they are.
class PacketStore {
 public:
  // `header_room`: bytes of headers that lie beside each packet; 0 if none carries any, else a
  // multiple of 8.
  explicit PacketStore(std::size_t header_room) : header_room_(header_room) {
    HAWSER_ASSERT(header_room % 8 == 0 && header_room <= kLongestHeader);
  }

  // Returns a packet in its initial state.
  [[nodiscard]] PacketId take() {
    ++out_;
    if (free_ == kNoPacket) grow();
    const PacketId id = free_;
    Packet& packet = at(id);
    free_ = packet.next;
    packet = Packet{};
    return id;
  }
  void give(PacketId id) {
    --out_;
    Packet& packet = at(id);
    if (packet.header_bytes > header_room_) free_blocks_.push_back(block_of(id));
    packet.next = free_;
    free_ = id;
  }
  [[nodiscard]] Packet& at(PacketId id) { return chunks_[id >> kChunkBits][id & (kChunk - 1)]; }
  [[nodiscard]] const Packet& at(PacketId id) const {
    return chunks_[id >> kChunkBits][id & (kChunk - 1)];
  }
  // Copies the bytes. At most kLongestHeader, and once for each packet.
  void set_header(PacketId id, std::span<const std::byte> bytes) {
    Packet& packet = at(id);
    HAWSER_ASSERT(packet.header_bytes == 0 && header_room_ > 0 && bytes.size() <= kLongestHeader);
    std::byte* to = beside(id);
    if (bytes.size() > header_room_) {
      const std::uint32_t block = take_block();
      std::memcpy(to, &block, sizeof block);
      to = blocks_[block]->bytes;
    }
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    packet.header_bytes = static_cast<std::uint16_t>(bytes.size());
  }
  [[nodiscard]] std::span<const std::byte> header(PacketId id) const {
    const std::size_t bytes = at(id).header_bytes;
    return {bytes > header_room_ ? blocks_[block_of(id)]->bytes : beside(id), bytes};
  }
  [[nodiscard]] std::size_t header_room() const { return header_room_; }
  [[nodiscard]] std::uint64_t out() const { return out_; }
  // The most packets taken at once, rounded up to whole chunks of memory; and the number of blocks
  // for long headers.
  [[nodiscard]] std::size_t made() const { return chunks_.size() * kChunk; }
  [[nodiscard]] std::size_t blocks_made() const { return blocks_.size(); }

 private:
  static constexpr unsigned kChunkBits = 12;
  static constexpr std::size_t kChunk = std::size_t{1} << kChunkBits;

  struct Block {
    std::byte bytes[kLongestHeader];
  };

  [[nodiscard]] std::byte* beside(PacketId id) const {
    return headers_[id >> kChunkBits].get() + (id & (kChunk - 1)) * header_room_;
  }
  // The block of a long header: its number lies in the room for short ones.
  [[nodiscard]] std::uint32_t block_of(PacketId id) const {
    std::uint32_t block = 0;
    std::memcpy(&block, beside(id), sizeof block);
    return block;
  }
  [[nodiscard]] std::uint32_t take_block() {
    if (free_blocks_.empty()) {
      blocks_.push_back(std::make_unique_for_overwrite<Block>());
      return static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    const std::uint32_t block = free_blocks_.back();
    free_blocks_.pop_back();
    return block;
  }
  void grow() {
    const std::size_t first = made();
    HAWSER_ASSERT(first + kChunk < kNoPacket, "more packets than have names");
    chunks_.push_back(std::make_unique<Packet[]>(kChunk));
    headers_.push_back(std::make_unique_for_overwrite<std::byte[]>(kChunk * header_room_));
    for (std::size_t i = kChunk; i-- > 0;) {
      chunks_.back()[i].next = free_;
      free_ = static_cast<PacketId>(first + i);
    }
  }

  std::vector<std::unique_ptr<Packet[]>> chunks_;
  std::vector<std::unique_ptr<std::byte[]>> headers_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::uint32_t> free_blocks_;
  std::size_t header_room_;
  PacketId free_ = kNoPacket;
  std::uint64_t out_ = 0;
};

}  // namespace hawser::fabric
