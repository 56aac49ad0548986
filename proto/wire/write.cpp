// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "proto/wire/checksum.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto::wire {
namespace {

constexpr BlockHead head_of(BlockKind kind, std::size_t words) {
  return {kind, static_cast<std::uint8_t>(words)};
}

void assert_bitmap(std::span<const std::uint64_t> bitmap) {
  HAWSER_ASSERT(!bitmap.empty() && bitmap.size() <= kMaxBitmapWords);
}

}  // namespace

void PacketWriter::put_bitmap(std::span<const std::uint64_t> bitmap) {
  std::memcpy(end_, bitmap.data(), bitmap.size_bytes());
  end_ += bitmap.size_bytes();
}

bool PacketWriter::ack_info(std::uint32_t turn, std::uint16_t behind, std::uint32_t allowance_kib) {
  if (room() < sizeof(AckInfoBlock)) return false;
  put(AckInfoBlock{head_of(BlockKind::ack_info, 2), behind, turn, allowance_kib, 0});
  return true;
}

bool PacketWriter::path_ack(std::uint8_t slot, std::uint8_t generation, std::uint32_t largest,
                            std::uint32_t residence_ns, std::uint32_t ce_count,
                            std::span<const std::uint64_t> bitmap) {
  assert_bitmap(bitmap);
  HAWSER_ASSERT(slot < kMaxSlots && (bitmap[0] & 1) != 0);
  if (room() < sizeof(PathAckBlock) + bitmap.size_bytes()) return false;
  put(PathAckBlock{head_of(BlockKind::path_ack, 2 + bitmap.size()), slot, generation, largest,
                   residence_ns, ce_count});
  put_bitmap(bitmap);
  return true;
}

bool PacketWriter::path_marks(std::uint8_t slot, std::uint8_t generation, std::uint32_t largest,
                              std::uint64_t marks) {
  HAWSER_ASSERT(slot < kMaxSlots);
  if (room() < sizeof(PathMarksBlock)) return false;
  put(PathMarksBlock{head_of(BlockKind::path_marks, 2), slot, generation, largest, marks});
  return true;
}

bool PacketWriter::status(std::uint32_t message, MessageStatus status, std::uint16_t run) {
  HAWSER_ASSERT(run != 0 && run <= kMaxStatusRun);
  // Blocks only ever grow the headers, so the last entry is open while nothing was written after
  // it.
  const bool open =
      last_status_ != nullptr && static_cast<void*>(last_status_ + 1) == static_cast<void*>(end_);
  if (open && last_status_->status == status &&
      message == last_status_->message + last_status_->run &&
      run <= kMaxStatusRun - last_status_->run) {
    last_status_->run = static_cast<std::uint16_t>(last_status_->run + run);
    return true;
  }
  const StatusEntry entry{message, status, 0, run};
  if (!open || open_status_->count == kMaxStatusEntries) return statuses({&entry, 1}) == 1;
  if (room() < sizeof(StatusEntry)) return false;
  last_status_ = &put(entry);
  ++open_status_->count;
  ++open_status_->head.words;
  return true;
}

std::size_t PacketWriter::statuses(std::span<const StatusEntry> entries) {
  const std::size_t space = room() / kWordBytes;
  const std::size_t count =
      std::min({entries.size(), space == 0 ? 0 : space - 1, kMaxStatusEntries});
  if (count == 0) return 0;
  open_status_ = &put(
      StatusBlock{head_of(BlockKind::status, 1 + count), static_cast<std::uint16_t>(count), 0});
  for (const StatusEntry& entry : entries.first(count)) last_status_ = &put(entry);
  return count;
}

bool PacketWriter::request(std::uint32_t message, std::uint32_t base,
                           std::span<const std::uint64_t> bitmap) {
  assert_bitmap(bitmap);
  if (room() < sizeof(RequestBlock) + bitmap.size_bytes()) return false;
  put(RequestBlock{head_of(BlockKind::request, 2 + bitmap.size()), 0, message, base, 0});
  put_bitmap(bitmap);
  return true;
}

bool PacketWriter::grant(std::uint32_t message, std::uint32_t rx_slot, std::uint32_t rx_generation,
                         std::uint32_t from, std::uint32_t up_to) {
  if (room() < sizeof(GrantBlock)) return false;
  put(GrantBlock{head_of(BlockKind::grant, 3), 0, message, rx_slot, rx_generation, from, up_to});
  return true;
}

bool PacketWriter::nic_state(std::uint8_t nic, bool up, std::uint32_t sequence) {
  HAWSER_ASSERT(nic < kMaxNics);
  if (room() < sizeof(NicStateBlock)) return false;
  put(NicStateBlock{head_of(BlockKind::nic_state, 1), nic, static_cast<std::uint8_t>(up ? 1 : 0),
                    sequence});
  return true;
}

namespace detail {
std::uint32_t packet_checksum(std::span<const std::byte> headers,
                              std::span<const std::byte> payload) {
  return crc32c(payload, crc32c(headers));
}
}  // namespace detail

}  // namespace hawser::proto::wire
