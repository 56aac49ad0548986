// SPDX-License-Identifier: Apache-2.0
// Several small messages in one packet.
//
// Messages to one peer share a packet if four conditions hold. They have one fragment each, were
// never sent before, wait one behind the other with consecutive numbers, and fit into one packet
// buffer together. No message waits for others to join: a packet takes what is there when it is
// written. There is therefore no timer here. A burst shares packets, as all but its first message
// find others waiting.
//
// A lost message is retransmitted alone, as DATA: the peer requests messages, not packets.
//
// The record of such a packet names the first message by its number. That message may end, and its
// slot be reused, before the others. A lookup by number skips a message that has ended. The bytes
// were copied into the packet's buffer: nothing of the caller's is read after that, and no cookie
// comes back.
#include <algorithm>
#include <array>

#include "proto/base/sequence.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/peer/peer.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/wire/packed.hpp"

namespace hawser::proto {

namespace {

[[nodiscard]] bool may_share(const OutgoingMessage& message) {
  return message.fragments == 1 && !message.granted && message.sent_before == 0 &&
         message.readable && message.kind == SendKind::message;
}

}  // namespace

bool Outgoing::pack_others(Peer& peer, Pick& pick, wire::PacketWriter& writer, TxPacket& packet) {
  if (turn_.tunables.pack_messages == 0 || pick.again || peer.sends.to_send.empty()) return false;
  OutgoingMessage& first = messages_.at(pick.message);
  if (!may_share(first)) return false;
  const std::size_t limit =
      std::min<std::size_t>(PacketBuffer::kBytes, wire_bytes_of_full_packet(peer));
  wire::PackedRow row(*packet.buffer, writer.header_bytes(), limit);
  const auto joins = [&](const OutgoingMessage& message) {
    return message.number == first.number + pick.more + 1 && may_share(message) &&
           message.next_fragment == 0 && row.has_room_for(message.bytes);
  };
  std::array<std::byte, Joints::kMostBeside> gathered;
  if (!row.add_first(payload(first, extent_of(first, 0), gathered.data()))) return false;
  while (!peer.sends.to_send.empty()) {
    OutgoingMessage& message = messages_.at(peer.sends.to_send.front());
    if (!joins(message)) break;
    row.add(to_wire(message.number), envelope_of(message),
            payload(message, extent_of(message, 0), gathered.data()));
    ++message.next_fragment;
    ++message.in_flight;
    turn_.counters.data_bytes_sent += message.bytes;
    ++pick.more;
    peer.sends.to_send.pop_front(messages_);
  }
  if (pick.more == 0) return false;
  ++first.in_flight;
  turn_.counters.data_bytes_sent += first.bytes;
  writer.header().type = wire::PacketType::packed;
  packet.header_bytes =
      sender_.finish(writer, row.bytes()) + static_cast<std::uint32_t>(row.bytes().size());
  return true;
}

void Outgoing::record_packed(const Pick& pick, SentPacket& record) {
  record.packed = true;
  record.message_generation = to_wire(messages_.at(pick.message).number);
  record.fragment = pick.more;
  ++turn_.counters.packed_packets_sent;
  turn_.counters.packed_messages_sent += pick.more + 1;
}

// No NIC took the packet: restores the state before the pick.
void Outgoing::unpick_packed(Peer& peer, const Pick& pick) {
  const std::uint64_t first = messages_.at(pick.message).number;
  for (std::uint64_t number = first + pick.more + 1; number-- != first;) {
    const auto index = peer.sends.table.get(number);
    HAWSER_ASSERT(index.has_value());  // nothing has happened to it since
    OutgoingMessage& message = messages_.at(*index);
    message.next_fragment = 0;
    --message.in_flight;
    turn_.counters.data_bytes_sent -= message.bytes;
    if (!peer.sends.to_send.contains(messages_, *index))
      peer.sends.to_send.push_front(messages_, *index);
  }
}

// The record of a packed packet counts retransmit queue entries; other records name their single
// one.
void Outgoing::lose_packed(Peer& peer, SentPacket& record) {
  record.retransmit = 0;
  for_each_message_in(peer.sends, record, [&](OutgoingMessage& message) {
    --message.in_flight;
    const std::uint32_t before = message.queued;
    queue_retransmit(peer, messages_.id_of(message), 0, nullptr);
    record.retransmit += message.queued - before;
    consider_asking(message);
  });
}

// The packet was declared lost, but arrived: its messages that still wait for retransmission need
// none.
void Outgoing::packed_is_late(Peer& peer, const SentPacket& record) {
  std::uint32_t sent_again = record.retransmit;
  for_each_message_in(peer.sends, record, [&](OutgoingMessage& message) {
    if (message.queued == 0) return;
    if (sent_again > 0) --sent_again;
    drop_retransmits(peer.sends, message);
    consider_asking(message);
  });
  turn_.counters.spurious_retransmits += sent_again;
}

}  // namespace hawser::proto
