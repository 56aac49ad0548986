// SPDX-License-Identifier: Apache-2.0
#include "test/proto/wire_roundtrip.hpp"

#include <algorithm>
#include <cstring>

#include "proto/base/assert.hpp"
#include "proto/wire/dump.hpp"

namespace hawser::test {

using namespace proto;
using namespace proto::wire;

namespace {

class Flattener {
 public:
  std::vector<std::uint64_t> values;

  template <class... Fields>
  void add(const Fields&... fields) {
    (values.push_back(static_cast<std::uint64_t>(fields)), ...);
  }
  template <class Element>
  void add_all(std::span<const Element> elements) {
    add(elements.size());
    for (const Element& element : elements) add(element);
  }

  void part(const CommonHeader& h) {
    add(h.version, h.type, h.slot, h.generation, h.receiver, h.token, h.flags, h.path_back,
        h.path_number, h.floor);
  }
  void part(const FragmentPart& p) { add(p.message, p.fragment); }
  void part(const EnvelopePart& p) {
    add(p.tag, p.immediate, p.length(), p.eflags, p.channel, p.group, p.step, p.steps, p.members,
        p.collective, p.priority, p.kind);
  }
  void part(const ReceiveSlotPart& p) { add(p.rx_slot, p.rx_generation); }
  void part(const TargetPart& p) {
    add(p.region, p.generation, p.secret, p.offset, p.length(), p.flags, p.channel, p.note);
  }
  void part(const OperandsPart& p) { add(p.operand, p.compare, p.operation, p.width); }
  void part(const SignalPart& p) {
    add(p.region, p.generation, p.secret, p.offset, p.value, p.operation, p.width);
  }
  void part(const SessionPart& p) {
    add(p.sender_id, p.target_id, p.epoch, p.counter, p.my_index, p.my_token, p.echo_epoch,
        p.echo_counter, p.sequence, p.echo_token, p.first_number, p.fragment_bytes, p.nics,
        p.features, p.absence_ms, p.cookie, p.unscheduled_bytes);
    add_all(std::span<const std::byte>(p.mac));
  }
  void part(const NicRecord& p) {
    add_all(std::span<const std::byte>(p.address.bytes));
    add(p.receive_kib, p.max_datagram, p.index, p.state);
  }
  void part(const ClosingPart& p) {
    add(p.sequence, p.part, p.flags);
    add_all(std::span<const std::byte>(p.mac));
  }
  void part(const ChallengePart& p) {
    add(p.cookie);
    add_all(std::span<const std::byte>(p.mac));
  }

  void operator()(const AckInfoBlock& b) {
    add(BlockKind::ack_info, b.turn, b.behind, b.allowance_kib);
  }
  void operator()(const PathAckView& b) {
    add(BlockKind::path_ack, b.slot, b.generation, b.largest, b.residence_ns, b.ce_count);
    add_all(b.bitmap);
  }
  void operator()(const StatusView& b) {
    add(BlockKind::status, b.entries.size());
    for (const StatusEntry& entry : b.entries) add(entry.message, entry.status, entry.run);
  }
  void operator()(const RequestView& b) {
    add(BlockKind::request, b.message, b.base);
    add_all(b.bitmap);
  }
  void operator()(const GrantBlock& b) {
    add(BlockKind::grant, b.message, b.rx_slot, b.rx_generation, b.from, b.up_to);
  }
  void operator()(const PathMarksBlock& b) {
    add(BlockKind::path_marks, b.slot, b.generation, b.largest, b.marks);
  }
  void operator()(const NicStateBlock& b) { add(BlockKind::nic_state, b.nic, b.state, b.sequence); }
};

// Writes each block that it is shown.
struct BlockCopier {
  PacketWriter& writer;

  void operator()(const AckInfoBlock& b) {
    HAWSER_ASSERT(writer.ack_info(b.turn, b.behind, b.allowance_kib));
  }
  void operator()(const PathAckView& b) {
    HAWSER_ASSERT(
        writer.path_ack(b.slot, b.generation, b.largest, b.residence_ns, b.ce_count, b.bitmap));
  }
  void operator()(const StatusView& b) {
    HAWSER_ASSERT(writer.statuses(b.entries) == b.entries.size());
  }
  void operator()(const RequestView& b) {
    HAWSER_ASSERT(writer.request(b.message, b.base, b.bitmap));
  }
  void operator()(const GrantBlock& b) {
    HAWSER_ASSERT(writer.grant(b.message, b.rx_slot, b.rx_generation, b.from, b.up_to));
  }
  void operator()(const PathMarksBlock& b) {
    HAWSER_ASSERT(writer.path_marks(b.slot, b.generation, b.largest, b.marks));
  }
  void operator()(const NicStateBlock& b) {
    HAWSER_ASSERT(writer.nic_state(b.nic, b.state == 1, b.sequence));
  }
};

}  // namespace

std::vector<std::uint64_t> flatten(const PacketView& packet) {
  Flattener flat;
  flat.add(packet.type);
  flat.part(*packet.header);
  if (packet.fragment != nullptr) flat.part(*packet.fragment);
  if (packet.envelope != nullptr) flat.part(*packet.envelope);
  if (packet.receive_slot != nullptr) flat.part(*packet.receive_slot);
  if (packet.target != nullptr) flat.part(*packet.target);
  if (packet.operands != nullptr) flat.part(*packet.operands);
  if (packet.signal != nullptr) flat.part(*packet.signal);
  if (packet.session != nullptr) flat.part(*packet.session);
  for (const NicRecord& nic : packet.nics) flat.part(nic);
  if (packet.closing != nullptr) flat.part(*packet.closing);
  if (packet.challenge != nullptr) flat.part(*packet.challenge);
  packet.blocks.visit(flat);
  flat.add_all(packet.payload);
  return flat.values;
}

std::vector<std::byte> reencode(const PacketView& packet, bool with_checksum) {
  PacketBuffer buffer;
  PacketWriter writer(buffer);
  const CommonHeader& from = *packet.header;
  CommonHeader& header = writer.begin(packet.type, from.receiver, from.token, from.floor);
  header.slot = from.slot;
  header.generation = from.generation;
  header.flags = from.flags;
  header.path_back = from.path_back;
  header.path_number = from.path_number;
  if (packet.fragment != nullptr) writer.part(*packet.fragment);
  if (packet.envelope != nullptr) writer.part(*packet.envelope);
  if (packet.receive_slot != nullptr) writer.part(*packet.receive_slot);
  if (packet.target != nullptr) writer.part(*packet.target);
  if (packet.operands != nullptr) writer.part(*packet.operands);
  if (packet.signal != nullptr) writer.part(*packet.signal);
  if (packet.session != nullptr) writer.part(*packet.session);
  for (const NicRecord& nic : packet.nics) writer.part(nic);
  if (packet.closing != nullptr) writer.part(*packet.closing);
  if (packet.challenge != nullptr) writer.part(*packet.challenge);
  packet.blocks.visit(BlockCopier{writer});
  const std::uint32_t header_bytes = writer.finish(with_checksum, packet.payload);
  std::vector<std::byte> datagram(header_bytes + packet.payload.size());
  std::memcpy(datagram.data(), buffer.bytes, header_bytes);
  std::copy(packet.payload.begin(), packet.payload.end(), datagram.begin() + header_bytes);
  return datagram;
}

bool check_round_trip(std::span<const std::byte> datagram, Queue queue, bool check_checksum) {
  PacketView first;
  if (parse(datagram, queue, check_checksum, first)) return false;
  const std::vector<std::uint64_t> shown = flatten(first);
  HAWSER_ASSERT(!describe(first).empty());
  HAWSER_ASSERT(first.headers().size() + first.payload.size() == datagram.size());
  if (first.headers().size() > PacketBuffer::kBytes) return true;  // longer than the writer writes

  const std::vector<std::byte> once = reencode(first, check_checksum);
  PacketView second;
  HAWSER_ASSERT(!parse(once, queue, check_checksum, second));
  HAWSER_ASSERT(flatten(second) == shown);
  HAWSER_ASSERT(reencode(second, check_checksum) == once);
  return true;
}

}  // namespace hawser::test
