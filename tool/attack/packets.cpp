// SPDX-License-Identifier: Apache-2.0
#include "tool/attack/packets.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "proto/wire/checksum.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::tool {
namespace {

namespace wire = proto::wire;
using wire::CommonHeader;
using wire::PacketType;

constexpr std::size_t kChecksumAt = offsetof(CommonHeader, checksum);
constexpr std::size_t kNoiseBytes = 9000;
constexpr std::array kTypes{PacketType::hello,   PacketType::welcome,   PacketType::close,
                            PacketType::closed,  PacketType::reset,     PacketType::data,
                            PacketType::granted, PacketType::probe,     PacketType::envelope,
                            PacketType::packed,  PacketType::challenge, PacketType::write,
                            PacketType::read,    PacketType::atomic,    PacketType::control};

std::uint32_t checksum_of(std::span<const std::byte> packet) {
  constexpr std::array<std::byte, sizeof(CommonHeader::checksum)> kZero{};
  std::uint32_t sum = proto::crc32c(packet.first(kChecksumAt));
  sum = proto::crc32c(kZero, sum);
  return proto::crc32c(packet.subspan(kChecksumAt + kZero.size()), sum);
}

bool checksum_is_right(std::span<const std::byte> packet) {
  if (packet.size() < sizeof(CommonHeader)) return false;
  std::uint32_t found = 0;
  std::memcpy(&found, packet.data() + kChecksumAt, sizeof found);
  return found == checksum_of(packet);
}

// The part of the given kind in a packet.
template <class Part>
Part part_at(std::span<const std::byte> packet, std::size_t at) {
  Part part;
  std::memcpy(&part, packet.data() + at, sizeof part);
  return part;
}
template <class Part>
void put_part(std::span<std::byte> packet, std::size_t at, const Part& part) {
  std::memcpy(packet.data() + at, &part, sizeof part);
}

}  // namespace

void put_checksum_right(std::span<std::byte> packet) {
  if (packet.size() < sizeof(CommonHeader)) return;
  const std::uint32_t sum = checksum_of(packet);
  std::memcpy(packet.data() + kChecksumAt, &sum, sizeof sum);
}

std::size_t first_packet(std::span<const std::byte> sent, std::uint64_t fragment_bytes) {
  // Only full packets are sent together: those with an envelope, and granted ones.
  constexpr std::size_t kFragment = sizeof(CommonHeader) + sizeof(wire::FragmentPart);
  for (const std::size_t bytes :
       {sent.size(),
        static_cast<std::size_t>(kFragment + sizeof(wire::EnvelopePart) + fragment_bytes),
        static_cast<std::size_t>(kFragment + sizeof(wire::ReceiveSlotPart) + fragment_bytes)}) {
    if (bytes <= sent.size() && checksum_is_right(sent.first(bytes))) return bytes;
  }
  return 0;
}

void PacketForge::fill(std::span<std::byte> bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::uint64_t word = dice_();
    const std::size_t count = std::min(sizeof word, bytes.size() - at);
    std::memcpy(bytes.data() + at, &word, count);
    at += count;
  }
}

void PacketForge::make_one_sided(std::span<std::byte> packet, wire::PacketType type) {
  constexpr std::size_t kFragmentAt = sizeof(CommonHeader);
  constexpr std::size_t kTargetAt = kFragmentAt + sizeof(wire::FragmentPart);
  constexpr std::size_t kOperandsAt = kTargetAt + sizeof(wire::TargetPart);
  constexpr auto kOperations = static_cast<std::uint64_t>(AtomicOperation::max_unsigned) + 1;
  auto fragment = part_at<wire::FragmentPart>(packet, kFragmentAt);
  auto target = part_at<wire::TargetPart>(packet, kTargetAt);
  // The secret of a key stays random: a stranger can't know it.
  target.region = static_cast<std::uint32_t>(below(8));
  target.offset = below(4096);
  target.set_length(below(8192));
  switch (type) {
    case PacketType::write:
      target.flags = below(2) == 0 ? wire::kTargetNotifies : wire::kTargetReply;
      break;
    case PacketType::read:
      fragment.fragment = 0;
      target.flags = 0;
      break;
    default: {
      auto operands = part_at<wire::OperandsPart>(packet, kOperandsAt);
      operands.operation = static_cast<AtomicOperation>(below(kOperations));
      operands.width = below(2) == 0 ? 4 : 8;
      target.set_length(operands.width);
      target.flags = below(2) == 0 ? 0 : wire::kTargetFetches;
      fragment.fragment = 0;
      put_part(packet, kOperandsAt, operands);
      break;
    }
  }
  put_part(packet, kFragmentAt, fragment);
  put_part(packet, kTargetAt, target);
}

std::size_t PacketForge::well_formed(std::span<std::byte> room) {
  const PacketType type = kTypes[below(kTypes.size())];
  const bool is_one_sided =
      type == PacketType::write || type == PacketType::read || type == PacketType::atomic;
  const std::size_t own_words =
      is_one_sided ? wire::rule_of(type).own_words : sizeof(CommonHeader) / wire::kWordBytes;
  // Half of the one-sided packets have no blocks, so that nothing is wrong with their headers.
  const std::size_t words = own_words + (is_one_sided && below(2) == 0 ? 0 : below(24));
  const std::size_t bytes = words * wire::kWordBytes + (below(2) == 0 ? 0 : below(4097));
  fill(room.first(bytes));
  if (is_one_sided) make_one_sided(room.first(bytes), type);
  CommonHeader header;
  std::memcpy(&header, room.data(), sizeof header);
  header.version = wire::kVersion;
  header.type = type;
  header.hwords = static_cast<std::uint8_t>(words);
  if (below(2) == 0) header.path_back %= wire::kMaxPathBack + 1;
  // Peers have small indices; a stranger can't know their tokens.
  header.receiver =
      header.type == PacketType::hello ? wire::kNoReceiver : static_cast<std::uint32_t>(below(16));
  if (header.type == PacketType::hello) header.token = 0;
  std::memcpy(room.data(), &header, sizeof header);
  put_checksum_right(room.first(bytes));
  return bytes;
}

std::size_t PacketForge::garbage(std::span<std::byte> room) {
  if (below(2) == 0) return well_formed(room);
  const std::size_t bytes = 1 + below(kNoiseBytes);
  fill(room.first(bytes));
  return bytes;
}

std::size_t PacketForge::truncated(std::span<std::byte> room) {
  const std::size_t bytes = below(well_formed(room));
  if (below(2) == 0) put_checksum_right(room.first(bytes));
  return bytes;
}

void PacketForge::forge(std::span<std::byte> packet) {
  const std::size_t head = std::min<std::size_t>(packet.size(), 160);
  for (std::uint64_t changes = 1 + below(4); changes > 0; --changes) {
    // Mostly headers and blocks, since they carry the meaning; token and receiver are among them.
    const std::size_t at = below(4) == 0 ? below(packet.size()) : below(head);
    packet[at] ^= static_cast<std::byte>(1 + below(255));
  }
  put_checksum_right(packet);
}

}  // namespace hawser::tool
