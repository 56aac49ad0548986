// Packets under way, without their payload: what a fabric and its ends must know of one, in one
// cache line, and beside it room for the bytes of its headers where somebody wants to carry them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proto/assert.hpp"
#include "sim/fabric/instant.hpp"

namespace hawser::fabric {

using PacketId = std::uint32_t;
inline constexpr PacketId kNoPacket = 0xffffffffu;

struct alignas(64) Packet {
  // ---- the sender's
  Instant sent;            // for it to use
  std::uint32_t from = 0;  // ports
  std::uint32_t to = 0;
  std::uint32_t wire_bytes = 0;  // all of it, payload too: what cables carry
  std::uint32_t flow = 0;        // for it to use, as are the next two
  std::uint32_t number = 0;
  std::uint16_t entropy = 0;       // what ECMP hashes on, besides the ports
  std::uint16_t header_bytes = 0;  // of those in PacketStore::header
  bool urgent = false;             // in queues before all that isn't
  bool takes_marks = true;         // ECN-capable; what isn't is never marked
  // ---- what became of it
  bool marked = false;   // congestion experienced
  bool trimmed = false;  // the payload is gone; wire_bytes is what is left
  // ---- the network's
  std::uint32_t next = kNoPacket;  // of the same link, behind it; or the next free one
  Instant arrival;                 // at the link's far end, once it is on its way
  std::uint32_t hash = 0;
  std::uint32_t leaf = 0;  // of `to`
  std::uint16_t pod = 0;
  std::uint16_t place = 0;  // at the leaf
};
static_assert(sizeof(Packet) == 64);

// Ids stay below the most that were ever out at once. Packets stay where they are.
class PacketStore {
 public:
  // `header_room`: bytes of headers that a packet can carry.
  explicit PacketStore(std::size_t header_room) : header_room_(header_room) {}

  // As new.
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
    at(id).next = free_;
    free_ = id;
  }
  [[nodiscard]] Packet& at(PacketId id) { return chunks_[id >> kChunkBits][id & (kChunk - 1)]; }
  [[nodiscard]] const Packet& at(PacketId id) const {
    return chunks_[id >> kChunkBits][id & (kChunk - 1)];
  }
  // header_room bytes.
  [[nodiscard]] std::byte* header(PacketId id) {
    return headers_[id >> kChunkBits].get() + (id & (kChunk - 1)) * header_room_;
  }
  [[nodiscard]] std::size_t header_room() const { return header_room_; }
  [[nodiscard]] std::uint64_t out() const { return out_; }
  // The most that were out at once, rounded up to what was taken from the heap for them.
  [[nodiscard]] std::size_t made() const { return chunks_.size() * kChunk; }

 private:
  static constexpr unsigned kChunkBits = 12;
  static constexpr std::size_t kChunk = std::size_t{1} << kChunkBits;

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
  std::size_t header_room_;
  PacketId free_ = kNoPacket;
  std::uint64_t out_ = 0;
};

}  // namespace hawser::fabric
