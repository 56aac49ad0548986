// SPDX-License-Identifier: Apache-2.0
// Records for the caller's trace hook (hawser/trace.hpp). All of these are called only if tracing()
// is true, so that without a hook the cost is a branch.
#include "proto/endpoint/trace.hpp"

#include <algorithm>

#include "hawser/status.hpp"
#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser {

std::string_view trace_cause_name(TraceKind kind, std::uint8_t cause) noexcept {
  static constexpr std::array<std::string_view, 4> kLosses{"", "gap", "request", "evacuation"};
  static constexpr std::array<std::string_view, 8> kStatuses{
      "", "accepted", "no_room", "delivered", "truncated", "cancelled", "pending", "matched"};
  switch (kind) {
    case TraceKind::packet_dropped: return cause < kDropReasons ? kDropReasonTexts[cause].name : "";
    case TraceKind::packet_lost: return cause < kLosses.size() ? kLosses[cause] : "";
    case TraceKind::path_state: return cause < kReasonTexts.size() ? kReasonTexts[cause].name : "";
    case TraceKind::message_status: return cause < kStatuses.size() ? kStatuses[cause] : "";
    case TraceKind::session_state:
    case TraceKind::send_completed:
    case TraceKind::receive_completed: return to_string(static_cast<Status>(cause));
    default: return "";
  }
}

}  // namespace hawser

namespace hawser::proto {

static_assert(static_cast<int>(TraceSession::failed) == static_cast<int>(SessionState::failed) &&
              static_cast<int>(TraceStatus::matched) ==
                  static_cast<int>(wire::MessageStatus::matched));

namespace {

std::uint32_t cut(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, 0xffffffffu));
}

}  // namespace

TraceRecord record_of(TraceKind kind, const Peer& peer) {
  TraceRecord record;
  record.kind = kind;
  record.endpoint_id = peer.remote_id;
  record.peer = peer.index;
  return record;
}

TraceRecord record_of(TraceKind kind, const Peer& peer, const IncomingMessage& message,
                      std::uint32_t fragment) {
  TraceRecord record = record_of(kind, peer);
  record.operation = static_cast<std::uint64_t>(message.operation);
  record.message = message.number;
  record.fragment = fragment;
  record.bytes = cut(message.bytes);
  return record;
}

TraceRecord Endpoint::Core::traced(TraceKind kind, const Peer& peer) const {
  return record_of(kind, peer);
}

TraceRecord Endpoint::Core::traced(TraceKind kind, const Peer& peer, const Path& path) const {
  TraceRecord record = traced(kind, peer);
  record.nic = path.local_nic;
  record.remote_nic = path.remote_nic;
  record.slot = path.slot;
  record.generation = path.generation;
  return record;
}

// Fills in a packet in flight from its record.
TraceRecord Endpoint::Core::traced(TraceKind kind, const Peer& peer, const Path& path,
                                   std::uint64_t number, const SentPacket& packet) {
  TraceRecord record = traced(kind, peer, path);
  record.path_number = number;
  if (packet.message == kNoIndex) return record;  // a probe
  if (packet.packed) {
    record.message = expand(packet.message_generation, peer.next_number);
    record.fragment = 0;
    record.more = static_cast<std::uint8_t>(packet.fragment);
    return record;
  }
  record.fragment = packet.fragment;
  if (const auto* message = outgoing.get(SlabId{packet.message, packet.message_generation})) {
    record.message = message->number;
    record.operation = static_cast<std::uint64_t>(message->operation);
    record.bytes = static_cast<std::uint32_t>(payload_of(peer, *message, packet.fragment).size());
  }
  return record;
}

void Endpoint::Core::trace_drop(DropReason reason) const {
  TraceRecord record;
  record.kind = TraceKind::packet_dropped;
  record.cause = static_cast<std::uint8_t>(reason);
  record.nic = receiving_nic;
  record.peer = receiving_peer;
  if (receiving_peer != kNoIndex) record.endpoint_id = peers.at(receiving_peer).remote_id;
  turn.trace(record);
}

void Endpoint::Core::trace_arrival(const Peer& peer, const wire::PacketView& packet,
                                   const ReceivePath& path, std::uint64_t number) const {
  TraceRecord record = traced(TraceKind::packet_received, peer);
  record.path_number = number;
  record.nic = path.local_nic;
  record.remote_nic = static_cast<std::uint8_t>(packet.header->slot >> 4);
  record.slot = path.slot;
  record.generation = path.generation;
  record.bytes = static_cast<std::uint32_t>(packet.payload.size());
  if (packet.fragment != nullptr) {
    record.message = expand(packet.fragment->message, peer.next_to_process);
    record.fragment = packet.fragment->fragment;
  }
  turn.trace(record);
}

void Endpoint::Core::trace_path(const Event& event, const Path& path) {
  TraceRecord record = traced(TraceKind::path_state, peers.at(peer_place(event.peer)), path);
  record.cause = static_cast<std::uint8_t>(event.reason);
  PathState state = PathState::up;
  if (event.kind == Event::Kind::path_suspect) state = PathState::suspect;
  if (event.kind == Event::Kind::path_down) state = PathState::down;
  if (event.kind == Event::Kind::path_probing) state = PathState::probing;
  record.detail = static_cast<std::uint32_t>(state);
  turn.trace(record);
}

void Endpoint::Core::trace_session(const Peer& peer) const {
  TraceRecord record = traced(TraceKind::session_state, peer);
  record.detail = static_cast<std::uint32_t>(peer.state);
  if (peer.state == SessionState::failed) record.cause = static_cast<std::uint8_t>(peer.failure);
  turn.trace(record);
}

void Endpoint::Core::trace_send(TraceKind kind, const OutgoingMessage& message, std::uint8_t cause,
                                std::uint32_t detail) const {
  TraceRecord record = traced(kind, peers.at(message.peer));
  record.operation = static_cast<std::uint64_t>(message.operation);
  record.message = message.number;
  record.bytes = cut(message.bytes);
  record.cause = cause;
  record.detail = detail;
  turn.trace(record);
}

void Endpoint::Core::trace_receive(TraceKind kind, const IncomingMessage& message,
                                   std::uint8_t cause, std::uint32_t fragment,
                                   std::uint32_t detail) const {
  TraceRecord record = record_of(kind, peers.at(message.peer), message, fragment);
  record.cause = cause;
  record.detail = detail;
  turn.trace(record);
}

}  // namespace hawser::proto
