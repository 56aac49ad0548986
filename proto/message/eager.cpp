// SPDX-License-Identifier: Apache-2.0
// Messages of one fragment that come in their turn and find their receive posted. They go from the
// packet into the receive's buffer, without a descriptor.
//
// One step does the work of arrivals.cpp and receives.cpp, and leaves the same state. Everything
// less simple goes through them: a number out of turn, a known one, no receive, or a peer that
// waits for a descriptor.
#include <algorithm>
#include <cstring>

#include "proto/base/sequence.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/message/incoming.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {

// The group's hint: from the envelope, or from the receive if the envelope names no group.
Hint group_of(const wire::EnvelopePart& envelope, const PostedReceive& receive) {
  if (envelope.group == 0) return receive.options.hint;
  Hint hint;
  hint.group = envelope.group;
  hint.step = envelope.step;
  hint.members = envelope.members;
  return hint;
}

}  // namespace

// False: nothing was done.
bool Incoming::take_eager(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  const wire::EnvelopePart& envelope = *packet.envelope;
  const std::size_t bytes = packet.payload.size();
  if (number != peer.receives.next_to_process || packet.fragment->fragment != 0 ||
      envelope.length() != bytes || bytes > peer.session.session_bytes ||
      descriptors_.any_starved() || !peer.receives.table.has_place_for(number)) {
    return false;
  }
  const PostedReceive* receive = matching_.match({.peer = peers_.id_of(peer),
                                                  .number = number,
                                                  .channel = envelope.channel,
                                                  .tag = envelope.tag,
                                                  .bytes = bytes,
                                                  .immediate = envelope.immediate});
  if (receive == nullptr) return false;
  note_unposted(*receive);
  ++peer.receives.next_to_process;
  descriptors_.note_processed(peer);
  const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, receive->bytes));
  if (receive->scattered) {
    receive->pieces->put(0, packet.payload.first(taken));
  } else if (taken > 0) {
    std::memcpy(receive->data, packet.payload.data(), taken);
  }
  turn_.counters.data_bytes_received += bytes;
  ++turn_.counters.messages_received;
  complete_eager(peer, packet, *receive);

  const auto status =
      taken == bytes ? wire::MessageStatus::delivered : wire::MessageStatus::truncated;
  const bool was_set =
      peer.receives.table.set(number, kFinishedEntry | static_cast<std::uint32_t>(status));
  HAWSER_ASSERT(was_set);
  outbox_.add_status(peer, number, status);
  outbox_.schedule_soon(peer);
  const Hint hint = group_of(envelope, *receive);
  if (groups_.note_complete(envelope.channel, hint)) raise_group(envelope.channel, hint);
  if (peer.receives.table.get(peer.receives.next_to_process)) process_in_order(peer);
  return true;
}

void Incoming::complete_eager(const Peer& peer, const wire::PacketView& packet,
                              const PostedReceive& receive) {
  const wire::EnvelopePart& envelope = *packet.envelope;
  Completion completion;
  completion.operation = receive.operation;
  completion.user_data = receive.options.user_data;
  completion.kind = OperationKind::receive;
  completion.status = packet.payload.size() <= receive.bytes ? Status::ok : Status::truncated;
  completion.channel = envelope.channel;
  completion.peer = peers_.id_of(peer);
  completion.tag = envelope.tag;
  completion.bytes = std::min<std::uint64_t>(packet.payload.size(), receive.bytes);
  completion.message_bytes = packet.payload.size();
  completion.immediate = envelope.immediate;
  turn_.complete(completion);
  if (!turn_.tracing()) return;
  TraceRecord record = record_of(TraceKind::receive_completed, peer);
  record.operation = static_cast<std::uint64_t>(receive.operation);
  record.message = expand(packet.fragment->message, peer.receives.next_to_process);
  record.bytes = static_cast<std::uint32_t>(packet.payload.size());
  record.cause = static_cast<std::uint8_t>(completion.status);
  turn_.trace(record);
}

}  // namespace hawser::proto
