// SPDX-License-Identifier: Apache-2.0
#include "proto/wire/dump.hpp"

#include <array>
#include <bit>
#include <sstream>

#include "proto/wire/packed.hpp"

namespace hawser::proto::wire {
namespace {

constexpr auto kStatusNames = std::to_array<std::string_view>(
    {"?", "ACCEPTED", "NO_ROOM", "DELIVERED", "TRUNCATED", "CANCELLED", "PENDING", "MATCHED",
     "ACCESS_DENIED", "REGION_WITHDRAWN", "MISALIGNED", "UNSUPPORTED"});
constexpr auto kOperationNames = std::to_array<std::string_view>(
    {"load", "store", "swap", "compare_and_swap", "add", "and", "or", "xor", "min_signed",
     "max_signed", "min_unsigned", "max_unsigned"});

std::string_view name_of(AtomicOperation operation) {
  return kOperationNames[static_cast<std::size_t>(operation)];
}

class Describer {
 public:
  [[nodiscard]] std::string text() const { return out_.str(); }

  void header(const CommonHeader& h) {
    const PacketRule& rule = rule_of(h.type);
    out_ << rule.name << " to ";
    if (h.receiver == kNoReceiver) {
      out_ << "anyone";
    } else {
      out_ << h.receiver;
    }
    out_ << " nic " << unsigned{h.nic()};
    if (rule.sequenced) {
      out_ << " path " << unsigned{h.path_slot()} << '.' << unsigned{h.generation} << " number "
           << h.path_number << " back " << h.path_back;
    }
    out_ << " floor " << h.floor;
    if (h.flags & kFlagAllSent) out_ << " ALL_SENT";
    if (h.flags & kFlagAckNow) out_ << " ACK_NOW";
    if (h.flags & kFlagRetransmit) out_ << " RETRANSMIT";
    if (h.flags & kFlagSprayed) out_ << " SPRAYED";
    if (h.flags & kFlagInsists) out_ << " INSISTS";
  }

  void part(const FragmentPart& p) {
    out_ << " | message " << p.message << " fragment " << p.index();
    if (p.size_class() != 0) out_ << " of class " << unsigned{p.size_class()};
  }

  void part(const EnvelopePart& p) {
    out_ << " | " << (p.kind == EnvelopeKind::cancel ? "cancel" : "tag") << " 0x" << std::hex
         << p.tag << " immediate 0x" << p.immediate << std::dec << " length " << p.length()
         << " channel " << p.channel;
    if (p.eflags & kEnvelopeDelivered) out_ << " DELIVERED";
    if (p.group != 0) {
      out_ << " group " << p.group << " of " << p.members << " step " << p.step << '/' << p.steps
           << " collective " << unsigned{p.collective};
    }
    if (p.priority != 0) out_ << " priority " << unsigned{p.priority};
  }

  void part(const TargetPart& p) {
    if (p.flags & kTargetReply) {
      out_ << " | reply to 0x" << std::hex << p.note << std::dec;
    } else {
      out_ << " | region " << p.region << '.' << p.generation;
    }
    out_ << " offset " << p.offset << " length " << p.length() << " channel " << p.channel;
    if (p.flags & kTargetWithdrawn) out_ << " WITHDRAWN";
    if (p.flags & kTargetNotifies) out_ << " NOTIFIES 0x" << std::hex << p.note << std::dec;
    if (p.flags & kTargetFetches) out_ << " FETCHES for 0x" << std::hex << p.note << std::dec;
  }

  void part(const OperandsPart& p) {
    out_ << " | " << name_of(p.operation) << ' ' << 8u * p.width << " bits, operand 0x" << std::hex
         << p.operand;
    if (p.operation == AtomicOperation::compare_and_swap) out_ << " compare 0x" << p.compare;
    out_ << std::dec;
  }

  void part(const SignalPart& p) {
    out_ << " | signal " << name_of(p.operation) << " 0x" << std::hex << p.value << std::dec
         << " at region " << p.region << '.' << p.generation << " offset " << p.offset;
  }

  void part(const ReceiveSlotPart& p) { out_ << " | rx " << p.rx_slot << '.' << p.rx_generation; }

  void part(const SessionPart& p) {
    out_ << " | from 0x" << std::hex << p.sender_id << " for 0x" << p.target_id << std::dec
         << " epoch " << p.epoch << '.' << p.counter << " index " << p.my_index << " echo "
         << p.echo_epoch << '.' << p.echo_counter << " sequence " << p.sequence << " first "
         << p.first_number << " fragment_bytes " << p.fragment_bytes << " absence_ms "
         << p.absence_ms;
    if (p.cookie != 0) out_ << " cookie 0x" << std::hex << p.cookie << std::dec;
  }

  void part(const NicRecord& p) {
    out_ << " | NIC " << unsigned{p.index} << (p.state == 1 ? " up" : " down") << " receive_kib "
         << p.receive_kib << " max_datagram " << p.max_datagram * kWordBytes;
  }

  void part(const ClosingPart& p) {
    out_ << " | sequence " << p.sequence << " part " << unsigned{p.part};
    if (p.flags & kClosingLast) out_ << " LAST";
    if (p.flags & kClosingOnPurpose) out_ << " ON_PURPOSE";
    if (p.flags & kClosingNoPlace) out_ << " NO_PLACE";
    if (p.flags & kClosingStaleEpoch) out_ << " STALE_EPOCH";
  }

  void part(const ChallengePart& p) { out_ << " | cookie 0x" << std::hex << p.cookie << std::dec; }

  void operator()(const AckInfoBlock& b) {
    out_ << " | ACK_INFO turn " << b.turn << " behind " << b.behind << " allowance_kib "
         << b.allowance_kib;
  }

  void operator()(const PathAckView& b) {
    out_ << " | PATH_ACK path " << unsigned{b.slot} << '.' << unsigned{b.generation} << " largest "
         << b.largest << " residence_ns " << b.residence_ns << " ce " << b.ce_count;
    bitmap(b.bitmap);
  }

  void operator()(const PathMarksBlock& b) {
    out_ << " | PATH_MARKS path " << unsigned{b.slot} << '.' << unsigned{b.generation}
         << " largest " << b.largest;
    bitmap({&b.marks, 1});
  }

  void operator()(const StatusView& b) {
    out_ << " | STATUS";
    for (const StatusEntry& e : b.entries) {
      out_ << ' ' << e.message;
      if (e.run > 1) out_ << '+' << e.run - 1;
      out_ << ' ' << to_string(e.status);
    }
  }

  void operator()(const RequestView& b) {
    out_ << " | REQUEST message " << b.message << " base " << b.base;
    bitmap(b.bitmap);
  }

  void operator()(const GrantBlock& b) {
    out_ << " | GRANT message " << b.message << " rx " << b.rx_slot << '.' << b.rx_generation
         << " fragments " << b.from << " to " << b.up_to;
  }

  void operator()(const NicStateBlock& b) {
    out_ << " | NIC_STATE " << unsigned{b.nic} << (b.state == 1 ? " up" : " down") << " sequence "
         << b.sequence;
  }

  void payload(std::size_t bytes) { out_ << " | " << bytes << " B"; }

 private:
  void bitmap(std::span<const std::uint64_t> words) {
    int ones = 0;
    for (const std::uint64_t word : words) ones += std::popcount(word);
    out_ << " has " << ones << " of " << 64 * words.size() << " [" << std::hex;
    for (std::size_t i = 0; i < words.size(); ++i) out_ << (i == 0 ? "" : " ") << words[i];
    out_ << std::dec << ']';
  }

  std::ostringstream out_;
};

}  // namespace

std::string_view to_string(MessageStatus status) {
  const auto index = static_cast<std::size_t>(status);
  return kStatusNames[index < kStatusNames.size() ? index : 0];
}

std::string describe(const PacketView& packet) {
  Describer describer;
  describer.header(*packet.header);
  if (packet.fragment != nullptr) describer.part(*packet.fragment);
  if (packet.envelope != nullptr) describer.part(*packet.envelope);
  if (packet.receive_slot != nullptr) describer.part(*packet.receive_slot);
  if (packet.target != nullptr) describer.part(*packet.target);
  if (packet.operands != nullptr) describer.part(*packet.operands);
  if (packet.signal != nullptr) describer.part(*packet.signal);
  if (packet.session != nullptr) describer.part(*packet.session);
  for (const NicRecord& nic : packet.nics) describer.part(nic);
  if (packet.closing != nullptr) describer.part(*packet.closing);
  if (packet.challenge != nullptr) describer.part(*packet.challenge);
  packet.blocks.visit(describer);
  if (packet.type == PacketType::packed) {
    PackedMessages messages(packet);
    while (messages.next()) {
      describer.part(*messages.message().fragment);
      describer.part(*messages.message().envelope);
    }
  }
  if (rule_of(packet.type).payload) describer.payload(packet.payload.size());
  return describer.text();
}

}  // namespace hawser::proto::wire
