// SPDX-License-Identifier: Apache-2.0
// The wire codec: bytes into views that point at them, and values into bytes.
//
// `parse` is the one function that turns a datagram into a PacketView or a DropReason, and
// detail::view is the one cast site of the code base. Parsing checks all that can be checked
// without state: lengths, types, queue, checksum, every block. The contents of a view are therefore
// inside the datagram, and enumerators are valid. The endpoint judges whether numbers make sense.
// Nothing here allocates, and nothing keeps a view beyond the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <type_traits>

#include "hawser/stats.hpp"
#include "proto/base/assert.hpp"
#include "proto/nic.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::proto::wire {

namespace detail {
// Bytes of a datagram as a struct of wire/layout.hpp. `bytes` is 8-byte aligned and has room for
// it.
template <class Struct>
[[nodiscard]] const Struct* view(const std::byte* bytes) {
  static_assert(std::is_trivially_copyable_v<Struct> && alignof(Struct) <= kWordBytes);
  return reinterpret_cast<const Struct*>(bytes);
}

// CRC32C of both together; the header's `checksum` is 0.
[[nodiscard]] std::uint32_t packet_checksum(std::span<const std::byte> headers,
                                            std::span<const std::byte> payload);
}  // namespace detail

// ---- reading ---------------------------------------------------------------------------------

// Bit i of bitmap word w: path number largest - 64w - i has arrived.
struct PathAckView {
  std::uint8_t slot = 0;
  std::uint8_t generation = 0;
  std::uint32_t largest = 0;
  std::uint32_t residence_ns = 0;
  std::uint32_t ce_count = 0;
  std::span<const std::uint64_t> bitmap;
};

struct StatusView {
  std::span<const StatusEntry> entries;
};

// Bit i of bitmap word w: fragment base + 64w + i is missing and awaited.
struct RequestView {
  std::uint32_t message = 0;
  std::uint32_t base = 0;
  std::span<const std::uint64_t> bitmap;
};

// The blocks of a packet that `parse` has accepted.
class BlockRange {
 public:
  BlockRange() = default;
  [[nodiscard]] bool empty() const { return begin_ == end_; }

  // Calls the visitor for each block, in order, with a const AckInfoBlock&, PathAckView,
  // StatusView, RequestView, const GrantBlock&, const NicStateBlock& or const PathMarksBlock&.
  // Skips kinds that the visitor takes no argument for, as it skips unknown kinds.
  template <class Visitor>
  void visit(Visitor&& visitor) const;

 private:
  friend std::optional<DropReason> parse(std::span<const std::byte>, Queue, bool,
                                         struct PacketView&);
  BlockRange(const std::byte* begin, const std::byte* end) : begin_(begin), end_(end) {}
  const std::byte* begin_ = nullptr;
  const std::byte* end_ = nullptr;
};

// A packet in place; valid as long as the datagram. Members that the type lacks are null or empty.
struct PacketView {
  const CommonHeader* header = nullptr;
  PacketType type{};
  const FragmentPart* fragment = nullptr;         // DATA, GRANTED, ENVELOPE, WRITE, READ, ATOMIC
  const EnvelopePart* envelope = nullptr;         // DATA, ENVELOPE
  const TargetPart* target = nullptr;             // WRITE, READ, ATOMIC
  const OperandsPart* operands = nullptr;         // ATOMIC
  const SignalPart* signal = nullptr;             // WRITE, if it has one
  const ReceiveSlotPart* receive_slot = nullptr;  // GRANTED
  const SessionPart* session = nullptr;           // HELLO, WELCOME
  std::span<const NicRecord> nics;                // HELLO, WELCOME
  const ClosingPart* closing = nullptr;           // CLOSE, CLOSED, RESET
  const ChallengePart* challenge = nullptr;       // CHALLENGE
  BlockRange blocks;
  std::span<const std::byte> payload;

  // The bytes in front of the payload.
  [[nodiscard]] std::span<const std::byte> headers() const {
    return {std::as_bytes(std::span(header, 1)).data(), header->hwords * kWordBytes};
  }
};

// Parses a datagram that came on `queue`. `datagram` is 8-byte aligned.
//   nullopt: `packet` is set. The caller checks `receiver`, `token` and a session packet's MAC
//   before it believes anything else.
//   else: why it must be dropped; `packet` is unspecified.
[[nodiscard]] std::optional<DropReason> parse(std::span<const std::byte> datagram, Queue queue,
                                              bool check_checksum, PacketView& packet);

// Adds payload that came apart to a packet that was parsed without it. False: such a packet has no
// payload, or has one already.
[[nodiscard]] bool attach(std::span<const std::byte> payload, PacketView& packet);

// The field `receiver` of an unparsed datagram, for hints. The datagram is at least as long as a
// common header.
[[nodiscard]] inline std::uint32_t receiver_of(const std::byte* datagram) {
  std::uint32_t receiver = 0;
  std::memcpy(&receiver, datagram + offsetof(CommonHeader, receiver), sizeof receiver);
  return receiver;
}

// ---- writing ---------------------------------------------------------------------------------

// Builds the headers of one packet in a buffer: begin, the type's parts in their order, blocks,
// finish. Writes only the bytes that it sends. The buffer stays the caller's.
class PacketWriter {
 public:
  // Blocks never grow the headers beyond `limit_bytes`, at most PacketBuffer::kBytes. The caller
  // makes sure that parts fit.
  explicit PacketWriter(PacketBuffer& buffer, std::size_t limit_bytes = PacketBuffer::kBytes)
      : begin_(buffer.bytes), end_(buffer.bytes), limit_(buffer.bytes + limit_bytes) {
    HAWSER_ASSERT(limit_bytes <= PacketBuffer::kBytes);
  }

  // Keeps the writer off so many more bytes at the buffer's end.
  void leave_free(std::size_t bytes) {
    HAWSER_ASSERT(bytes <= static_cast<std::size_t>(limit_ - end_));
    limit_ -= bytes;
  }

  // Writes the common header. Other fields are 0 and may be set through the reference.
  CommonHeader& begin(PacketType type, std::uint32_t receiver, std::uint64_t token,
                      std::uint32_t floor) {
    end_ = begin_;
    last_status_ = nullptr;
    header_ = &put(CommonHeader{.version = kVersion,
                                .type = type,
                                .slot = 0,
                                .generation = 0,
                                .receiver = receiver,
                                .token = token,
                                .checksum = 0,
                                .hwords = 0,
                                .flags = 0,
                                .path_back = 0,
                                .path_number = 0,
                                .floor = floor});
    return *header_;
  }

  // Appends a part. The reference is valid as long as the buffer.
  FragmentPart& part(const FragmentPart& part) { return put(part); }
  EnvelopePart& part(const EnvelopePart& part) { return put(part); }
  ReceiveSlotPart& part(const ReceiveSlotPart& part) { return put(part); }
  TargetPart& part(const TargetPart& part) { return put(part); }
  OperandsPart& part(const OperandsPart& part) { return put(part); }
  SignalPart& part(const SignalPart& part) { return put(part); }
  SessionPart& part(const SessionPart& part) { return put(part); }
  NicRecord& part(const NicRecord& part) { return put(part); }
  ClosingPart& part(const ClosingPart& part) { return put(part); }
  ChallengePart& part(const ChallengePart& part) { return put(part); }

  // Blocks. False (or fewer): the block does not fit below the limit, and none of it was written.
  // Bitmaps have 1 to kMaxBitmapWords words.
  [[nodiscard]] bool ack_info(std::uint32_t turn, std::uint16_t behind,
                              std::uint32_t allowance_kib);
  [[nodiscard]] bool path_ack(std::uint8_t slot, std::uint8_t generation, std::uint32_t largest,
                              std::uint32_t residence_ns, std::uint32_t ce_count,
                              std::span<const std::uint64_t> bitmap);
  [[nodiscard]] bool path_marks(std::uint8_t slot, std::uint8_t generation, std::uint32_t largest,
                                std::uint64_t marks);
  // Adds one entry to the last block if that is a STATUS block, else to a new one. An entry that
  // continues the previous one's run, with the same status, only lengthens that run.
  [[nodiscard]] bool status(std::uint32_t message, MessageStatus status, std::uint16_t run = 1);
  // Writes one STATUS block of the entries as they are; returns how many of them fitted.
  [[nodiscard]] std::size_t statuses(std::span<const StatusEntry> entries);
  [[nodiscard]] bool request(std::uint32_t message, std::uint32_t base,
                             std::span<const std::uint64_t> bitmap);
  [[nodiscard]] bool grant(std::uint32_t message, std::uint32_t rx_slot,
                           std::uint32_t rx_generation, std::uint32_t from, std::uint32_t up_to);
  [[nodiscard]] bool nic_state(std::uint8_t nic, bool up, std::uint32_t sequence);

  // Sets hwords and, with `with_checksum`, the CRC32C over the headers and `payload` (which is not
  // copied); else the checksum is 0. Returns header_bytes(). May be called again after a change.
  std::uint32_t finish(bool with_checksum, std::span<const std::byte> payload = {}) {
    header_->checksum = 0;
    const std::span<const std::byte> headers = seal();
    if (with_checksum) header_->checksum = detail::packet_checksum(headers, payload);
    return header_bytes();
  }

  [[nodiscard]] CommonHeader& header() { return *header_; }
  [[nodiscard]] std::uint32_t header_bytes() const {
    return static_cast<std::uint32_t>(end_ - begin_);
  }
  // Bytes that blocks may still take.
  [[nodiscard]] std::size_t room() const {
    return end_ < limit_ ? static_cast<std::size_t>(limit_ - end_) : 0;
  }
  // The headers so far, with hwords set: the MAC is computed over them and written into them.
  [[nodiscard]] std::span<std::byte> seal() {
    header_->hwords = static_cast<std::uint8_t>(header_bytes() / kWordBytes);
    return {begin_, header_bytes()};
  }

 private:
  template <class Struct>
  Struct& put(const Struct& value) {
    static_assert(sizeof(Struct) % kWordBytes == 0);
    HAWSER_ASSERT(header_bytes() + sizeof(Struct) <= PacketBuffer::kBytes);
    Struct* at = ::new (static_cast<void*>(end_)) Struct(value);
    end_ += sizeof(Struct);
    return *at;
  }
  void put_bitmap(std::span<const std::uint64_t> bitmap);

  std::byte* begin_;
  std::byte* end_;
  std::byte* limit_;
  CommonHeader* header_ = nullptr;
  StatusBlock* open_status_ = nullptr;  // meaningful while last_status_ is the end of the headers
  StatusEntry* last_status_ = nullptr;
};

// ---- details ---------------------------------------------------------------------------------

template <class Visitor>
void BlockRange::visit(Visitor&& visitor) const {
  const auto call = [&visitor](const auto& block) {
    if constexpr (std::is_invocable_v<Visitor&, decltype(block)>) visitor(block);
  };
  for (const std::byte* at = begin_; at != end_;) {
    const BlockHead head = *detail::view<BlockHead>(at);
    const auto bitmap = [&] {
      return std::span(detail::view<std::uint64_t>(at + 2 * kWordBytes), head.words - 2u);
    };
    switch (head.kind) {
      case BlockKind::ack_info: call(*detail::view<AckInfoBlock>(at)); break;
      case BlockKind::path_ack: {
        const auto& b = *detail::view<PathAckBlock>(at);
        call(PathAckView{b.slot, b.generation, b.largest, b.residence_ns, b.ce_count, bitmap()});
        break;
      }
      case BlockKind::status:
        call(StatusView{{detail::view<StatusEntry>(at + kWordBytes), head.words - 1u}});
        break;
      case BlockKind::request: {
        const auto& b = *detail::view<RequestBlock>(at);
        call(RequestView{b.message, b.base, bitmap()});
        break;
      }
      case BlockKind::grant: call(*detail::view<GrantBlock>(at)); break;
      case BlockKind::nic_state: call(*detail::view<NicStateBlock>(at)); break;
      case BlockKind::path_marks: call(*detail::view<PathMarksBlock>(at)); break;
    }
    at += head.words * kWordBytes;
  }
}

}  // namespace hawser::proto::wire
