// SPDX-License-Identifier: Apache-2.0
// Packets that carry no data: envelopes that ask for a status, and probes of paths.
#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

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
void Endpoint::Core::send_envelope(const OutgoingMessage& message) {
  Peer& peer = peers.at(message.peer);
  PacketBuffer* const buffer = sender.take_buffer();
  if (buffer == nullptr) return;
  const Ways ways = control_routes.ways_of_question(peer, message.asked);
  wire::PacketWriter writer(*buffer);
  writer.begin(wire::PacketType::envelope, peer.session.remote_index, peer.session.remote_token,
               to_wire(peer.sends.floor));
  if (message.next_fragment == message.fragments) writer.header().flags |= wire::kFlagAllSent;
  if (ways == Ways::all) writer.header().flags |= wire::kFlagInsists;
  writer.part(wire::FragmentPart{to_wire(message.number), 0});
  wire::EnvelopePart envelope = envelope_of(message);
  if (message.cancel == Cancel::asked) envelope.kind = wire::EnvelopeKind::cancel;
  writer.part(envelope);
  ++turn.counters.message_probes_sent;
  if (turn.tracing()) reporter.trace_send(TraceKind::message_probe, message, 0, 0);
  (void)control_routes.send(peer, ways, *buffer, writer);
}

bool Endpoint::Core::send_probe(Peer& peer, Path& path, bool full) {
  if (path.sent.room() < 2) trim(path, turn.now());
  const RemoteHandle to = sender.remote(peer, pair_of(path));
  if (to == kNoRemote || reserve_records(path, 1) == 0) return false;
  PacketBuffer* const buffer = sender.take_buffer();
  if (buffer == nullptr) return false;
  const std::uint64_t number = path.sent.next();
  wire::PacketWriter writer(*buffer);
  wire::CommonHeader& header = writer.begin(wire::PacketType::probe, peer.session.remote_index,
                                            peer.session.remote_token, to_wire(peer.sends.floor));
  header.slot = static_cast<std::uint8_t>(path.local_nic << 4 | path.slot);
  header.generation = path.generation;
  header.path_number = to_wire(number);
  header.path_back =
      static_cast<std::uint16_t>(path.packets_in_flight == 0 ? 0 : number - path.oldest);
  header.flags = wire::kFlagAckNow;
  if (path.unanswered >= kInsistsAfter) header.flags |= wire::kFlagInsists;
  if (nics[path.local_nic].lanes > 1) header.flags |= wire::kFlagSprayed;
  const auto padding = sender.padding(full ? peer.session.fragment_bytes : 0);
  TxPacket packet;
  packet.buffer = buffer;
  packet.header_bytes = sender.finish(writer, padding);
  packet.payload = padding.data();
  packet.payload_bytes = static_cast<std::uint32_t>(padding.size());
  packet.remote = to;
  packet.queue = Queue::data;
  packet.entropy = path.lanes.take(nics[path.local_nic].lanes, path.lane_turn);
  if (!sender.send_one(path.local_nic, packet)) {
    path.lanes.ended(static_cast<std::uint8_t>(packet.entropy), false, false);
    return false;
  }
  if (path.packets_in_flight == 0) path.oldest = number;
  SentPacket& record = path.sent.push(sent_blocks);
  record.sent = turn.now();
  record.departed = path.last_departed = nics[path.local_nic].idle_at;
  record.full_probe = full;
  record.lane = static_cast<std::uint8_t>(packet.entropy);
  ++nics[path.local_nic].data_packets_sent;
  record.wire_bytes = static_cast<std::uint16_t>(packet.header_bytes + packet.payload_bytes);
  ++path.packets_in_flight;
  ++in_flight;
  written_off += path.written_off;
  path.bytes_in_flight += record.wire_bytes;
  ++path.packets_sent;
  path.probe_put_off = false;
  ++turn.counters.path_probes_sent;
  if (turn.tracing()) {
    TraceRecord made = reporter.traced(TraceKind::path_probe, peer, path, number, record);
    made.cause = full ? 1 : 0;
    made.bytes = packet.payload_bytes;
    turn.trace(made);
  }
  return true;
}

}  // namespace hawser::proto
