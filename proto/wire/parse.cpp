// SPDX-License-Identifier: Apache-2.0
// `parse` validates a datagram as far as that needs no state, and makes a view of its headers. It
// checks version, type, queue, lengths, checksum, the fields of each header, and every block. The
// first check that fails names the DropReason.
//
// layout.hpp defines the headers, and its tables name the lengths of each type and block. A block
// of an unknown kind is skipped by its length. Invariant: nothing beyond the datagram is read.
#include "hawser/stats.hpp"
#include "proto/wire/checksum.hpp"
#include "proto/wire/packed.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto::wire {
namespace {

using Verdict = std::optional<DropReason>;

constexpr std::size_t kPartsAt = sizeof(CommonHeader);
constexpr std::size_t kEnvelopeAt = kPartsAt + sizeof(FragmentPart);
constexpr std::size_t kNicsAt = kPartsAt + sizeof(SessionPart);
constexpr std::size_t kOperandsAt = kEnvelopeAt + sizeof(TargetPart);

bool checksum_agrees(const CommonHeader& header, std::span<const std::byte> datagram) {
  CommonHeader blank = header;
  blank.checksum = 0;
  const std::uint32_t start = crc32c(std::as_bytes(std::span(&blank, 1)));
  return crc32c(datagram.subspan(sizeof(CommonHeader)), start) == header.checksum;
}

Verdict check_status(const std::byte* at, std::size_t words) {
  if (detail::view<StatusBlock>(at)->count != words - 1) return DropReason::bad_field;
  const std::span entries(detail::view<StatusEntry>(at + sizeof(StatusBlock)), words - 1);
  for (const StatusEntry& entry : entries) {
    if (entry.status < MessageStatus::accepted || entry.status > MessageStatus::unsupported ||
        entry.run == 0 || entry.run > kMaxStatusRun) {
      return DropReason::bad_field;
    }
  }
  return std::nullopt;
}

// Checks the fields of one block whose length is right for its kind.
Verdict check_block(const std::byte* at, BlockHead head) {
  switch (head.kind) {
    case BlockKind::path_ack: {
      const bool reaches_itself =
          (*detail::view<std::uint64_t>(at + sizeof(PathAckBlock)) & 1) != 0;
      if (detail::view<PathAckBlock>(at)->slot >= kMaxSlots || !reaches_itself) break;
      return std::nullopt;
    }
    case BlockKind::path_marks:
      if (detail::view<PathMarksBlock>(at)->slot >= kMaxSlots) break;
      return std::nullopt;
    case BlockKind::status: return check_status(at, head.words);
    case BlockKind::nic_state: {
      const auto& block = *detail::view<NicStateBlock>(at);
      if (block.nic >= kMaxNics || block.state > 1) break;
      return std::nullopt;
    }
    default: return std::nullopt;
  }
  return DropReason::bad_field;
}

Verdict check_blocks(const std::byte* at, const std::byte* end) {
  while (at != end) {
    const BlockHead head = *detail::view<BlockHead>(at);
    if (head.words * kWordBytes > static_cast<std::size_t>(end - at)) return DropReason::too_short;
    const BlockRule& rule = rule_of(head.kind);  // min_words is at least 1: this ends
    if (head.words < rule.min_words || head.words > rule.max_words) return DropReason::bad_field;
    if (const Verdict bad = check_block(at, head)) return bad;
    at += head.words * kWordBytes;
  }
  return std::nullopt;
}

// One assignment per field: assigning a whole PacketView{} costs a `rep stos`, more than all the
// rest.
void begin_view(const CommonHeader& header, std::span<const std::byte> payload,
                PacketView& packet) {
  packet.header = &header;
  packet.type = header.type;
  packet.fragment = nullptr;
  packet.envelope = nullptr;
  packet.receive_slot = nullptr;
  packet.target = nullptr;
  packet.operands = nullptr;
  packet.signal = nullptr;
  packet.session = nullptr;
  packet.nics = {};
  packet.closing = nullptr;
  packet.challenge = nullptr;
  packet.blocks = {};
  packet.payload = payload;
}

Verdict parse_session(const std::byte* bytes, PacketView& packet) {
  const auto& session = *detail::view<SessionPart>(bytes + kPartsAt);
  if (session.nics == 0 || session.nics > kMaxNics || session.fragment_bytes < kMinFragmentBytes ||
      packet.header->hwords * kWordBytes != kNicsAt + session.nics * sizeof(NicRecord)) {
    return DropReason::bad_field;
  }
  packet.session = &session;
  packet.nics = {detail::view<NicRecord>(bytes + kNicsAt), session.nics};
  for (const NicRecord& nic : packet.nics) {
    if (nic.index >= kMaxNics || nic.state > 1) return DropReason::bad_field;
  }
  return std::nullopt;
}

// Checks for several messages, each whole, and nothing behind them.
Verdict check_packed(const PacketView& packet) {
  std::span<const std::byte> left = packet.payload;
  const FragmentPart* fragment = packet.fragment;
  const EnvelopePart* envelope = packet.envelope;
  for (std::size_t messages = 1;; ++messages) {
    const std::uint64_t words = whole_words(envelope->length());
    if (fragment->fragment != 0 || envelope->kind != EnvelopeKind::message || words > left.size()) {
      return DropReason::bad_field;
    }
    left = left.subspan(static_cast<std::size_t>(words));
    if (left.empty() && messages > 1) return std::nullopt;
    if (left.size() < kPackedEntryBytes) return DropReason::bad_field;
    fragment = detail::view<FragmentPart>(left.data());
    envelope = detail::view<EnvelopePart>(left.data() + sizeof(FragmentPart));
    left = left.subspan(kPackedEntryBytes);
  }
}

bool is_word(std::uint8_t width) { return width == 4 || width == 8; }

// One flag may exclude another, and some need a header or none.
Verdict parse_write(const std::byte* bytes, PacketView& packet) {
  const std::uint8_t flags = packet.target->flags;
  const bool is_reply = (flags & kTargetReply) != 0;
  const bool is_withdrawn = (flags & kTargetWithdrawn) != 0;
  constexpr std::uint8_t kToRegion = kTargetNotifies | kTargetSignals;
  if ((flags & ~(kTargetReply | kTargetWithdrawn | kToRegion)) != 0 ||
      (is_reply && (flags & kToRegion) != 0) || (is_withdrawn && !is_reply)) {
    return DropReason::bad_field;
  }
  if ((flags & kTargetSignals) == 0) return std::nullopt;
  if (packet.header->hwords * kWordBytes < kOperandsAt + sizeof(SignalPart))
    return DropReason::bad_field;
  packet.signal = detail::view<SignalPart>(bytes + kOperandsAt);
  const bool does = packet.signal->operation == AtomicOperation::add ||
                    packet.signal->operation == AtomicOperation::store;
  return does && is_word(packet.signal->width) ? std::nullopt : Verdict(DropReason::bad_field);
}

Verdict parse_one_sided(const std::byte* bytes, PacketView& packet) {
  packet.fragment = detail::view<FragmentPart>(bytes + kPartsAt);
  packet.target = detail::view<TargetPart>(bytes + kEnvelopeAt);
  if (packet.type == PacketType::write) return parse_write(bytes, packet);
  if (packet.fragment->fragment != 0) return DropReason::bad_field;
  if (packet.type == PacketType::read)
    return packet.target->flags == 0 ? std::nullopt : Verdict(DropReason::bad_field);
  packet.operands = detail::view<OperandsPart>(bytes + kOperandsAt);
  const bool good = (packet.target->flags & ~kTargetFetches) == 0 &&
                    packet.operands->operation <= AtomicOperation::max_unsigned &&
                    is_word(packet.operands->width) &&
                    packet.target->length() == packet.operands->width;
  return good ? std::nullopt : Verdict(DropReason::bad_field);
}

// Parses the parts that follow the common header; all of own_words is there.
Verdict parse_parts(const std::byte* bytes, PacketView& packet) {
  switch (packet.type) {
    case PacketType::data:
    case PacketType::packed:
    case PacketType::envelope:
      packet.fragment = detail::view<FragmentPart>(bytes + kPartsAt);
      packet.envelope = detail::view<EnvelopePart>(bytes + kEnvelopeAt);
      if (packet.envelope->kind != EnvelopeKind::message &&
          (packet.envelope->kind != EnvelopeKind::cancel || packet.type != PacketType::envelope)) {
        return DropReason::bad_field;
      }
      return packet.type == PacketType::packed ? check_packed(packet) : std::nullopt;
    case PacketType::granted:
      packet.fragment = detail::view<FragmentPart>(bytes + kPartsAt);
      packet.receive_slot = detail::view<ReceiveSlotPart>(bytes + kEnvelopeAt);
      return std::nullopt;
    case PacketType::write:
    case PacketType::read:
    case PacketType::atomic: return parse_one_sided(bytes, packet);
    case PacketType::hello:
    case PacketType::welcome: return parse_session(bytes, packet);
    case PacketType::close:
    case PacketType::closed:
    case PacketType::reset: packet.closing = detail::view<ClosingPart>(bytes + kPartsAt); break;
    case PacketType::challenge:
      packet.challenge = detail::view<ChallengePart>(bytes + kPartsAt);
      break;
    case PacketType::probe:
    case PacketType::control: break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<DropReason> parse(std::span<const std::byte> datagram, Queue queue,
                                bool check_checksum, PacketView& packet) {
  if (datagram.size() < sizeof(CommonHeader)) return DropReason::too_short;
  const std::byte* bytes = datagram.data();
  const auto& header = *detail::view<CommonHeader>(bytes);
  if (header.version != kVersion) return DropReason::bad_version;
  const PacketRule& rule = rule_of(header.type);
  if (rule.own_words == 0 || rule.queue != queue) return DropReason::bad_type;
  const std::size_t header_bytes = header.hwords * kWordBytes;
  if (header_bytes > datagram.size()) return DropReason::too_short;
  if (header.hwords < rule.own_words) return DropReason::bad_field;
  if (check_checksum && !checksum_agrees(header, datagram)) return DropReason::bad_checksum;

  if ((rule.sequenced && header.path_back > kMaxPathBack) ||
      (!rule.payload && header_bytes != datagram.size())) {
    return DropReason::bad_field;
  }
  begin_view(header, datagram.subspan(header_bytes), packet);
  if (const Verdict bad = parse_parts(bytes, packet)) return bad;
  if (header.hwords == rule.own_words || packet.session != nullptr) return std::nullopt;

  if (!rule.blocks) return DropReason::bad_field;
  const std::byte* begin = bytes + rule.own_words * kWordBytes;
  if (packet.signal != nullptr) begin += sizeof(SignalPart);
  const std::byte* end = bytes + header_bytes;
  if (const Verdict bad = check_blocks(begin, end)) return bad;
  packet.blocks = BlockRange(begin, end);
  return std::nullopt;
}

bool attach(std::span<const std::byte> payload, PacketView& packet) {
  if (!packet.payload.empty() || !rule_of(packet.type).payload) return false;
  packet.payload = payload;
  return true;
}

}  // namespace hawser::proto::wire
