// SPDX-License-Identifier: Apache-2.0
#include "test/proto/wire_samples.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "proto/wire/checksum.hpp"
#include "proto/wire/mac.hpp"
#include "proto/wire/packed.hpp"

namespace hawser::test {

using namespace proto;
using namespace proto::wire;

namespace {

// The sets of flags that a WRITE can have.
constexpr std::uint8_t kWriteFlags[] = {0,
                                        kTargetReply,
                                        kTargetReply | kTargetWithdrawn,
                                        kTargetNotifies,
                                        kTargetSignals,
                                        kTargetNotifies | kTargetSignals};
constexpr std::uint8_t kAtomicOperations = 12;

class Maker {
 public:
  explicit Maker(std::mt19937_64& random) : random_(random) {}

  Sample packet(PacketType type, std::size_t payload_bytes, std::size_t blocks) {
    PacketBuffer buffer;
    PacketWriter writer(buffer);
    CommonHeader& header = writer.begin(type, u32(), u64(), u32());
    header.slot = u8();
    header.generation = u8();
    header.flags = u8();
    header.path_back = static_cast<std::uint16_t>(below(kMaxPathBack + 1u));
    header.path_number = u32();
    parts(writer, type);
    for (std::size_t i = 0; i < blocks; ++i) block(writer, 1 + below(7));
    if (rule_of(type).queue == Queue::data && !rule_of(type).sequenced) sign(writer, {});
    const std::vector<std::byte> payload =
        type == PacketType::packed ? row(writer) : noise(payload_bytes);
    const std::uint32_t header_bytes = writer.finish(true, payload);
    Sample sample{std::string(rule_of(type).name), rule_of(type).queue,
                  std::vector<std::byte>(header_bytes + payload.size())};
    std::memcpy(sample.bytes.data(), buffer.bytes, header_bytes);
    std::copy(payload.begin(), payload.end(), sample.bytes.begin() + header_bytes);
    return sample;
  }

  // A one-sided packet whose target and operands `wanted` has changed.
  template <class Wanted>
  Sample one_sided_packet(PacketType type, std::size_t payload_bytes, Wanted&& wanted) {
    wanted_ = wanted;
    Sample sample = packet(type, payload_bytes, 1);
    wanted_ = nullptr;
    return sample;
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  void parts(PacketWriter& writer, PacketType type) {
    switch (type) {
      case PacketType::data:
      case PacketType::packed:
      case PacketType::envelope:
        writer.part(FragmentPart{u32(), type == PacketType::packed ? 0 : u32()});
        writer.part(envelope(type));
        break;
      case PacketType::granted:
        writer.part(FragmentPart{u32(), u32()});
        writer.part(ReceiveSlotPart{u32(), u32()});
        break;
      case PacketType::write:
      case PacketType::read:
      case PacketType::atomic: one_sided(writer, type); break;
      case PacketType::hello:
      case PacketType::welcome: session(writer); break;
      case PacketType::close:
      case PacketType::closed:
      case PacketType::reset: writer.part(ClosingPart{u32(), u8(), u8(), 0, {}}); break;
      case PacketType::challenge: writer.part(ChallengePart{u64(), {}}); break;
      case PacketType::probe:
      case PacketType::control: break;
    }
  }

  void one_sided(PacketWriter& writer, PacketType type) {
    writer.part(FragmentPart{u32(), type == PacketType::write ? u32() : 0});
    TargetPart target{u32(), u32(), u64(), u64(), u32(), u8(), 0, u16(), u64()};
    OperandsPart operands{
        u64(), u64(), static_cast<AtomicOperation>(below(kAtomicOperations)), width(), {}};
    if (type == PacketType::write) {
      target.flags = kWriteFlags[below(std::size(kWriteFlags))];
    } else if (type == PacketType::atomic) {
      target.flags = below(2) == 0 ? kTargetFetches : 0;
      target.set_length(operands.width);
    }
    if (wanted_) wanted_(target, operands);
    writer.part(target);
    if (type == PacketType::atomic) writer.part(operands);
    if ((target.flags & kTargetSignals) == 0) return;
    const auto operation = below(2) == 0 ? AtomicOperation::add : AtomicOperation::store;
    writer.part(SignalPart{u32(), u32(), u64(), u64(), u64(), operation, width(), {}});
  }
  std::uint8_t width() { return below(2) == 0 ? 4 : 8; }

  std::vector<std::byte> noise(std::size_t bytes) {
    std::vector<std::byte> made(bytes);
    std::generate(made.begin(), made.end(), [this] { return std::byte{u8()}; });
    return made;
  }

  // The row of a PACKED packet whose headers are written. Sets the length in its first envelope.
  std::vector<std::byte> row(PacketWriter& writer) {
    PacketBuffer buffer;
    PackedRow made(buffer, 0, PacketBuffer::kBytes - writer.header_bytes());
    const std::vector<std::byte> first = noise(below(20));
    auto* envelope_at = writer.seal().data() + sizeof(CommonHeader) + sizeof(FragmentPart);
    EnvelopePart of_first;
    std::memcpy(&of_first, envelope_at, sizeof of_first);
    of_first.set_length(first.size());
    std::memcpy(envelope_at, &of_first, sizeof of_first);
    HAWSER_ASSERT(made.add_first(first));
    for (std::uint64_t more = 1 + below(3); more > 0; --more) {
      const std::vector<std::byte> bytes = noise(below(20));
      if (!made.has_room_for(bytes.size())) break;
      EnvelopePart part = envelope(PacketType::packed);
      part.set_length(bytes.size());
      made.add(u32(), part, bytes);
    }
    return {made.bytes().begin(), made.bytes().end()};
  }

  EnvelopePart envelope(PacketType type) {
    EnvelopePart part{};
    part.tag = u64();
    part.immediate = u64();
    part.set_length(u64() & kMaxWireLength);
    part.eflags = u8();
    part.channel = u16();
    part.group = u32();
    part.step = u16();
    part.steps = u16();
    part.members = u16();
    part.collective = u8();
    part.priority = u8();
    part.kind = static_cast<EnvelopeKind>(below(type == PacketType::envelope ? 2 : 1));
    return part;
  }

  void session(PacketWriter& writer) {
    SessionPart part{};
    for (std::uint64_t* field :
         {&part.sender_id, &part.target_id, &part.epoch, &part.my_token, &part.echo_epoch,
          &part.echo_token, &part.first_number, &part.cookie, &part.unscheduled_bytes}) {
      *field = u64();
    }
    for (std::uint32_t* field : {&part.counter, &part.my_index, &part.echo_counter, &part.sequence})
      *field = u32();
    part.fragment_bytes = std::max(kMinFragmentBytes, u32());
    part.nics = static_cast<std::uint8_t>(1 + below(kMaxNics));
    part.features = u8();
    part.absence_ms = u16();
    writer.part(part);
    for (std::uint8_t i = 0; i < part.nics; ++i) {
      NicRecord nic{};
      for (std::byte& byte : nic.address.bytes) byte = std::byte{u8()};
      nic.receive_kib = u32();
      nic.max_datagram = u16();
      nic.index = i;
      nic.state = static_cast<std::uint8_t>(below(2));
      writer.part(nic);
    }
  }

  // Writes a block if it fits.
  void block(PacketWriter& writer, std::uint64_t kind) {
    switch (static_cast<BlockKind>(kind)) {
      case BlockKind::ack_info:
        (void)writer.ack_info(u32(), static_cast<std::uint16_t>(u32()), u32());
        break;
      case BlockKind::path_ack:
        (void)writer.path_ack(static_cast<std::uint8_t>(below(kMaxSlots)), u8(), u32(), u32(),
                              u32(), bitmap());
        break;
      case BlockKind::status: {
        std::vector<StatusEntry> entries(1 + below(5));
        for (StatusEntry& entry : entries) {
          entry = {u32(), static_cast<MessageStatus>(1 + below(11)), 0,
                   static_cast<std::uint16_t>(1 + below(kMaxStatusRun))};
        }
        (void)writer.statuses(entries);
        break;
      }
      case BlockKind::request: (void)writer.request(u32(), u32(), bitmap()); break;
      case BlockKind::grant: (void)writer.grant(u32(), u32(), u32(), u32(), u32()); break;
      case BlockKind::nic_state:
        (void)writer.nic_state(static_cast<std::uint8_t>(below(kMaxNics)), below(2) == 1, u32());
        break;
      case BlockKind::path_marks:
        (void)writer.path_marks(static_cast<std::uint8_t>(below(kMaxSlots)), u8(), u32(), u64());
        break;
    }
  }

  std::vector<std::uint64_t> bitmap() {
    std::vector<std::uint64_t> words(1 + below(kMaxBitmapWords));
    for (std::uint64_t& word : words) word = u64();
    words[0] |= 1;
    return words;
  }

  std::uint64_t u64() { return random_(); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(random_()); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(random_()); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(random_()); }

  std::mt19937_64& random_;
  std::function<void(TargetPart&, OperandsPart&)> wanted_;
};

// A WRITE with each set of flags, and an ATOMIC with each operation, width and flag.
void add_one_sided_samples(Maker& maker, std::vector<Sample>& samples) {
  for (const std::uint8_t flags : kWriteFlags) {
    const auto wanted = [&](TargetPart& target, OperandsPart&) { target.flags = flags; };
    const bool has_bytes = (flags & kTargetWithdrawn) == 0;
    samples.push_back(maker.one_sided_packet(PacketType::write, has_bytes ? 40 : 0, wanted));
  }
  for (std::uint8_t operation = 0; operation < kAtomicOperations; ++operation) {
    for (const std::uint8_t width : std::to_array<std::uint8_t>({4, 8})) {
      const auto wanted = [&](TargetPart& target, OperandsPart& operands) {
        operands.operation = static_cast<AtomicOperation>(operation);
        operands.width = width;
        target.set_length(width);
        target.flags = (operation + width / 4) % 2 == 0 ? kTargetFetches : 0;
      };
      samples.push_back(maker.one_sided_packet(PacketType::atomic, 0, wanted));
    }
  }
}

}  // namespace

std::vector<Sample> wire_samples() {
  std::mt19937_64 random(2);
  Maker maker(random);
  std::vector<Sample> samples;
  for (const PacketRule& rule : kPacketRules) {
    samples.push_back(maker.packet(rule.type, 0, 0));
    if (rule.payload) {
      samples.push_back(maker.packet(rule.type, 1, 0));
      samples.push_back(maker.packet(rule.type, 263, 2));
    }
    // With 12 blocks the packet has every kind.
    if (rule.blocks) samples.push_back(maker.packet(rule.type, 0, 12));
  }
  add_one_sided_samples(maker, samples);
  return samples;
}

Sample random_packet(std::mt19937_64& random) {
  Maker maker(random);
  const PacketRule& rule = kPacketRules[maker.below(kPacketRules.size())];
  const std::uint64_t payload = rule.payload ? maker.below(4) * maker.below(300) : 0;
  return maker.packet(rule.type, payload, rule.blocks ? maker.below(6) : 0);
}

void fix_checksum(std::span<std::byte> datagram) {
  const auto field = datagram.subspan(offsetof(CommonHeader, checksum), sizeof(std::uint32_t));
  std::fill(field.begin(), field.end(), std::byte{0});
  const std::uint32_t checksum = crc32c(datagram);
  std::memcpy(field.data(), &checksum, sizeof checksum);
}

}  // namespace hawser::test
