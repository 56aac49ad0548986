// SPDX-License-Identifier: Apache-2.0
// This file defines the headers and blocks of packets: structs, constants, and the tables of packet
// types and blocks. `parse` (parse.cpp) validates all that needs no state. receive_packet
// (endpoint/receiver.cpp) then checks the token. The function that applies a header or block checks
// its MAC, if it has one, and its numbers against the session.
//
// The specification is docs/internals/protocol.md. §3 and §4 draw the headers, §5 the blocks, §6
// the session headers. It gives the reason for every field. The structs here are those drawings,
// and every offset is asserted. §14 there is the checklist for a new type or block.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "hawser/one_sided.hpp"
#include "proto/nic.hpp"
#include "proto/wire/size_class.hpp"

namespace hawser::proto::wire {

static_assert(std::endian::native == std::endian::little,
              "headers are read and written in place; a big-endian host needs a swapping codec");

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kWordBytes = 8;              // unit of hwords and of block lengths
inline constexpr std::uint32_t kNoReceiver = 0xffffffff;  // `receiver` of a HELLO
inline constexpr std::size_t kMaxSlots = 16;              // path slots of a peer
inline constexpr std::size_t kMaxNics = 16;               // NIC records of a session packet
inline constexpr std::size_t kMaxBitmapWords = 16;        // of PATH_ACK and REQUEST
inline constexpr std::uint16_t kMaxPathBack = 64 * kMaxBitmapWords - 1;
inline constexpr std::size_t kMaxStatusEntries = 254;  // `words` is 8 bits
inline constexpr std::uint16_t kMaxStatusRun = 4096;   // messages of one entry
inline constexpr std::uint64_t kMaxWireLength = (std::uint64_t{1} << 40) - 1;
inline constexpr std::uint32_t kMinFragmentBytes = 256;
inline constexpr std::size_t kMacBytes = 16;

enum class PacketType : std::uint8_t {
  hello = 1,
  welcome = 2,
  close = 3,
  closed = 4,
  reset = 5,
  challenge = 6,
  data = 16,
  granted = 17,
  probe = 18,
  envelope = 19,
  packed = 20,
  write = 24,
  read = 25,
  atomic = 26,
  control = 32,
};

// CommonHeader::flags
inline constexpr std::uint8_t kFlagAllSent = 1;
inline constexpr std::uint8_t kFlagAckNow = 2;
inline constexpr std::uint8_t kFlagRetransmit = 4;
inline constexpr std::uint8_t kFlagSprayed = 8;
inline constexpr std::uint8_t kFlagInsists = 16;

// ClosingPart::flags
inline constexpr std::uint8_t kClosingLast = 1;        // CLOSE: no part follows this one
inline constexpr std::uint8_t kClosingOnPurpose = 2;   // RESET: the session was closed, not lost
inline constexpr std::uint8_t kClosingNoPlace = 4;     // RESET: to a call; all places are taken
inline constexpr std::uint8_t kClosingStaleEpoch = 8;  // RESET: to a call with no higher epoch

// EnvelopePart::eflags
inline constexpr std::uint8_t kEnvelopeDelivered = 1;

enum class EnvelopeKind : std::uint8_t { message = 0, cancel = 1 };

// SessionPart::features
inline constexpr std::uint8_t kFeatureOneSided = 1;
inline constexpr std::uint8_t kFeatureSizeClasses = 2;

// TargetPart::flags
inline constexpr std::uint8_t kTargetReply = 1;      // WRITE: to the fetch that the note names
inline constexpr std::uint8_t kTargetWithdrawn = 2;  // WRITE with REPLY: nothing more will come
inline constexpr std::uint8_t kTargetNotifies = 4;   // WRITE: the note is for the target's program
inline constexpr std::uint8_t kTargetSignals = 8;    // WRITE: a signal header follows
inline constexpr std::uint8_t kTargetFetches = 16;   // ATOMIC: the word from before is awaited

using hawser::AtomicOperation;

enum class MessageStatus : std::uint8_t {
  accepted = 1,
  no_room = 2,
  delivered = 3,
  truncated = 4,
  cancelled = 5,
  pending = 6,
  matched = 7,
  access_denied = 8,  // this and the next are of one-sided operations alone
  region_withdrawn = 9,
  misaligned = 10,
  unsupported = 11,
};

enum class BlockKind : std::uint8_t {
  ack_info = 1,
  path_ack = 2,
  status = 3,
  request = 4,
  grant = 5,
  nic_state = 6,
  path_marks = 7,
};

// ---- headers (§3, §4, §6) ---------------------------------------------------------------------

struct CommonHeader {
  std::uint8_t version;
  PacketType type;
  std::uint8_t slot;        // slot_byte(): the sender's path slot and NIC
  std::uint8_t generation;  // of that slot
  std::uint32_t receiver;
  std::uint64_t token;
  std::uint32_t checksum;
  std::uint8_t hwords;
  std::uint8_t flags;
  std::uint16_t path_back;
  std::uint32_t path_number;
  std::uint32_t floor;

  [[nodiscard]] constexpr std::uint8_t path_slot() const { return slot & 0x0f; }
  [[nodiscard]] constexpr std::uint8_t nic() const { return static_cast<std::uint8_t>(slot >> 4); }
  // Both are below 16.
  [[nodiscard]] static constexpr std::uint8_t slot_byte(std::size_t path_slot, std::size_t nic) {
    return static_cast<std::uint8_t>(path_slot | nic << 4);
  }
};
static_assert(kMaxSlots == 16 && kMaxNics == 16, "CommonHeader::slot has 4 bits for each");

struct FragmentPart {
  std::uint32_t message;
  std::uint32_t fragment;  // fragment_field(): size class and index

  [[nodiscard]] constexpr std::uint32_t index() const { return fragment & kFragmentIndexMask; }
  [[nodiscard]] constexpr std::uint8_t size_class() const {
    return static_cast<std::uint8_t>(fragment >> kFragmentIndexBits);
  }
};

struct EnvelopePart {
  std::uint64_t tag;
  std::uint64_t immediate;
  std::uint32_t length_low;
  std::uint8_t length_high;
  std::uint8_t eflags;
  std::uint16_t channel;
  std::uint32_t group;
  std::uint16_t step;
  std::uint16_t steps;
  std::uint16_t members;
  std::uint8_t collective;
  std::uint8_t priority;
  EnvelopeKind kind;
  std::array<std::uint8_t, 3> reserved;

  [[nodiscard]] constexpr std::uint64_t length() const {
    return length_low | std::uint64_t{length_high} << 32;
  }
  // `bytes` is at most kMaxWireLength.
  constexpr void set_length(std::uint64_t bytes) {
    length_low = static_cast<std::uint32_t>(bytes);
    length_high = static_cast<std::uint8_t>(bytes >> 32);
  }
};

struct ReceiveSlotPart {
  std::uint32_t rx_slot;
  std::uint32_t rx_generation;
};

struct TargetPart {
  std::uint32_t region;
  std::uint32_t generation;
  std::uint64_t secret;
  std::uint64_t offset;  // in the region
  std::uint32_t length_low;
  std::uint8_t length_high;
  std::uint8_t flags;
  std::uint16_t channel;
  std::uint64_t note;  // an immediate, or the name of the initiator's fetch

  [[nodiscard]] constexpr std::uint64_t length() const {
    return length_low | std::uint64_t{length_high} << 32;
  }
  // `bytes` is at most kMaxWireLength.
  constexpr void set_length(std::uint64_t bytes) {
    length_low = static_cast<std::uint32_t>(bytes);
    length_high = static_cast<std::uint8_t>(bytes >> 32);
  }
};

struct OperandsPart {
  std::uint64_t operand;
  std::uint64_t compare;  // of compare_and_swap
  AtomicOperation operation;
  std::uint8_t width;  // bytes of the word: 4 or 8
  std::array<std::uint8_t, 6> reserved;
};

struct SignalPart {
  std::uint32_t region;
  std::uint32_t generation;
  std::uint64_t secret;
  std::uint64_t offset;
  std::uint64_t value;
  AtomicOperation operation;  // add or store
  std::uint8_t width;
  std::array<std::uint8_t, 6> reserved;
};

using Mac = std::array<std::byte, kMacBytes>;

struct SessionPart {
  std::uint64_t sender_id;
  std::uint64_t target_id;
  std::uint64_t epoch;
  std::uint32_t counter;
  std::uint32_t my_index;
  std::uint64_t my_token;
  std::uint64_t echo_epoch;
  std::uint32_t echo_counter;
  std::uint32_t sequence;
  std::uint64_t echo_token;
  std::uint64_t first_number;
  std::uint32_t fragment_bytes;
  std::uint8_t nics;      // records that follow: 1 to kMaxNics
  std::uint8_t features;  // kFeature*; unknown ones mean nothing
  std::uint16_t absence_ms;
  std::uint64_t cookie;
  std::uint64_t unscheduled_bytes;  // bytes of a message that the sender sends before a grant
  Mac mac;
};

struct NicRecord {
  NicAddress address;
  std::uint32_t receive_kib;
  std::uint16_t max_datagram;  // in words of 8 bytes
  std::uint8_t index;
  std::uint8_t state;  // 0 down, 1 up
};

struct ClosingPart {
  std::uint32_t sequence;
  std::uint8_t part;   // CLOSE: which of the packets that together carry the final statuses
  std::uint8_t flags;  // kClosing*
  std::uint16_t reserved;
  Mac mac;
};

struct ChallengePart {
  std::uint64_t cookie;
  Mac mac;
};

// ---- blocks (§5) ------------------------------------------------------------------------------

struct BlockHead {
  BlockKind kind;
  std::uint8_t words;  // length of the block, this word included
};

inline constexpr std::uint16_t kFarBehind = 0xffff;  // so many turns, or more

struct AckInfoBlock {
  BlockHead head;
  std::uint16_t behind;
  std::uint32_t turn;
  std::uint32_t allowance_kib;
  std::uint32_t reserved;
};

struct PathAckBlock {  // followed by head.words - 2 bitmap words
  BlockHead head;
  std::uint8_t slot;
  std::uint8_t generation;
  std::uint32_t largest;
  std::uint32_t residence_ns;
  std::uint32_t ce_count;
};

struct PathMarksBlock {
  BlockHead head;
  std::uint8_t slot;
  std::uint8_t generation;
  std::uint32_t largest;
  std::uint64_t marks;  // bit i: path number largest - i came with ECN CE
};

struct StatusEntry {
  std::uint32_t message;
  MessageStatus status;
  std::uint8_t reserved;
  std::uint16_t run;
};

struct StatusBlock {  // followed by `count` entries
  BlockHead head;
  std::uint16_t count;
  std::uint32_t reserved;
};

struct RequestBlock {  // followed by head.words - 2 bitmap words
  BlockHead head;
  std::uint16_t reserved;
  std::uint32_t message;
  std::uint32_t base;
  std::uint32_t reserved2;
};

struct GrantBlock {
  BlockHead head;
  std::uint16_t reserved;
  std::uint32_t message;
  std::uint32_t rx_slot;
  std::uint32_t rx_generation;
  std::uint32_t from;
  std::uint32_t up_to;
};

struct NicStateBlock {
  BlockHead head;
  std::uint8_t nic;
  std::uint8_t state;  // 0 down, 1 up
  std::uint32_t sequence;
};

// ---- the drawings, asserted ------------------------------------------------------------------

#define HAWSER_WIRE_SIZE(type, bytes)                                            \
  static_assert(sizeof(type) == (bytes) && std::is_trivially_copyable_v<type> && \
                std::is_standard_layout_v<type> && alignof(type) <= kWordBytes)
#define HAWSER_WIRE_AT(type, field, offset) static_assert(offsetof(type, field) == (offset))

HAWSER_WIRE_SIZE(CommonHeader, 32);
HAWSER_WIRE_AT(CommonHeader, version, 0);
HAWSER_WIRE_AT(CommonHeader, type, 1);
HAWSER_WIRE_AT(CommonHeader, slot, 2);
HAWSER_WIRE_AT(CommonHeader, generation, 3);
HAWSER_WIRE_AT(CommonHeader, receiver, 4);
HAWSER_WIRE_AT(CommonHeader, token, 8);
HAWSER_WIRE_AT(CommonHeader, checksum, 16);
HAWSER_WIRE_AT(CommonHeader, hwords, 20);
HAWSER_WIRE_AT(CommonHeader, flags, 21);
HAWSER_WIRE_AT(CommonHeader, path_back, 22);
HAWSER_WIRE_AT(CommonHeader, path_number, 24);
HAWSER_WIRE_AT(CommonHeader, floor, 28);

HAWSER_WIRE_SIZE(FragmentPart, 8);  // at 32
HAWSER_WIRE_AT(FragmentPart, message, 0);
HAWSER_WIRE_AT(FragmentPart, fragment, 4);

HAWSER_WIRE_SIZE(EnvelopePart, 40);  // at 40
HAWSER_WIRE_AT(EnvelopePart, tag, 40 - 40);
HAWSER_WIRE_AT(EnvelopePart, immediate, 48 - 40);
HAWSER_WIRE_AT(EnvelopePart, length_low, 56 - 40);
HAWSER_WIRE_AT(EnvelopePart, length_high, 60 - 40);
HAWSER_WIRE_AT(EnvelopePart, eflags, 61 - 40);
HAWSER_WIRE_AT(EnvelopePart, channel, 62 - 40);
HAWSER_WIRE_AT(EnvelopePart, group, 64 - 40);
HAWSER_WIRE_AT(EnvelopePart, step, 68 - 40);
HAWSER_WIRE_AT(EnvelopePart, steps, 70 - 40);
HAWSER_WIRE_AT(EnvelopePart, members, 72 - 40);
HAWSER_WIRE_AT(EnvelopePart, collective, 74 - 40);
HAWSER_WIRE_AT(EnvelopePart, priority, 75 - 40);
HAWSER_WIRE_AT(EnvelopePart, kind, 76 - 40);
HAWSER_WIRE_AT(EnvelopePart, reserved, 77 - 40);

HAWSER_WIRE_SIZE(ReceiveSlotPart, 8);  // at 40
HAWSER_WIRE_AT(ReceiveSlotPart, rx_slot, 0);
HAWSER_WIRE_AT(ReceiveSlotPart, rx_generation, 4);

HAWSER_WIRE_SIZE(TargetPart, 40);  // at 40
HAWSER_WIRE_AT(TargetPart, region, 40 - 40);
HAWSER_WIRE_AT(TargetPart, generation, 44 - 40);
HAWSER_WIRE_AT(TargetPart, secret, 48 - 40);
HAWSER_WIRE_AT(TargetPart, offset, 56 - 40);
HAWSER_WIRE_AT(TargetPart, length_low, 64 - 40);
HAWSER_WIRE_AT(TargetPart, length_high, 68 - 40);
HAWSER_WIRE_AT(TargetPart, flags, 69 - 40);
HAWSER_WIRE_AT(TargetPart, channel, 70 - 40);
HAWSER_WIRE_AT(TargetPart, note, 72 - 40);

HAWSER_WIRE_SIZE(OperandsPart, 24);  // at 80
HAWSER_WIRE_AT(OperandsPart, operand, 80 - 80);
HAWSER_WIRE_AT(OperandsPart, compare, 88 - 80);
HAWSER_WIRE_AT(OperandsPart, operation, 96 - 80);
HAWSER_WIRE_AT(OperandsPart, width, 97 - 80);

HAWSER_WIRE_SIZE(SignalPart, 40);  // at 80
HAWSER_WIRE_AT(SignalPart, region, 80 - 80);
HAWSER_WIRE_AT(SignalPart, generation, 84 - 80);
HAWSER_WIRE_AT(SignalPart, secret, 88 - 80);
HAWSER_WIRE_AT(SignalPart, offset, 96 - 80);
HAWSER_WIRE_AT(SignalPart, value, 104 - 80);
HAWSER_WIRE_AT(SignalPart, operation, 112 - 80);
HAWSER_WIRE_AT(SignalPart, width, 113 - 80);

HAWSER_WIRE_SIZE(SessionPart, 144 - 32);  // at 32
HAWSER_WIRE_AT(SessionPart, sender_id, 32 - 32);
HAWSER_WIRE_AT(SessionPart, target_id, 40 - 32);
HAWSER_WIRE_AT(SessionPart, epoch, 48 - 32);
HAWSER_WIRE_AT(SessionPart, counter, 56 - 32);
HAWSER_WIRE_AT(SessionPart, my_index, 60 - 32);
HAWSER_WIRE_AT(SessionPart, my_token, 64 - 32);
HAWSER_WIRE_AT(SessionPart, echo_epoch, 72 - 32);
HAWSER_WIRE_AT(SessionPart, echo_counter, 80 - 32);
HAWSER_WIRE_AT(SessionPart, sequence, 84 - 32);
HAWSER_WIRE_AT(SessionPart, echo_token, 88 - 32);
HAWSER_WIRE_AT(SessionPart, first_number, 96 - 32);
HAWSER_WIRE_AT(SessionPart, fragment_bytes, 104 - 32);
HAWSER_WIRE_AT(SessionPart, nics, 108 - 32);
HAWSER_WIRE_AT(SessionPart, features, 109 - 32);
HAWSER_WIRE_AT(SessionPart, absence_ms, 110 - 32);
HAWSER_WIRE_AT(SessionPart, cookie, 112 - 32);
HAWSER_WIRE_AT(SessionPart, unscheduled_bytes, 120 - 32);
HAWSER_WIRE_AT(SessionPart, mac, 128 - 32);

HAWSER_WIRE_SIZE(NicRecord, 48);
HAWSER_WIRE_AT(NicRecord, address, 0);
HAWSER_WIRE_AT(NicRecord, receive_kib, 40);
HAWSER_WIRE_AT(NicRecord, max_datagram, 44);
HAWSER_WIRE_AT(NicRecord, index, 46);
HAWSER_WIRE_AT(NicRecord, state, 47);

HAWSER_WIRE_SIZE(ClosingPart, 24);  // at 32
HAWSER_WIRE_AT(ClosingPart, sequence, 0);
HAWSER_WIRE_AT(ClosingPart, part, 4);
HAWSER_WIRE_AT(ClosingPart, flags, 5);
HAWSER_WIRE_AT(ClosingPart, reserved, 6);
HAWSER_WIRE_AT(ClosingPart, mac, 8);

HAWSER_WIRE_SIZE(ChallengePart, 24);  // at 32
HAWSER_WIRE_AT(ChallengePart, cookie, 0);
HAWSER_WIRE_AT(ChallengePart, mac, 8);

HAWSER_WIRE_SIZE(BlockHead, 2);
HAWSER_WIRE_AT(BlockHead, kind, 0);
HAWSER_WIRE_AT(BlockHead, words, 1);

HAWSER_WIRE_SIZE(AckInfoBlock, 2 * kWordBytes);
HAWSER_WIRE_AT(AckInfoBlock, behind, 2);
HAWSER_WIRE_AT(AckInfoBlock, turn, 4);
HAWSER_WIRE_AT(AckInfoBlock, allowance_kib, 8);
HAWSER_WIRE_AT(AckInfoBlock, reserved, 12);

HAWSER_WIRE_SIZE(PathAckBlock, 2 * kWordBytes);
HAWSER_WIRE_AT(PathAckBlock, slot, 2);
HAWSER_WIRE_AT(PathAckBlock, generation, 3);
HAWSER_WIRE_AT(PathAckBlock, largest, 4);
HAWSER_WIRE_AT(PathAckBlock, residence_ns, 8);
HAWSER_WIRE_AT(PathAckBlock, ce_count, 12);

HAWSER_WIRE_SIZE(PathMarksBlock, 2 * kWordBytes);
HAWSER_WIRE_AT(PathMarksBlock, slot, 2);
HAWSER_WIRE_AT(PathMarksBlock, generation, 3);
HAWSER_WIRE_AT(PathMarksBlock, largest, 4);
HAWSER_WIRE_AT(PathMarksBlock, marks, 8);

HAWSER_WIRE_SIZE(StatusBlock, 1 * kWordBytes);
HAWSER_WIRE_AT(StatusBlock, count, 2);
HAWSER_WIRE_AT(StatusBlock, reserved, 4);
HAWSER_WIRE_SIZE(StatusEntry, 1 * kWordBytes);
HAWSER_WIRE_AT(StatusEntry, message, 0);
HAWSER_WIRE_AT(StatusEntry, status, 4);
HAWSER_WIRE_AT(StatusEntry, reserved, 5);
HAWSER_WIRE_AT(StatusEntry, run, 6);

HAWSER_WIRE_SIZE(RequestBlock, 2 * kWordBytes);
HAWSER_WIRE_AT(RequestBlock, reserved, 2);
HAWSER_WIRE_AT(RequestBlock, message, 4);
HAWSER_WIRE_AT(RequestBlock, base, 8);
HAWSER_WIRE_AT(RequestBlock, reserved2, 12);

HAWSER_WIRE_SIZE(GrantBlock, 3 * kWordBytes);
HAWSER_WIRE_AT(GrantBlock, reserved, 2);
HAWSER_WIRE_AT(GrantBlock, message, 4);
HAWSER_WIRE_AT(GrantBlock, rx_slot, 8);
HAWSER_WIRE_AT(GrantBlock, rx_generation, 12);
HAWSER_WIRE_AT(GrantBlock, from, 16);
HAWSER_WIRE_AT(GrantBlock, up_to, 20);

HAWSER_WIRE_SIZE(NicStateBlock, 1 * kWordBytes);
HAWSER_WIRE_AT(NicStateBlock, nic, 2);
HAWSER_WIRE_AT(NicStateBlock, state, 3);
HAWSER_WIRE_AT(NicStateBlock, sequence, 4);

#undef HAWSER_WIRE_SIZE
#undef HAWSER_WIRE_AT

// ---- the table of packet types (§4) ----------------------------------------------------------

struct PacketRule {
  PacketType type{};
  std::string_view name{};
  Queue queue = Queue::data;
  bool sequenced = false;
  std::uint8_t own_words = 0;  // headers that every packet of the type has; 0: no such type
  bool blocks = false;         // blocks may follow them
  bool payload = false;
};

inline constexpr auto kPacketRules = std::to_array<PacketRule>({
    // type, name, queue, sequenced, own_words, blocks, payload
    {PacketType::hello, "HELLO", Queue::data, false, 18, false, false},  // 6 more per NIC record
    {PacketType::welcome, "WELCOME", Queue::data, false, 18, false, false},
    {PacketType::close, "CLOSE", Queue::data, false, 7, true, false},
    {PacketType::closed, "CLOSED", Queue::data, false, 7, false, false},
    {PacketType::reset, "RESET", Queue::data, false, 7, false, false},
    {PacketType::challenge, "CHALLENGE", Queue::data, false, 7, false, false},
    {PacketType::data, "DATA", Queue::data, true, 10, true, true},
    {PacketType::granted, "GRANTED", Queue::data, true, 6, true, true},
    {PacketType::probe, "PROBE", Queue::data, true, 4, true, true},
    {PacketType::envelope, "ENVELOPE", Queue::control, false, 10, true, false},
    {PacketType::packed, "PACKED", Queue::data, true, 10, true, true},
    {PacketType::write, "WRITE", Queue::data, true, 10, true, true},  // 5 more with a signal
    {PacketType::read, "READ", Queue::data, true, 10, true, false},
    {PacketType::atomic, "ATOMIC", Queue::data, true, 13, true, false},
    {PacketType::control, "CONTROL", Queue::control, false, 4, true, false},
});

// ---- the table of blocks (§5) ----------------------------------------------------------------

struct BlockRule {
  BlockKind kind{};
  std::string_view name{};
  std::uint8_t min_words = 1;
  std::uint8_t max_words = 255;
};

inline constexpr auto kBlockRules = std::to_array<BlockRule>({
    // kind, name, min_words, max_words
    {BlockKind::ack_info, "ACK_INFO", 2, 2},
    {BlockKind::path_ack, "PATH_ACK", 3, 2 + kMaxBitmapWords},
    {BlockKind::status, "STATUS", 2, 1 + kMaxStatusEntries},
    {BlockKind::request, "REQUEST", 3, 2 + kMaxBitmapWords},
    {BlockKind::grant, "GRANT", 3, 3},
    {BlockKind::nic_state, "NIC_STATE", 1, 1},
    {BlockKind::path_marks, "PATH_MARKS", 2, 2},
});

namespace detail {
inline constexpr std::size_t kTypeLimit = 33;
inline constexpr std::size_t kKindLimit = 8;
// By value, for look-up; the last row stays empty and stands for all unknown values.
inline constexpr auto kRuleByType = [] {
  std::array<PacketRule, kTypeLimit + 1> table{};
  for (const PacketRule& rule : kPacketRules) table[static_cast<std::size_t>(rule.type)] = rule;
  return table;
}();
inline constexpr auto kRuleByKind = [] {
  std::array<BlockRule, kKindLimit + 1> table{};
  for (const BlockRule& rule : kBlockRules) table[static_cast<std::size_t>(rule.kind)] = rule;
  return table;
}();
}  // namespace detail

static_assert(std::ranges::all_of(detail::kRuleByKind,
                                  [](const BlockRule& rule) { return rule.min_words > 0; }),
              "a block without words would never end");

// own_words is 0 if there is no such type.
[[nodiscard]] constexpr const PacketRule& rule_of(PacketType type) {
  const auto index = static_cast<std::size_t>(type);
  return detail::kRuleByType[index < detail::kTypeLimit ? index : detail::kTypeLimit];
}

// An unknown kind may have any length.
[[nodiscard]] constexpr const BlockRule& rule_of(BlockKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return detail::kRuleByKind[index < detail::kKindLimit ? index : detail::kKindLimit];
}

// Bytes in front of the payload of a DATA packet without blocks.
inline constexpr std::size_t kDataHeaderBytes = 80;
inline constexpr std::size_t kGrantedHeaderBytes = 48;
static_assert(rule_of(PacketType::data).own_words * kWordBytes == kDataHeaderBytes);
static_assert(rule_of(PacketType::granted).own_words * kWordBytes == kGrantedHeaderBytes);
static_assert(rule_of(PacketType::write).own_words * kWordBytes == kDataHeaderBytes);
static_assert(rule_of(PacketType::challenge).own_words < rule_of(PacketType::hello).own_words,
              "a caller in another's name must not make us send more than it sent");
static_assert(rule_of(PacketType::hello).own_words * kWordBytes + kMaxNics * sizeof(NicRecord) <=
              PacketBuffer::kBytes);

}  // namespace hawser::proto::wire
