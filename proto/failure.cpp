// How a session ends: failing a peer, closing an endpoint (docs/protocol.md §6, §12).
//
// Timer: `close_at` of a peer, the next CLOSE; `close_wake` of the endpoint folds them.
//
// Invariant: after fail_peer no operation to that peer is pending, except sends that a NIC still
// reads from; these complete when it lets go. Whole messages that nobody has asked for yet stay.
#include <algorithm>
#include <array>

#include "proto/core.hpp"
#include "proto/sequence.hpp"

namespace hawser::proto {

void Endpoint::Core::fail_peer(Peer& peer, Status status) {
  HAWSER_ASSERT(peer.state != SessionState::failed);
  const PeerId id{index_of(peer)};
  const bool real = status != Status::endpoint_closed;
  peer.state = SessionState::failed;
  peer.failure = status;
  if (real) ++counters.peer_failures;
  emit({.kind = Event::Kind::peer_failed,
        .status = status,
        .peer = id,
        .endpoint_id = peer.remote_id,
        .nic = peer.route_local,
        .remote_nic = peer.route_remote});

  while (!peer.retransmits.empty()) drop_retransmit(peer, peer.retransmits.front());
  for (std::uint64_t n = peer.floor; n != peer.next_number; ++n) {
    if (!peer.outgoing.is_open()) break;
    if (const auto index = peer.outgoing.get(n)) finish_send(outgoing.at(*index), status);
  }
  fail_receives(peer, status);
  for (const std::uint32_t index : std::array(peer.paths)) {
    if (index != kNoIndex) release_path(peer, paths.at(index));
  }
  for (std::uint32_t& index : peer.receive_paths) {
    if (index != kNoIndex) receive_paths.free(index);
    index = kNoIndex;
  }
  while (!peer.statuses.empty()) statuses.free(peer.statuses.pop_front(statuses));
  if (peer.outgoing.is_open()) peer.outgoing.close();
  if (peer.incoming.is_open()) peer.incoming.close();
  peer.call_at = peer.ack_at = peer.keepalive_at = kNever;
  peer.pending_since = Time{};
  peer.unacknowledged = 0;
  peer.ack_now = false;
  const std::uint32_t index = index_of(peer);
  if (senders.contains(peers, index)) senders.remove(peers, index);
  if (ackers.contains(peers, index)) ackers.remove(peers, index);
  no_longer_starved(peer);
  peer_timers.remove(index);
  progressed = true;
}

// Receives that wait for this peer alone end with the session; whole messages that no receive has
// asked for yet stay to be received.
void Endpoint::Core::fail_receives(Peer& peer, Status status) {
  IndexList<IncomingMessage, &IncomingMessage::say_link> kept;
  if (peer.incoming.is_open()) {
    for (std::uint64_t i = 0; i < MessageTable::kSpan; ++i) {
      const auto entry = peer.incoming.get(peer.remote_floor + i);
      if (!entry || is_finished_entry(*entry)) continue;
      IncomingMessage& message = incoming.at(*entry);
      if (message.matched) {
        complete_receive(message, status);
        --peer.open_receives;
      } else if (message.processed) {
        continue;  // held by the matching
      }
      free_incoming(message);
    }
  }
  matching.drop_peer(
      PeerId{index_of(peer)},
      [&](const PostedReceive& receive) {
        note_unposted(receive);
        complete_unmatched(receive, status);
      },
      [&](const UnexpectedEntry& entry) {
        IncomingMessage& message = incoming.at(entry.rx_message);
        if (!message.arrived.complete()) return free_incoming(message);
        if (peer.to_say.contains(incoming, entry.rx_message)) {
          peer.to_say.remove(incoming, entry.rx_message);
        }
        kept.push_back(incoming, entry.rx_message);
      });
  while (!kept.empty()) {
    const std::uint32_t index = kept.pop_front(incoming);
    matching.hold(unexpected_entry(incoming.at(index), index));
  }
}

// Nobody will ask any more for the whole messages that a session has left.
void Endpoint::Core::drop_held(Peer& peer) {
  matching.drop_peer(
      PeerId{index_of(peer)}, [](const PostedReceive&) { HAWSER_ASSERT(false); },
      [&](const UnexpectedEntry& entry) { free_incoming(incoming.at(entry.rx_message)); });
}

// Makes a failed peer ready for a new session.
void Endpoint::Core::forget_failed(Peer& peer) {
  HAWSER_ASSERT(peer.state == SessionState::failed);
  peer.state = SessionState::idle;
  peer.remote_token = 0;
  peer.call_at = kNever;
}

void Endpoint::Core::send_closing(Peer& peer, wire::PacketType type) {
  std::uint8_t local = 0;
  std::uint8_t remote_nic = 0;
  control_route(peer, local, remote_nic);
  const RemoteHandle to = remote(peer, local, remote_nic);
  PacketBuffer* buffer = nullptr;
  if (to == kNoRemote || pool.take(std::span(&buffer, 1)) == 0) return;
  wire::PacketWriter writer(*buffer, control_bytes);
  writer.begin(type, peer.remote_index, peer.remote_token, to_wire(peer.floor)).slot =
      static_cast<std::uint8_t>(local << 4);
  writer.part(wire::ClosingPart{++session_sequence, 0, {}});
  if (type == wire::PacketType::close && peer.incoming.is_open()) {
    peer.incoming.for_each([&](std::uint64_t number, std::uint32_t entry) {
      if (is_finished_entry(entry)) {
        (void)writer.status(to_wire(number), status_of_entry(entry));
      } else if (!incoming.at(entry).matched && incoming.at(entry).arrived.complete()) {
        (void)writer.status(to_wire(number), wire::MessageStatus::accepted);
      }
    });
  }
  wire::sign(writer, secret());
  TxPacket packet;
  packet.buffer = buffer;
  packet.header_bytes = writer.finish(checksum);
  packet.remote = to;
  (void)send_one(local, packet);
}

void Endpoint::Core::on_closing(Peer& peer, const wire::PacketView& packet) {
  if (!wire::verify(packet, secret())) return drop(DropReason::bad_mac);
  if (static_cast<std::int32_t>(packet.closing->sequence - peer.remote_sequence) <= 0) {
    return drop(DropReason::stale_session);
  }
  peer.remote_sequence = packet.closing->sequence;
  switch (packet.type) {
    case wire::PacketType::closed: peer.close_answered = true; return;
    case wire::PacketType::close:
      if (peer.state == SessionState::ready) {
        packet.blocks.visit([&](const wire::StatusView& view) { on_status(peer, view); });
      }
      send_closing(peer, wire::PacketType::closed);
      peer.close_answered = true;
      if (peer.state == SessionState::ready) fail_peer(peer, Status::peer_closed);
      return;
    default:
      if (peer.state == SessionState::ready) fail_peer(peer, Status::peer_restarted);
      return;
  }
}

// Closing lingers for the final statuses of what was sent, then says CLOSE until it is answered.
void Endpoint::Core::progress_closing() {
  if (!closing || closed) return;
  const Duration timeout = milliseconds(tunables.close_timeout_ms);
  const Duration spent = now - closing_since;
  bool lingering = false;
  bool unanswered = false;
  for_each_peer([&](Peer& peer) {
    if (peer.state == SessionState::ready) {
      lingering |= peer.open_sends > 0 || something_owed(peer);
      unanswered |= !peer.close_answered;
    } else if (peer.state != SessionState::failed && peer.open_sends > 0) {
      lingering = true;
    }
  });
  if (lingering && spent < timeout / 2) {
    close_wake = closing_since + timeout / 2;
    return;
  }
  if (unanswered && spent < timeout) {
    for_each_peer([&](Peer& peer) {
      if (peer.state != SessionState::ready || peer.close_answered || now < peer.close_at) return;
      send_closing(peer, wire::PacketType::close);
      peer.close_at = now + std::max(milliseconds(2), peer.response.overdue(granularity));
    });
    close_wake = closing_since + timeout;
    for_each_peer([&](const Peer& peer) {
      if (peer.state == SessionState::ready && !peer.close_answered) {
        close_wake = earlier(close_wake, peer.close_at);
      }
    });
    return;
  }
  for_each_peer([&](Peer& peer) {
    if (peer.state == SessionState::ready && !peer.close_answered) {
      send_closing(peer, wire::PacketType::close);  // a last word, whatever became of it
    }
    if (peer.state != SessionState::failed) fail_peer(peer, Status::endpoint_closed);
    drop_held(peer);
  });
  cancel_all(Status::endpoint_closed);
  closed = outgoing.size() == 0 || spent >= timeout * 2;
  close_wake = closed ? kNever : now + milliseconds(1);
}

// Ends every receive that is still posted for any peer.
void Endpoint::Core::cancel_all(Status status) {
  for (const OperationSlot& slot : operations) {
    if (!slot.live || slot.kind != OperationKind::receive) continue;
    if (const auto receive = matching.cancel_receive(slot.operation)) {
      note_unposted(*receive);
      complete_unmatched(*receive, status);
    }
  }
}

}  // namespace hawser::proto
