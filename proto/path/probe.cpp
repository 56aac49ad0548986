// SPDX-License-Identifier: Apache-2.0
// A probe: a packet without data that has a path number and asks for an acknowledgement
// (docs/internals/protocol.md §9). A full one has as many bytes as the largest data packet.
#include "proto/base/sequence.hpp"
#include "proto/path/path_set.hpp"
#include "proto/peer/peer.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

bool PathSet::send_probe(Peer& peer, Path& path, bool full) {
  if (path.sent.room() < 2) trim(path, turn_.now());
  const RemoteHandle to = sender_.remote(peer, pair_of(path));
  if (to == kNoRemote || reserve_records(path, 1) == 0) return false;
  PacketBuffer* const buffer = sender_.take_buffer();
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
  if (nics_[path.local_nic].lanes > 1) header.flags |= wire::kFlagSprayed;
  const auto padding = sender_.padding(full ? peer.session.fragment_bytes : 0);
  TxPacket packet;
  packet.buffer = buffer;
  packet.header_bytes = sender_.finish(writer, padding);
  packet.payload = padding.data();
  packet.payload_bytes = static_cast<std::uint32_t>(padding.size());
  packet.remote = to;
  packet.queue = Queue::data;
  packet.entropy = path.lanes.take(nics_[path.local_nic].lanes, path.lane_turn);
  if (!sender_.send_one(path.local_nic, packet)) {
    path.lanes.ended(static_cast<std::uint8_t>(packet.entropy), false, false);
    return false;
  }
  SentPacket& record = push(path, packet);
  record.full_probe = full;
  ++turn_.counters.path_probes_sent;
  if (turn_.tracing()) {
    TraceRecord made = reporter_.traced(TraceKind::path_probe, peer, path, number, record);
    made.cause = full ? 1 : 0;
    made.bytes = packet.payload_bytes;
    turn_.trace(made);
  }
  return true;
}

}  // namespace hawser::proto
