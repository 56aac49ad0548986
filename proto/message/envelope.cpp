// SPDX-License-Identifier: Apache-2.0
// Envelopes, which carry no data: they ask what became of a message, or cancel it.
#include "proto/base/sequence.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

wire::EnvelopePart envelope_of(const OutgoingMessage& message) {
  const Hint& hint = message.options.hint;
  wire::EnvelopePart part{};
  part.tag = message.tag;
  part.immediate = message.options.immediate;
  part.set_length(message.bytes);
  part.eflags = message.options.level == Level::delivered ? wire::kEnvelopeDelivered : 0;
  part.channel = message.channel;
  part.group = hint.group;
  part.step = hint.step;
  part.steps = hint.steps;
  part.members = hint.members;
  part.collective = static_cast<std::uint8_t>(hint.collective);
  part.priority = hint.priority;
  part.kind = wire::EnvelopeKind::message;
  return part;
}

// Asks for the status of a message. After asking in vain it uses more pairs of NICs.
void Outgoing::send_envelope(const OutgoingMessage& message) {
  Peer& peer = peers_.at(message.peer);
  PacketBuffer* const buffer = sender_.take_buffer();
  if (buffer == nullptr) return;
  const Ways ways = routes_.ways_of_question(peer, message.asked);
  wire::PacketWriter writer(*buffer);
  writer.begin(wire::PacketType::envelope, peer.session.remote_index, peer.session.remote_token,
               to_wire(peer.sends.floor));
  if (message.next_fragment == message.fragments) writer.header().flags |= wire::kFlagAllSent;
  if (ways == Ways::all) writer.header().flags |= wire::kFlagInsists;
  writer.part(
      wire::FragmentPart{to_wire(message.number), wire::fragment_field(message.size_class, 0)});
  wire::EnvelopePart envelope = envelope_of(message);
  if (message.cancel == Cancel::asked) envelope.kind = wire::EnvelopeKind::cancel;
  writer.part(envelope);
  ++turn_.counters.message_probes_sent;
  if (turn_.tracing()) reporter_.trace_send(TraceKind::message_probe, message, 0, 0);
  (void)routes_.send(peer, ways, *buffer, writer);
}

}  // namespace hawser::proto
