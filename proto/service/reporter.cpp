// SPDX-License-Identifier: Apache-2.0
// Fills in the records for the caller's trace hook, and names their causes.
#include "proto/service/reporter.hpp"

#include <algorithm>

#include "hawser/status.hpp"
#include "proto/base/sequence.hpp"

namespace hawser {

std::string_view trace_cause_name(TraceKind kind, std::uint8_t cause) noexcept {
  static constexpr std::array<std::string_view, 4> kLosses{"", "gap", "request", "evacuation"};
  static constexpr std::array<std::string_view, 12> kStatuses{
      "",        "accepted", "no_room",       "delivered",        "truncated",  "cancelled",
      "pending", "matched",  "access_denied", "region_withdrawn", "misaligned", "unsupported"};
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
              static_cast<int>(TraceStatus::unsupported) ==
                  static_cast<int>(wire::MessageStatus::unsupported));

namespace {

std::uint32_t cut(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, 0xffffffffu));
}

}  // namespace

TraceRecord record_of(TraceKind kind, const Peer& peer) {
  TraceRecord record;
  record.kind = kind;
  record.endpoint_id = peer.identity.remote_id;
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

void Reporter::emit(Event::Kind kind, const Peer& peer, const Path& path, Reason reason) {
  const Event event{.kind = kind,
                    .reason = reason,
                    .peer = peers_.id_of(peer),
                    .endpoint_id = peer.identity.remote_id,
                    .nic = path.local_nic,
                    .remote_nic = path.remote_nic};
  if (turn_.tracing()) trace_path(event, peer, path);
  turn_.emit(event);
}

TraceRecord Reporter::traced(TraceKind kind, const Peer& peer, const Path& path) const {
  TraceRecord record = record_of(kind, peer);
  record.nic = path.local_nic;
  record.remote_nic = path.remote_nic;
  record.slot = path.slot;
  record.generation = path.generation;
  return record;
}

// Fills in a packet in flight from its record.
TraceRecord Reporter::traced(TraceKind kind, const Peer& peer, const Path& path,
                             std::uint64_t number, const SentPacket& packet) const {
  TraceRecord record = traced(kind, peer, path);
  record.path_number = number;
  if (packet.message == kNoIndex) return record;  // a probe
  if (packet.packed) {
    record.message = expand(packet.message_generation, peer.sends.next_number);
    record.fragment = 0;
    record.more = static_cast<std::uint8_t>(packet.fragment);
    return record;
  }
  record.fragment = packet.fragment;
  if (const auto* message = outgoing_.get(SlabId{packet.message, packet.message_generation})) {
    record.message = message->number;
    record.operation = static_cast<std::uint64_t>(message->operation);
    record.bytes = static_cast<std::uint32_t>(extent_of(*message, packet.fragment).bytes);
  }
  return record;
}

void Reporter::trace_drop(DropReason reason) const {
  TraceRecord record;
  record.kind = TraceKind::packet_dropped;
  record.cause = static_cast<std::uint8_t>(reason);
  record.nic = nic_;
  record.peer = peer_;
  if (peer_ != kNoIndex) record.endpoint_id = peers_.at(peer_).identity.remote_id;
  turn_.trace(record);
}

void Reporter::trace_arrival(const Peer& peer, const wire::PacketView& packet,
                             const ReceivePath& path, std::uint64_t number) const {
  TraceRecord record = record_of(TraceKind::packet_received, peer);
  record.path_number = number;
  record.nic = path.local_nic;
  record.remote_nic = static_cast<std::uint8_t>(packet.header->slot >> 4);
  record.slot = path.slot;
  record.generation = path.generation;
  record.bytes = static_cast<std::uint32_t>(packet.payload.size());
  if (packet.fragment != nullptr) {
    record.message = expand(packet.fragment->message, peer.receives.next_to_process);
    record.fragment = packet.fragment->index();
  }
  turn_.trace(record);
}

void Reporter::trace_path(const Event& event, const Peer& peer, const Path& path) const {
  TraceRecord record = traced(TraceKind::path_state, peer, path);
  record.cause = static_cast<std::uint8_t>(event.reason);
  PathState state = PathState::up;
  if (event.kind == Event::Kind::path_suspect) state = PathState::suspect;
  if (event.kind == Event::Kind::path_down) state = PathState::down;
  if (event.kind == Event::Kind::path_probing) state = PathState::probing;
  record.detail = static_cast<std::uint32_t>(state);
  turn_.trace(record);
}

void Reporter::trace_session(const Peer& peer) const {
  TraceRecord record = record_of(TraceKind::session_state, peer);
  record.detail = static_cast<std::uint32_t>(peer.session.state);
  if (peer.session.state == SessionState::failed)
    record.cause = static_cast<std::uint8_t>(peer.session.failure);
  turn_.trace(record);
}

void Reporter::trace_send(TraceKind kind, const OutgoingMessage& message, std::uint8_t cause,
                          std::uint32_t detail) const {
  TraceRecord record = record_of(kind, peers_.at(message.peer));
  record.operation = static_cast<std::uint64_t>(message.operation);
  record.message = message.number;
  record.bytes = cut(message.bytes);
  record.cause = cause;
  record.detail = detail;
  turn_.trace(record);
}

void Reporter::trace_receive(TraceKind kind, const IncomingMessage& message, std::uint8_t cause,
                             std::uint32_t fragment, std::uint32_t detail) const {
  TraceRecord record = record_of(kind, peers_.at(message.peer), message, fragment);
  record.cause = cause;
  record.detail = detail;
  turn_.trace(record);
}

}  // namespace hawser::proto
