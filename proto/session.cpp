// Sessions: the handshake and liveness (docs/protocol.md §6, §12).
//
// Timers of a peer: `call_at` (the next HELLO), `keepalive_at`, the peer timeout. The handshake is
// symmetric: both sides send their whole state, and a side is READY once the other has echoed its
// token, so HELLOs that cross make one session.
//
// Invariants: index and token that the other must say are drawn afresh for every session; a session
// packet whose MAC or target is wrong changes nothing.
#include <algorithm>

#include "proto/core.hpp"
#include "proto/sequence.hpp"

namespace hawser::proto {

// What the handshake's round trip says of the response time: a guess that the first sample
// replaces, as the other side may have been starting up.
ResponseTime Endpoint::Core::first_guess(Duration handshake) const {
  const Duration initial = microseconds(tunables.initial_rtt_us);
  return ResponseTime(std::clamp(handshake, Duration{1}, initial * 8));
}

Peer* Endpoint::Core::find_peer(std::uint64_t remote_id) {
  Peer* found = nullptr;
  for_each_peer([&](Peer& peer) {
    if (peer.remote_id == remote_id) found = &peer;
  });
  return found;
}

Peer* Endpoint::Core::make_peer(std::uint64_t remote_id) {
  SlabId id;
  Peer* peer = peers.try_allocate(id);
  if (peer == nullptr) return nullptr;
  peer->remote_id = remote_id;
  peer->paths.fill(kNoIndex);
  peer->receive_paths.fill(kNoIndex);
  peer->response = ResponseTime(microseconds(tunables.initial_rtt_us));
  const std::size_t row = nics.size() * kMaxNics;
  std::fill_n(remotes.begin() + static_cast<std::ptrdiff_t>(id.index * row), row, kNoRemote);
  return peer;
}

RemoteHandle Endpoint::Core::remote(Peer& peer, std::uint8_t local, std::uint8_t remote_nic) {
  const std::size_t at =
      (std::size_t{index_of(peer)} * nics.size() + local) * kMaxNics + remote_nic;
  RemoteHandle& handle = remotes[at];
  if (handle == kNoRemote && remote_nic < peer.remote_nics) {
    RemoteHandle opened = kNoRemote;
    if (nics[local].nic->open_remote(peer.nics[remote_nic].address, opened) == Status::ok) {
      handle = opened;
    }
  }
  return handle;
}

void Endpoint::Core::learn_nics(Peer& peer, std::span<const wire::NicRecord> records) {
  for (std::size_t i = 0; i < kMaxNics; ++i) {
    const wire::NicRecord record = i < records.size() ? records[i] : wire::NicRecord{};
    if (peer.nics[i].address != record.address) {
      for (std::size_t local = 0; local < nics.size(); ++local) {
        RemoteHandle& handle =
            remotes[(std::size_t{index_of(peer)} * nics.size() + local) * kMaxNics + i];
        if (handle != kNoRemote) nics[local].nic->close_remote(handle);
        handle = kNoRemote;
      }
    }
    peer.nics[i] = record;
  }
  peer.remote_nics = static_cast<std::uint32_t>(records.size());
  peer.remote_nic_sequences.fill(0);
}

// Draws this side's part of a new session.
bool Endpoint::Core::begin_session(Peer& peer) {
  drop_held(peer);
  if (!peer.outgoing.open(table_blocks, tunables.initial_sequence)) return false;
  peer.failure = Status::ok;
  peer.counter = ++handshake_counter;
  peer.token = random.next() | 1;
  peer.next_number = peer.floor = tunables.initial_sequence;
  peer.calls = 0;
  peer.calling_since = now;
  peer.call_interval = microseconds(tunables.handshake_retry_us);
  peer.last_heard = now;
  peer.close_answered = false;
  return true;
}

// An operation or connect wants the session to exist.
void Endpoint::Core::want_session(Peer& peer) {
  peer.wanted = true;
  if (peer.state == SessionState::idle) {
    if (!begin_session(peer)) return;
    peer.state = SessionState::calling;
  }
  if (peer.state != SessionState::ready && peer.call_at == kNever) {
    peer.calling_since = peer.call_at = now;
    touch(peer);
  }
}

void Endpoint::Core::call_again(Peer& peer) {
  if (peer.state == SessionState::ready || peer.state == SessionState::failed) {
    peer.call_at = kNever;
    return;
  }
  if (now - peer.calling_since >= milliseconds(tunables.peer_timeout_ms)) {
    return fail_peer(peer, Status::peer_unreachable);
  }
  const auto pairs = static_cast<std::uint32_t>(nics.size()) * std::max(peer.remote_nics, 1u);
  const std::uint32_t attempt = peer.calls++ % pairs;
  const auto local = static_cast<std::uint8_t>(attempt % nics.size());
  const auto far =
      static_cast<std::uint8_t>((attempt + attempt / nics.size()) % std::max(peer.remote_nics, 1u));
  peer.called_at = now;
  send_session(peer, wire::PacketType::hello, local, far);
  peer.call_at = now + peer.call_interval + random.jitter(peer.call_interval / 2);
  peer.call_interval =
      std::min(peer.call_interval * 2, std::max(milliseconds(tunables.peer_timeout_ms) / 16,
                                                microseconds(tunables.handshake_retry_us)));
}

void Endpoint::Core::send_session(Peer& peer, wire::PacketType type, std::uint8_t local,
                                  std::uint8_t remote_nic) {
  const RemoteHandle to = remote(peer, local, remote_nic);
  PacketBuffer* buffer = nullptr;
  if (to == kNoRemote || pool.take(std::span(&buffer, 1)) == 0) return;
  wire::PacketWriter writer(*buffer);
  const bool known = peer.remote_token != 0;
  writer
      .begin(type, known ? peer.remote_index : wire::kNoReceiver, known ? peer.remote_token : 0, 0)
      .slot = static_cast<std::uint8_t>(local << 4);
  wire::SessionPart part{};
  part.sender_id = endpoint_id;
  part.target_id = peer.remote_id;
  part.epoch = epoch;
  part.counter = peer.counter;
  part.my_index = index_of(peer);
  part.my_token = peer.token;
  part.echo_epoch = known ? peer.remote_epoch : 0;
  part.echo_counter = known ? peer.remote_counter : 0;
  part.echo_token = known ? peer.remote_token : 0;
  part.sequence = ++session_sequence;
  part.first_number = tunables.initial_sequence;
  part.fragment_bytes = fragment_bytes;
  part.nics = static_cast<std::uint8_t>(nics.size());
  part.unscheduled_bytes = tunables.unscheduled_bytes;
  writer.part(part);
  for (std::size_t i = 0; i < nics.size(); ++i) writer.part(nic_record(i));
  wire::sign(writer, secret());
  TxPacket packet;
  packet.buffer = buffer;
  packet.header_bytes = writer.finish(checksum);
  packet.remote = to;
  ++counters.handshakes_sent;
  (void)send_one(local, packet);
}

wire::NicRecord Endpoint::Core::nic_record(std::size_t i) const {
  wire::NicRecord record{};
  const NicCaps& caps = nics[i].nic->caps();
  record.address = nics[i].nic->address();
  record.receive_kib =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(caps.receive_bytes / 1024, 0xffffffff));
  record.max_datagram = static_cast<std::uint16_t>(caps.max_datagram_bytes / 8);
  record.index = static_cast<std::uint8_t>(i);
  record.state = nics[i].up ? 1 : 0;
  return record;
}

void Endpoint::Core::on_session(std::size_t nic, const wire::PacketView& packet) {
  const wire::SessionPart& hello = *packet.session;
  if (!wire::verify(packet, secret())) return drop(DropReason::bad_mac);
  if (hello.target_id != endpoint_id || hello.sender_id == endpoint_id || hello.my_token == 0 ||
      hello.counter == 0) {
    return drop(DropReason::stale_session);
  }
  for (std::size_t i = 0; i < packet.nics.size(); ++i) {
    if (packet.nics[i].index != i) return drop(DropReason::bad_field);
  }
  const std::uint8_t far = packet.header->slot >> 4;
  if (far >= packet.nics.size()) return drop(DropReason::bad_field);
  Peer* found = find_peer(hello.sender_id);
  if (found == nullptr && packet.type == wire::PacketType::hello && !closing) {
    found = make_peer(hello.sender_id);
  }
  if (found == nullptr) return drop(DropReason::limit);
  Peer& peer = *found;

  const bool same = peer.remote_token != 0 && hello.epoch == peer.remote_epoch &&
                    hello.counter == peer.remote_counter && hello.my_token == peer.remote_token;
  if (!same) {
    // Also of a session that has failed: what still flies of it doesn't make it anew.
    const bool unknown = peer.remote_counter == 0;
    const bool newer = unknown || hello.epoch > peer.remote_epoch ||
                       (hello.epoch == peer.remote_epoch &&
                        static_cast<std::int32_t>(hello.counter - peer.remote_counter) > 0);
    if (!newer) return drop(DropReason::stale_session);
    if (peer.state == SessionState::ready) fail_peer(peer, Status::peer_restarted);
    // Who closes makes no new session, but for what it was to send before that.
    if (closing && peer.open_sends == 0) return drop(DropReason::limit);
    if (!learn_session(peer, hello, packet.nics)) return drop(DropReason::limit);
  } else if (peer.state == SessionState::failed ||
             static_cast<std::int32_t>(hello.sequence - peer.remote_sequence) <= 0) {
    return drop(DropReason::stale_session);
  }
  peer.remote_sequence = hello.sequence;
  peer.last_heard = now;
  peer.route_local = static_cast<std::uint8_t>(nic);
  peer.route_remote = far;

  const bool was_ready = peer.state == SessionState::ready;
  const bool echoed = hello.echo_epoch == epoch && hello.echo_counter == peer.counter &&
                      hello.echo_token == peer.token;
  if (echoed && !was_ready) {
    if (peer.calls == 1) peer.response = first_guess(now - peer.called_at);
    become_ready(peer);
  } else if (!was_ready) {
    peer.state = SessionState::answered;
  }
  if (packet.type == wire::PacketType::hello || !was_ready) {
    send_session(peer, wire::PacketType::welcome, static_cast<std::uint8_t>(nic), far);
  }
  touch(peer);
}

// Takes over what the other side says of itself; the first word of a new session.
bool Endpoint::Core::learn_session(Peer& peer, const wire::SessionPart& hello,
                                   std::span<const wire::NicRecord> records) {
  if (peer.state == SessionState::failed) forget_failed(peer);
  if (peer.state == SessionState::idle && !begin_session(peer)) return false;
  if (peer.incoming.is_open()) peer.incoming.close();
  if (!peer.incoming.open(table_blocks, hello.first_number)) return false;
  peer.remote_epoch = hello.epoch;
  peer.remote_counter = hello.counter;
  peer.remote_token = hello.my_token;
  peer.remote_index = hello.my_index;
  peer.remote_unscheduled = hello.unscheduled_bytes;
  peer.first_remote_number = hello.first_number;
  peer.remote_floor = hello.first_number;
  peer.next_to_process = hello.first_number;
  peer.remote_absence = milliseconds(hello.absence_ms);
  peer.fragment_bytes = std::min(fragment_bytes, hello.fragment_bytes);
  peer.any_turn = false;
  peer.newest_acked_sent = peer.settled_sent = Time{};
  peer.patience_eighths = 8;
  learn_nics(peer, records);
  std::uint64_t ring = ~std::uint64_t{0};
  for (const wire::NicRecord& record : records) {
    ring = std::min(ring, std::uint64_t{record.receive_kib} * 1024);
  }
  // Until the peer says more: an eighth of its ring, as others may start at the same moment.
  peer.allowance = std::max<std::uint64_t>(ring / 8, 2 * wire_bytes_of_full_packet(peer));
  return true;
}

void Endpoint::Core::become_ready(Peer& peer) {
  peer.state = SessionState::ready;
  peer.call_at = kNever;
  peer.keepalive_at = kNever;
  ++counters.sessions_established;
  emit({.kind = Event::Kind::peer_established,
        .peer = PeerId{index_of(peer)},
        .endpoint_id = peer.remote_id});
  open_paths(peer);
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    // The handshake may have left before the NIC changed.
    if (nics[nic].sequence == 0) continue;
    peer.nic_state_due = static_cast<std::uint16_t>(peer.nic_state_due | 1u << nic);
    owe_soon(peer);
  }
  peer.outgoing.for_each([&](std::uint64_t, std::uint32_t index) {
    OutgoingMessage& message = outgoing.at(index);
    prepare(peer, message);
    want_to_send(peer, message);
    consider_asking(message);
  });
  progressed = true;
}

bool Endpoint::Core::pending(const Peer& peer) const {
  return peer.open_sends + peer.open_receives + peer.posted_receives > 0;
}

// The peer timeout and what keeps it from firing wrongly: a probe now and then while something is
// pending.
void Endpoint::Core::watch_liveness(Peer& peer) {
  if (peer.state != SessionState::ready) return;
  if (!pending(peer)) {
    peer.pending_since = Time{};
    peer.keepalive_at = kNever;
    return;
  }
  const Duration timeout = milliseconds(tunables.peer_timeout_ms) + peer.remote_absence;
  if (peer.pending_since == Time{}) {
    peer.pending_since = now;
    peer.timeout_put_off = false;
  }
  Time fails_at = later(peer.pending_since, peer.last_heard) + timeout;
  if (fails_at <= now) {
    // Away for long ourselves: what came meanwhile is being read, and answers must get a chance.
    if (late && !peer.timeout_put_off) {
      peer.timeout_put_off = true;
      peer.pending_since =
          now - timeout + std::min(timeout, peer.response.overdue(granularity) * 4);
    } else {
      return fail_peer(peer, Status::peer_timeout);
    }
  }
  const Time quiet = peer.last_heard + timeout / 4;
  if (peer.keepalive_at == kNever || peer.keepalive_at < quiet) peer.keepalive_at = quiet;
  if (now < peer.keepalive_at) return;
  peer.keepalive_at = now + timeout / 8;
  Path* best = nullptr;
  for_each_path(peer, [&](Path& path) {
    if (best == nullptr || path.state < best->state) best = &path;
  });
  if (best != nullptr && best->packets_in_flight == 0 && send_probe(peer, *best, false)) {
    arm_pto(*best);
  }
}

}  // namespace hawser::proto
