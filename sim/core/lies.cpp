// SPDX-License-Identifier: Apache-2.0
#include "sim/core/lies.hpp"

#include <algorithm>
#include <cstring>

#include "proto/base/assert.hpp"
#include "proto/wire/checksum.hpp"
#include "proto/wire/dump.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::sim {

namespace {

using proto::Random;
namespace wire = proto::wire;

// Beyond the window of message numbers, and far from where they wrap.
constexpr std::uint32_t kFarAhead = 0x100000;

const wire::CommonHeader& wire_header_of(const Frame& frame) {
  return *reinterpret_cast<const wire::CommonHeader*>(frame.words.get());
}

class Liar {
 public:
  Liar(Random& random, bool signed_frames, Frame& frame)
      : random_(random),
        signed_(signed_frames),
        frame_(frame),
        rule_(wire::rule_of(header().type)) {}

  void tell() {
    if (frame_.bytes < sizeof(wire::CommonHeader) || rule_.own_words == 0) return;
    const bool has_checksum = header().checksum != 0;
    if (random_.chance(0.4)) {
      lie_in_common();
    } else {
      lie_in_type();
    }
    if (has_checksum && !keeps_checksum_ && frame_.bytes >= sizeof(wire::CommonHeader)) {
      header().checksum = 0;
      header().checksum = proto::crc32c(frame_.data());
    }
  }

 private:
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) {
    return *reinterpret_cast<T*>(frame_.data().data() + offset);
  }
  [[nodiscard]] wire::CommonHeader& header() {
    return *reinterpret_cast<wire::CommonHeader*>(frame_.words.get());
  }
  [[nodiscard]] std::uint32_t some() {
    return 1 + static_cast<std::uint32_t>(random_.below(0xffff));
  }
  [[nodiscard]] bool is_session() {
    return header().type == wire::PacketType::hello || header().type == wire::PacketType::welcome;
  }

  void lie_in_common() {
    switch (random_.below(10)) {
      case 0: header().version = static_cast<std::uint8_t>(2 + random_.below(254)); return;
      case 1:
        header().type = static_cast<wire::PacketType>(29 + random_.below(200));
        return kill_type();
      case 2:
        frame_.queue =
            frame_.queue == proto::Queue::data ? proto::Queue::control : proto::Queue::data;
        return;
      case 3: header().hwords = static_cast<std::uint8_t>(random_.below(4)); return;
      case 4: header().hwords = 255; return;
      case 5:
        if (!is_session()) header().token ^= some();
        return;
      case 6:
        if (!is_session()) header().receiver ^= some();
        return;
      case 7:
        frame_.bytes =
            static_cast<std::uint32_t>(random_.below(header().hwords * wire::kWordBytes));
        return;
      case 8: header().slot |= 0xf0; return;
      default: return make_noise();
    }
  }
  // 32 is the type of CONTROL.
  void kill_type() {
    if (wire::rule_of(header().type).own_words > 0)
      header().type = static_cast<wire::PacketType>(200);
  }
  void make_noise() {
    const std::uint32_t checksum = header().checksum;
    for (std::byte& byte : frame_.data()) byte = static_cast<std::byte>(random_.next());
    header().checksum = checksum;
    keeps_checksum_ = random_.chance(0.5);
    if (random_.chance(0.7)) header().version = wire::kVersion;
  }

  // Where the blocks begin. A WRITE may have a signal header before them.
  [[nodiscard]] std::size_t blocks_at() {
    constexpr std::size_t kTargetAt = sizeof(wire::CommonHeader) + sizeof(wire::FragmentPart);
    const bool signals = header().type == wire::PacketType::write &&
                         (at<wire::TargetPart>(kTargetAt).flags & wire::kTargetSignals) != 0;
    return rule_.own_words * wire::kWordBytes + (signals ? sizeof(wire::SignalPart) : 0);
  }

  void lie_in_type() {
    if (!rule_.payload && random_.chance(0.1)) return add_payload();
    if (random_.chance(0.1) && rule_.sequenced) {
      header().path_back = static_cast<std::uint16_t>(wire::kMaxPathBack + some() % 60000);
      return;
    }
    if (random_.chance(0.1) && rule_.blocks && header().type != wire::PacketType::close) {
      header().floor += kFarAhead + some();
      return;
    }
    const bool has_blocks = rule_.blocks && header().hwords * wire::kWordBytes > blocks_at();
    if (has_blocks && random_.chance(0.8)) return lie_in_blocks();
    switch (header().type) {
      case wire::PacketType::data:
      case wire::PacketType::packed:
      case wire::PacketType::envelope: return lie_in_envelope();
      case wire::PacketType::granted: return lie_in_granted();
      case wire::PacketType::hello:
      case wire::PacketType::welcome: return signed_ ? spoil_signed() : lie_in_session();
      case wire::PacketType::close:
        if (!signed_) {
          at<wire::ClosingPart>(sizeof(wire::CommonHeader)).part = 255;
          return;
        }
        [[fallthrough]];
      case wire::PacketType::closed:
      case wire::PacketType::reset:
      case wire::PacketType::challenge: return signed_ ? spoil_signed() : add_payload();
      default: return lie_in_common();
    }
  }

  void add_payload() {
    frame_.grow(frame_.bytes + 8);
    if (!rule_.blocks && random_.chance(0.5)) ++header().hwords;  // as if it were a block
  }
  // Spoils any byte behind the common header: the MAC covers them all.
  void spoil_signed() {
    const std::size_t first = sizeof(wire::CommonHeader);
    const std::size_t where = first + random_.below(frame_.bytes - first);
    frame_.data()[where] ^= static_cast<std::byte>(1u << random_.below(8));
  }

  [[nodiscard]] wire::FragmentPart& fragment() {
    return at<wire::FragmentPart>(sizeof(wire::CommonHeader));
  }
  // Gives the payload a length that its place in the message doesn't allow.
  void cut_payload() {
    const std::uint32_t payload =
        frame_.bytes - header().hwords * static_cast<std::uint32_t>(wire::kWordBytes);
    if (payload == 0) return add_payload();
    frame_.bytes -= 1 + static_cast<std::uint32_t>(random_.below(payload));
  }
  void lie_in_envelope() {
    constexpr std::size_t kEnvelopeAt = sizeof(wire::CommonHeader) + sizeof(wire::FragmentPart);
    const bool is_data = header().type != wire::PacketType::envelope;
    switch (random_.below(is_data ? 4 : 2)) {
      case 0: fragment().message += kFarAhead + some(); return;
      case 1:
        at<wire::EnvelopePart>(kEnvelopeAt).kind =
            static_cast<wire::EnvelopeKind>(is_data ? 1 + random_.below(3) : 2);
        return;
      case 2: return cut_payload();
      default: fragment().fragment |= 0x40000000u; return;
    }
  }
  void lie_in_granted() {
    auto& slot = at<wire::ReceiveSlotPart>(sizeof(wire::CommonHeader) + sizeof(wire::FragmentPart));
    switch (random_.below(6)) {
      case 0: slot.rx_generation += some(); return;
      // Names a neighbouring slot, if there is one.
      case 4: slot.rx_slot ^= 1 + static_cast<std::uint32_t>(random_.below(7)); return;
      case 1: slot.rx_slot = ~some(); return;
      case 2: fragment().message += kFarAhead + some(); return;
      case 3: fragment().fragment |= 0x40000000u; return;
      default: return cut_payload();
    }
  }

  void lie_in_session() {
    auto& said = at<wire::SessionPart>(sizeof(wire::CommonHeader));
    constexpr std::size_t kNicsAt = sizeof(wire::CommonHeader) + sizeof(wire::SessionPart);
    auto& nic = at<wire::NicRecord>(kNicsAt + random_.below(said.nics) * sizeof(wire::NicRecord));
    switch (random_.below(10)) {
      case 0: said.target_id += some(); return;
      case 1: said.sender_id = said.target_id; return;
      case 2: said.my_token = 0; return;
      case 3: said.counter = 0; return;
      case 4:
        said.nics = static_cast<std::uint8_t>(random_.chance(0.5) ? 0 : 17 + random_.below(200));
        return;
      case 5: said.nics = static_cast<std::uint8_t>(said.nics + 1); return;
      case 6:
        said.fragment_bytes = static_cast<std::uint32_t>(random_.below(wire::kMinFragmentBytes));
        return;
      case 7: nic.index = static_cast<std::uint8_t>((nic.index + 1) % wire::kMaxNics); return;
      case 8: nic.index = static_cast<std::uint8_t>(wire::kMaxNics + random_.below(200)); return;
      default: nic.state = static_cast<std::uint8_t>(2 + random_.below(250)); return;
    }
  }

  // Puts an impossible value into one of the blocks.
  void lie_in_blocks() {
    std::size_t chosen = blocks_at();
    std::uint64_t seen = 0;
    for (std::size_t next = chosen; next < header().hwords * wire::kWordBytes;) {
      if (random_.below(++seen) == 0) chosen = next;
      if (at<wire::BlockHead>(next).kind == wire::BlockKind::nic_state) {  // rare
        chosen = next;
        break;
      }
      next += std::max<std::size_t>(at<wire::BlockHead>(next).words, 1) * wire::kWordBytes;
    }
    auto& head = at<wire::BlockHead>(chosen);
    // A CLOSE with a wrong status would still end the session, so it gets a wrong length instead.
    if (random_.chance(0.2) || header().type == wire::PacketType::close) {
      head.words = static_cast<std::uint8_t>(random_.chance(0.5) ? 0 : 255);
      return;
    }
    switch (head.kind) {
      case wire::BlockKind::path_ack: return lie_in_path_ack(chosen);
      case wire::BlockKind::path_marks:
        at<wire::PathMarksBlock>(chosen).slot =
            static_cast<std::uint8_t>(wire::kMaxSlots + random_.below(200));
        return;
      case wire::BlockKind::status: return lie_in_status(chosen);
      case wire::BlockKind::grant: {
        auto& grant = at<wire::GrantBlock>(chosen);
        (random_.chance(0.5) ? grant.from : grant.up_to) = ~some();
        return;
      }
      case wire::BlockKind::nic_state: {
        auto& state = at<wire::NicStateBlock>(chosen);
        switch (random_.below(3)) {
          case 0:
            state.nic = static_cast<std::uint8_t>(wire::kMaxNics + random_.below(200));
            return;
          case 1: state.nic = static_cast<std::uint8_t>(wire::kMaxNics - 1); return;
          default: state.state = 2; return;
        }
      }
      default: head.words = 1; return;  // shorter than what it must have
    }
  }
  void lie_in_path_ack(std::size_t where) {
    auto& ack = at<wire::PathAckBlock>(where);
    switch (random_.below(3)) {
      case 0: ack.slot = static_cast<std::uint8_t>(wire::kMaxSlots + random_.below(200)); return;
      case 1: at<std::uint64_t>(where + sizeof(wire::PathAckBlock)) &= ~std::uint64_t{1}; return;
      default: ack.largest += 0x100000u + some(); return;
    }
  }
  void lie_in_status(std::size_t where) {
    constexpr auto kLastStatus = static_cast<std::uint64_t>(wire::MessageStatus::unsupported);
    auto& entry = at<wire::StatusEntry>(where + sizeof(wire::StatusBlock));
    switch (random_.below(5)) {
      case 0: ++at<wire::StatusBlock>(where).count; return;
      case 1: entry.message += 0x100000u + some(); return;
      case 2: entry.run = 0; return;
      case 3: entry.run = static_cast<std::uint16_t>(wire::kMaxStatusRun + some() % 60000); return;
      default:
        entry.status = static_cast<wire::MessageStatus>(
            random_.chance(0.5) ? 0 : kLastStatus + 1 + random_.below(200));
        return;
    }
  }

  Random& random_;
  bool signed_;
  Frame& frame_;
  const wire::PacketRule& rule_;
  bool keeps_checksum_ = false;
};

}  // namespace

bool is_of_session(const Frame& frame) {
  return wire_header_of(frame).type <= wire::PacketType::challenge;
}

void overhear(Frame& frame) {
  wire::PacketView packet;
  const bool has_checksum = wire_header_of(frame).checksum != 0;
  const auto bad = wire::parse(frame.data(), frame.queue, has_checksum, packet);
  HAWSER_ASSERT(!bad, "an endpoint sends a packet that no other endpoint would accept");
  const std::string_view name = wire::rule_of(packet.type).name;
  HAWSER_ASSERT(wire::describe(packet).starts_with(name));
}

void tell_lie(Random& random, bool signed_frames, Frame& frame) {
  Liar(random, signed_frames, frame).tell();
}

void write_hello(Random& random, const StrangeHello& hello, Frame& frame) {
  struct Packet {
    wire::CommonHeader header;
    wire::SessionPart said;
    wire::NicRecord nic;
  };
  Packet packet{};
  packet.header.version = wire::kVersion;
  packet.header.type = wire::PacketType::hello;
  packet.header.receiver = wire::kNoReceiver;
  packet.header.hwords = sizeof(Packet) / wire::kWordBytes;
  packet.said.sender_id = hello.sender_id;
  packet.said.target_id = hello.target_id;
  packet.said.epoch = random.below(1000);
  packet.said.counter = 1 + static_cast<std::uint32_t>(random.below(1000));
  packet.said.my_index = static_cast<std::uint32_t>(random.next());
  packet.said.my_token = random.next() | 1;
  packet.said.sequence = static_cast<std::uint32_t>(random.next());
  packet.said.first_number = random.next() >> 8;
  packet.said.fragment_bytes =
      wire::kMinFragmentBytes + static_cast<std::uint32_t>(random.below(8192));
  packet.said.nics = 1;
  packet.said.unscheduled_bytes = random.next() >> random.below(64);
  packet.said.cookie = random.chance(0.3) ? random.next() : 0;
  packet.nic.address.bytes[0] = static_cast<std::byte>(proto::NicKind::memory);
  std::memcpy(&packet.nic.address.bytes[1], &hello.address, sizeof hello.address);
  packet.nic.receive_kib = static_cast<std::uint32_t>(random.below(100000));
  packet.nic.max_datagram = static_cast<std::uint16_t>(random.next());
  packet.nic.state = static_cast<std::uint8_t>(random.below(2));
  frame.fill(std::as_bytes(std::span(&packet, 1)), {});
  frame.queue = proto::Queue::data;
  if (!hello.checksum) return;
  const std::uint32_t checksum = proto::crc32c(frame.data());
  std::memcpy(frame.data().data() + offsetof(wire::CommonHeader, checksum), &checksum,
              sizeof checksum);
}

}  // namespace hawser::sim
