// Packets that carry no data: envelopes that ask for a status, probes of paths, and the choice of
// the pair of NICs that control goes over.
#include <algorithm>

#include "proto/core.hpp"
#include "proto/sequence.hpp"

namespace hawser::proto {

wire::EnvelopePart envelope_of(const OutgoingMessage& message) {
  const Hint& hint = message.options.hint;
  wire::EnvelopePart part{};
  part.tag = message.tag;
  part.immediate = message.options.immediate;
  part.set_length(message.bytes);
  part.eflags = message.options.level == Level::delivered ? wire::kEnvelopeDelivered : 0;
  part.context = message.context;
  part.group = hint.group;
  part.step = hint.step;
  part.steps = hint.steps;
  part.members = hint.members;
  part.collective = static_cast<std::uint8_t>(hint.collective);
  part.priority = hint.priority;
  part.kind = wire::EnvelopeKind::message;
  return part;
}

bool Endpoint::Core::send_one(std::size_t nic, const TxPacket& packet) {
  if (nics[nic].nic->tx_burst(std::span(&packet, 1)) == 1) {
    nics[nic].give(now, packet.header_bytes + packet.payload_bytes);
    nics[nic].gathers = true;
    return true;
  }
  ++counters.nic_backpressure;
  pool.give(std::span(&packet.buffer, 1));
  return false;
}

// Control goes over the pair last heard, unless what is known of it says otherwise; then over a
// path that is UP; if there is none, over all pairs in turn. What goes over two pairs takes the one
// last heard in any case: if no path answers any more, UP is what a path was.
void Endpoint::Core::control_route(Peer& peer, std::uint8_t& local, std::uint8_t& remote_nic) {
  local = peer.route_local;
  remote_nic = peer.route_remote;
  bool bad = !nics[local].up || remote(peer, local, remote_nic) == kNoRemote;
  bool bound = false;    // this pair
  bool proven = false;   // a pair of this local NIC carries data
  bool doubted = false;  // one doesn't
  for_each_path(peer, [&](const Path& path) {
    if (path.local_nic != local || peer.ack_twice) return;
    const bool is_up = path.state == PathState::up;
    (is_up ? proven : doubted) = true;
    bound |= path.remote_nic == remote_nic;
    bad |= path.remote_nic == remote_nic && !is_up;
  });
  // That the peer is heard by a pair of its own choice doesn't say that our NIC can send.
  bad |= !bound && doubted && !proven;
  if (!bad || other_route(peer, local, remote_nic)) return;
  next_pair(peer, local, remote_nic);
}

// Of all pairs, in turn, the next one that has a way, if there is any.
void Endpoint::Core::next_pair(Peer& peer, std::uint8_t& local, std::uint8_t& remote_nic) {
  const auto pairs = static_cast<std::uint32_t>(nics.size()) * std::max(peer.remote_nics, 1u);
  for (std::uint32_t left = pairs; left > 0; --left) {
    control_turn = (control_turn + 1) % pairs;
    local = static_cast<std::uint8_t>(control_turn % nics.size());
    remote_nic = static_cast<std::uint8_t>(control_turn / nics.size());
    if (can_address(peer, local, remote_nic) && remote(peer, local, remote_nic) != kNoRemote)
      return;
  }
}

// Keeps to the pair if it has a way.
void Endpoint::Core::find_way(Peer& peer, std::uint8_t& local, std::uint8_t& remote_nic) {
  if (remote(peer, local, remote_nic) == kNoRemote) next_pair(peer, local, remote_nic);
}

// A pair that is UP, other than the one last heard. False: there is none; nothing was set.
bool Endpoint::Core::other_route(const Peer& peer, std::uint8_t& local, std::uint8_t& remote_nic) {
  for (std::size_t i = 0; i < kMaxPaths; ++i) {
    const std::uint32_t index = peer.paths[(i + control_turn) % kMaxPaths];
    if (index == kNoIndex) continue;
    const Path& path = paths.at(index);
    if (path.state != PathState::up || !nics[path.local_nic].up ||
        (path.local_nic == peer.route_local && path.remote_nic == peer.route_remote)) {
      continue;
    }
    control_turn = path.slot + 1u;
    local = path.local_nic;
    remote_nic = path.remote_nic;
    return true;
  }
  return false;
}

// Asks for the status of a message; again: over another pair of NICs, as the answer did not come.
void Endpoint::Core::send_envelope(const OutgoingMessage& message, bool again) {
  Peer& peer = peers.at(message.peer);
  PacketBuffer* buffer = nullptr;
  if (pool.take(std::span(&buffer, 1)) == 0) return;
  std::uint8_t local = 0;
  std::uint8_t remote_nic = 0;
  if (!again || !other_route(peer, local, remote_nic)) control_route(peer, local, remote_nic);
  wire::PacketWriter writer(*buffer);
  writer
      .begin(wire::PacketType::envelope, peer.remote_index, peer.remote_token, to_wire(peer.floor))
      .slot = static_cast<std::uint8_t>(local << 4);
  if (message.next_fragment == message.fragments) writer.header().flags |= wire::kFlagAllSent;
  writer.part(wire::FragmentPart{to_wire(message.number), 0});
  wire::EnvelopePart envelope = envelope_of(message);
  if (message.cancel == Cancel::asked) envelope.kind = wire::EnvelopeKind::cancel;
  writer.part(envelope);
  TxPacket packet;
  packet.buffer = buffer;
  packet.header_bytes = writer.finish(checksum);
  packet.remote = remote(peer, local, remote_nic);
  packet.queue = Queue::control;
  packet.entropy = nics[local].next_entropy();
  ++counters.message_probes_sent;
  if (tracing()) trace_send(TraceKind::message_probe, message, 0, 0);
  if (packet.remote == kNoRemote) return pool.give(std::span(&buffer, 1));
  (void)send_one(local, packet);
}

bool Endpoint::Core::send_probe(Peer& peer, Path& path, bool full) {
  if (path.sent.room() < 2) trim(path, now);
  const RemoteHandle to = remote(peer, path.local_nic, path.remote_nic);
  PacketBuffer* buffer = nullptr;
  if (to == kNoRemote || reserve_records(path, 1) == 0 || pool.take(std::span(&buffer, 1)) == 0) {
    return false;
  }
  const std::uint64_t number = path.sent.next();
  wire::PacketWriter writer(*buffer);
  wire::CommonHeader& header = writer.begin(wire::PacketType::probe, peer.remote_index,
                                            peer.remote_token, to_wire(peer.floor));
  header.slot = static_cast<std::uint8_t>(path.local_nic << 4 | path.slot);
  header.generation = path.generation;
  header.path_number = to_wire(number);
  header.path_back =
      static_cast<std::uint16_t>(path.packets_in_flight == 0 ? 0 : number - path.oldest);
  header.flags = wire::kFlagAckNow;
  if (nics[path.local_nic].lanes > 1) header.flags |= wire::kFlagSprayed;
  const auto padding = full ? std::span<const std::byte>(probe_padding).first(peer.fragment_bytes)
                            : std::span<const std::byte>{};
  TxPacket packet;
  packet.buffer = buffer;
  packet.header_bytes = writer.finish(checksum, padding);
  packet.payload = padding.data();
  packet.payload_bytes = static_cast<std::uint32_t>(padding.size());
  packet.remote = to;
  packet.queue = Queue::data;
  packet.entropy = path.lanes.take(nics[path.local_nic].lanes, path.lane_turn);
  if (!send_one(path.local_nic, packet)) {
    path.lanes.ended(static_cast<std::uint8_t>(packet.entropy), false, false);
    return false;
  }
  if (path.packets_in_flight == 0) path.oldest = number;
  SentPacket& record = path.sent.push(sent_blocks);
  record.sent = now;
  record.departed = path.last_departed = nics[path.local_nic].idle_at;
  record.full_probe = full;
  record.lane = static_cast<std::uint8_t>(packet.entropy);
  ++nics[path.local_nic].data_packets_sent;
  record.wire_bytes = static_cast<std::uint16_t>(packet.header_bytes + packet.payload_bytes);
  ++path.packets_in_flight;
  ++in_flight;
  path.bytes_in_flight += record.wire_bytes;
  ++path.packets_sent;
  path.probe_put_off = false;
  ++counters.path_probes_sent;
  if (tracing()) {
    TraceRecord made = traced(TraceKind::path_probe, peer, path, number, record);
    made.cause = full ? 1 : 0;
    made.bytes = packet.payload_bytes;
    trace(made);
  }
  return true;
}

}  // namespace hawser::proto
