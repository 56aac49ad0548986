// SPDX-License-Identifier: Apache-2.0
// The payload of a PACKED packet (docs/internals/protocol.md §4): several messages of one fragment
// each.
//
// The packet's own headers are those of the first message's DATA packet, and that message's bytes
// come first. An entry for each other message follows, with a fragment and an envelope of its own.
// All begin at multiples of 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "proto/wire/packet.hpp"

namespace hawser::proto::wire {

inline constexpr std::size_t kPackedEntryBytes = sizeof(FragmentPart) + sizeof(EnvelopePart);

[[nodiscard]] constexpr std::uint64_t whole_words(std::uint64_t bytes) {
  return (bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
}

// Goes through the messages of a PACKED packet that `parse` has accepted, as if each had come in a
// DATA packet of its own.
class PackedMessages {
 public:
  explicit PackedMessages(const PacketView& packet) : left_(packet.payload), view_(packet) {
    view_.type = PacketType::data;
    take();
  }
  // Valid until the next call of next, and no longer than the datagram.
  [[nodiscard]] const PacketView& message() const { return view_; }
  // False: message() was the last one.
  [[nodiscard]] bool next() {
    if (left_.size() < kPackedEntryBytes) return false;
    view_.fragment = detail::view<FragmentPart>(left_.data());
    view_.envelope = detail::view<EnvelopePart>(left_.data() + sizeof(FragmentPart));
    left_ = left_.subspan(kPackedEntryBytes);
    take();
    return true;
  }

 private:
  void take() {
    const auto bytes = static_cast<std::size_t>(view_.envelope->length());
    view_.payload = left_.first(bytes);
    left_ = left_.subspan(static_cast<std::size_t>(whole_words(bytes)));
  }

  std::span<const std::byte> left_;
  PacketView view_;
};

// Writes the payload of a PACKED packet into a packet's buffer, behind its headers.
class PackedRow {
 public:
  // Headers and row take at most `limit_bytes`, itself at most PacketBuffer::kBytes.
  PackedRow(PacketBuffer& buffer, std::size_t header_bytes, std::size_t limit_bytes)
      : begin_(buffer.bytes + header_bytes), end_(begin_), limit_(buffer.bytes + limit_bytes) {}

  // False: no room, and nothing was written.
  [[nodiscard]] bool add_first(std::span<const std::byte> bytes) {
    if (!has_room(whole_words(bytes.size()))) return false;
    append(bytes);
    return true;
  }
  [[nodiscard]] bool has_room_for(std::uint64_t message_bytes) const {
    return has_room(kPackedEntryBytes + whole_words(message_bytes));
  }
  // The caller has checked that there is room.
  void add(std::uint32_t message, const EnvelopePart& envelope, std::span<const std::byte> bytes) {
    HAWSER_ASSERT(has_room_for(bytes.size()));
    ::new (static_cast<void*>(end_)) FragmentPart{message, 0};
    ::new (static_cast<void*>(end_ + sizeof(FragmentPart))) EnvelopePart(envelope);
    end_ += kPackedEntryBytes;
    append(bytes);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {begin_, end_}; }

 private:
  [[nodiscard]] bool has_room(std::uint64_t bytes) const {
    return end_ <= limit_ && bytes <= static_cast<std::uint64_t>(limit_ - end_);
  }
  void append(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const std::size_t words = whole_words(bytes.size());
    std::memset(end_ + words - kWordBytes, 0, kWordBytes);
    std::memcpy(end_, bytes.data(), bytes.size());
    end_ += words;
  }

  std::byte* begin_;
  std::byte* end_;
  std::byte* limit_;
};

}  // namespace hawser::proto::wire
