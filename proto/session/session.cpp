// SPDX-License-Identifier: Apache-2.0
// Sessions (docs/internals/protocol.md §6, §12). This file begins them, makes them ready, and
// decides whether their peers live. The handshake is in handshake.cpp. Ends are in failure.cpp and
// closing.cpp, and places.cpp gives their places to others.
//
// Timers of a peer: `keepalive_at`, the peer timeout.
//
// Invariants: a fresh token is drawn for every session, and for every incarnation of the peer that
// learns it. An old incarnation may still send its token when its successor is known. A peer's
// incarnation counts as verified once it has sent our token.
#include <algorithm>
#include <array>
#include <tuple>

#include "proto/base/sequence.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

struct Sessions::Beginning {
  // Whether large packets of an open send are in flight or wait to be sent. Other sends are no
  // reason to give up a peer for lost large packets: cancelled ones, small ones, and those that
  // wait for the receiver.
  static bool any_large_send(const Sessions& sessions, const Peer& peer) {
    bool any = false;
    peer.sends.table.for_each([&](std::uint64_t, std::uint32_t index) {
      const OutgoingMessage& message = sessions.outgoing_.at(index);
      const bool moves = message.in_flight > 0 || message.queued > 0 ||
                         (message.next_fragment < message.may_send && !message.stopped);
      const std::uint64_t largest =
          std::min<std::uint64_t>(message.bytes, message.fragment_bytes) + wire::kDataHeaderBytes;
      any |= !message.finished && moves && largest * 2 > wire_bytes_of_full_packet(peer);
    });
    return any;
  }
};

Sessions::Sessions(const Parts& parts, const Self& self)
    : turn_(parts.turn),
      peers_(parts.peers),
      sender_(parts.sender),
      nics_(parts.sender.nics()),
      reporter_(parts.reporter),
      senders_(parts.senders),
      touched_(parts.touched),
      outbox_(parts.outbox),
      routes_(parts.routes),
      descriptors_(parts.descriptors),
      call_queue_(parts.calls),
      half_open_(parts.half_open),
      verdicts_(parts.verdicts),
      paths_(parts.paths),
      receive_paths_(parts.receive_paths),
      outgoing_(parts.outgoing),
      incoming_(parts.incoming),
      numbers_(parts.numbers),
      endpoint_id_(self.endpoint_id),
      epoch_(self.epoch),
      job_secret_(self.job_secret),
      keys_(self.seed),
      name_mask_(keys_.name_mask()),
      places_(peers_.capacity()),
      timers_(peers_.capacity()) {}

std::uint32_t Sessions::name_of(const Peer& peer) const { return peer.index ^ name_mask_; }

// The response time that a handshake's round trip suggests. It is only a guess, which the first
// sample replaces, as the other side may have been starting up.
ResponseTime Sessions::first_guess(Duration handshake) const {
  const Duration initial = microseconds(turn_.tunables.initial_rtt_us);
  return ResponseTime(std::clamp(handshake, Duration{1}, initial * 8));
}

Peer* Sessions::find_peer(std::uint64_t remote_id) {
  const std::uint32_t index = peers_.find(remote_id);
  if (index == kNoIndex) return nullptr;
  return peers_.is_awake(index) ? &peers_.at(index) : &wake(index);
}

// The common part of making a peer and waking one.
void Sessions::start_peer(Peer& peer) {
  peer.paths.indices.fill(kNoIndex);
  peer.paths.bound = 0;
  peer.paths.receiving.fill(kNoIndex);
  peer.paths.nic_news = news_.newest();
  peer.response = ResponseTime(microseconds(turn_.tunables.initial_rtt_us));
}

void Sessions::learn_nics(Peer& peer, std::span<const wire::NicRecord> records) {
  for (std::size_t i = 0; i < std::max<std::size_t>(records.size(), peer.session.remote_nics);
       ++i) {
    const wire::NicRecord record = i < records.size() ? records[i] : wire::NicRecord{};
    const bool known = i < peer.session.remote_nics;
    if (known && peers_.nic_of(peer, i).address != record.address) sender_.close_remotes(peer, i);
    peers_.nic_of(peer, i) = record;
  }
  peer.session.remote_nics = static_cast<std::uint8_t>(records.size());
  peer.identity.remote_nic_sequences.fill(0);
  paths_.pair_nics(peer);
}

// Never draws the same token twice. The cookie belonged to the token before.
void Sessions::draw_token(Peer& peer) {
  peer.session.token = keys_.token(++handshake_counter_, peer.identity.remote_id);
  peer.handshake.cookie = 0;
}

// Draws a token, and the size that belongs to it, for the peer's NICs that are known now.
void Sessions::draw_offer(Peer& peer) {
  draw_token(peer);
  peer.handshake.offered_bytes = ask_ways(peer);
}

// Draws this side's part of a new session.
bool Sessions::begin_session(Peer& peer) {
  if (!peer.sends.table.is_open() &&
      !peer.sends.table.open(numbers_, turn_.tunables.initial_sequence)) {
    return false;
  }
  peer.session.failure = Status::ok;
  peer.session.failure_reason = Reason::none;
  draw_offer(peer);
  peer.identity.counter = handshake_counter_;
  peer.sends.next_number = peer.sends.floor = peer.sends.told_floor =
      turn_.tunables.initial_sequence;
  peer.slots.path_start = turn_.tunables.initial_sequence;
  peer.handshake.calls = 0;
  peer.handshake.calling_since = turn_.now();
  peer.handshake.call_interval = microseconds(turn_.tunables.handshake_retry_us);
  peer.session.last_heard = turn_.now();
  peer.session.announcing = false;
  peer.session.close_sent = false;
  peer.session.refused = peer.session.outdated = false;
  peer.session.close_answered = false;
  outbox_.begin_session(peer);
  ControlRoutes::begin_session(peer);
  peer.handshake.close_parts.fill(0);
  peer.handshake.close_part_count = 0;
  return true;
}

wire::NicRecord Sessions::nic_record(std::size_t i) const {
  wire::NicRecord record{};
  const NicCaps& caps = nics_[i].nic->caps();
  record.address = nics_[i].nic->address();
  record.receive_kib =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(caps.receive_bytes / 1024, 0xffffffff));
  record.max_datagram = static_cast<std::uint16_t>(caps.max_datagram_bytes / 8);
  record.index = static_cast<std::uint8_t>(i);
  record.state = nics_[i].up ? 1 : 0;
  return record;
}

// Takes over what the other side says of itself at the start of a new session.
bool Sessions::learn_session(Peer& peer, const wire::SessionPart& hello,
                             std::span<const wire::NicRecord> records) {
  if (peer.session.state == SessionState::failed) forget_failed(peer);
  const std::uint64_t told_with = peer.session.state == SessionState::idle ? 0 : peer.session.token;
  if (peer.session.state == SessionState::idle && !begin_session(peer)) return false;
  // The incarnation answered before may be READY: its packets must not count as this one's.
  if (peer.session.state == SessionState::answered &&
      (hello.epoch != peer.identity.remote_epoch ||
       hello.counter != peer.identity.remote_counter)) {
    draw_token(peer);
    half_open_.leave(peer);  // enters anew: it has just proven an address, so it is no old stranger
  }
  if (peer.receives.table.is_open()) peer.receives.table.close();
  if (!peer.receives.table.open(numbers_, hello.first_number)) return false;
  peer.identity.remote_epoch = hello.epoch;
  peer.identity.remote_counter = hello.counter;
  peer.session.remote_token = hello.my_token;
  peer.session.remote_index = hello.my_index;
  peer.identity.remote_unscheduled = hello.unscheduled_bytes;
  peer.handshake.one_sided = (hello.features & wire::kFeatureOneSided) != 0;
  peer.handshake.size_classes = (hello.features & wire::kFeatureSizeClasses) != 0;
  peer.slots.first_remote_number = hello.first_number;
  peer.receives.remote_floor = hello.first_number;
  peer.receives.next_to_process = hello.first_number;
  peer.session.remote_absence = milliseconds(hello.absence_ms);
  peer.silence.any_turn = false;
  peer.silence.behind = 0;
  peer.silence.newest_acked_sent = peer.silence.settled_sent = Time{};
  peer.receives.patience_eighths = 8;
  learn_nics(peer, records);
  // Nothing was sent with the present token yet.
  if (peer.session.token != told_with) peer.handshake.offered_bytes = ask_ways(peer);
  set_session_bytes(peer.session, std::min(peer.handshake.offered_bytes, hello.fragment_bytes));
  std::uint64_t ring = ~std::uint64_t{0};
  for (const wire::NicRecord& record : records) {
    ring = std::min(ring, std::uint64_t{record.receive_kib} * 1024);
  }
  // Until the peer says more: an eighth of its ring, as others may start at the same moment.
  peer.paths.allowance = std::max<std::uint64_t>(ring / 8, 2 * wire_bytes_of_full_packet(peer));
  return true;
}

void Sessions::become_ready(Peer& peer) {
  half_open_.leave(peer);
  end_calling(peer);
  peer.session.state = SessionState::ready;
  peer.session.named = false;
  if (turn_.tracing()) reporter_.trace_session(peer);
  peer.session.met = true;
  peer.identity.verified_epoch = peer.identity.remote_epoch;
  peer.identity.verified_counter = peer.identity.remote_counter;
  peer.session.call_at = kNever;
  peer.session.keepalive_at = kNever;
  ++turn_.counters.sessions_established;
  turn_.emit({.kind = Event::Kind::peer_established,
              .reason = Reason::handshake,
              .peer = peers_.id_of(peer),
              .endpoint_id = peer.identity.remote_id});
  peer.paths.nic_news = news_.newest();  // these paths know the NICs as they are
  paths_.open_paths(peer);
  if (!verdicts_.empty()) paths_.want_verdicts();
  // The handshake may have left before a NIC changed.
  if (std::ranges::any_of(nics_, &LocalNic::has_moved)) announce(peer);
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    if (nics_[nic].sequence == 0) continue;
    outbox_.add_nic_state(peer, nic);
    outbox_.schedule_soon(peer);
  }
  if (doubts_ways(peer.session))
    follow_ways(peer);  // they may have changed since the handshake began
  outgoing_.begin_session(peer);
  turn_.progress();
}

// Time during which this end was away does not count as silence of the peer. Packets from the peer
// don't count while nothing large reaches it. A peer that only has to prove that it lives must also
// have been silent for the whole timeout.
Time Sessions::gives_up_at(const Peer& peer) const {
  Time since =
      later(peer.session.pending_since == Time{} ? turn_.now() : peer.session.pending_since,
            peer.session.last_heard);
  if (peer.session.small_only_since != Time{})
    since = earlier(since, peer.session.small_only_since);
  const Duration patience = patience_with(turn_, peer);
  const Duration whole = milliseconds(turn_.tunables.peer_timeout_ms) + peer.session.remote_absence;
  Time at = since + patience;
  if (patience < whole) at = later(at, peer.session.last_heard + whole);
  return at + turn_.absence().since(since);
}

// Enforces the peer timeout. While something is pending it sends a probe now and then, so that the
// timeout does not fire wrongly.
void Sessions::watch_liveness(Peer& peer) {
  if (peer.session.state != SessionState::ready) return;
  // The peer was heard since then; before that nothing was pending.
  if (peer.session.pending_since != Time{} && peer.session.last_heard > peer.session.pending_since)
    peer.session.questioned = peer.session.floor_awaited = false;
  if (!is_pending(peer)) {
    peer.session.pending_since = peer.session.small_only_since = peer.session.stall_at = Time{};
    peer.session.keepalive_at = kNever;
    return;
  }
  watch_progress(peer);
  const Duration timeout = patience_with(turn_, peer);
  if (peer.session.pending_since == Time{}) {
    peer.session.pending_since = turn_.now();
    peer.session.timeout_put_off = false;
  }
  // Clear it at once: the next large send then has the whole timeout.
  if (peer.session.small_only_since != Time{} && !Beginning::any_large_send(*this, peer)) {
    peer.session.small_only_since = Time{};
  }
  if (gives_up_at(peer) <= turn_.now()) {
    // This end was away for long. It is still reading its rings, so answers must get a chance.
    if (turn_.is_late() && !peer.session.timeout_put_off) {
      peer.session.timeout_put_off = true;
      peer.session.pending_since =
          turn_.now() - timeout + std::min(timeout, peer.response.overdue(turn_.granularity) * 4);
    } else {
      return fail_peer(peer, Status::peer_timeout);
    }
  }
  const Time quiet = peer.session.last_heard + timeout / 4;
  if (peer.session.keepalive_at == kNever || peer.session.keepalive_at < quiet)
    peer.session.keepalive_at = quiet;
  if (turn_.now() < peer.session.keepalive_at) return;
  peer.session.keepalive_at = turn_.now() + timeout / 8;
  if (probe_best_path(peer, false)) return;
  // All bound paths have been asked, and are silent.
  if (Path* more = paths_.bind_next(peer, false)) {
    if (more->state == PathState::up && paths_.send_probe(peer, *more, false))
      paths_.arm_pto(*more);
    return;
  }
  probe_best_path(peer, true);
  for (const std::uint32_t index : std::array(peer.paths.indices)) {
    if (index == kNoIndex) continue;
    const Path& path = paths_.at(index);
    if (path.state == PathState::up) paths_.bridge(peer, path.local_nic, path.remote_nic, true);
  }
}

// Makes the peer answer. False: every path waits for an answer. With `again` such paths are asked
// too, in turn.
bool Sessions::probe_best_path(Peer& peer, bool again) {
  Path* best = nullptr;
  paths_.for_each(peer.paths, [&](Path& path) {
    const auto rank = [again](const Path& one) {
      return std::tuple(one.state, one.packets_in_flight > 0, again ? one.last_departed : Time{},
                        one.unanswered);
    };
    if (best == nullptr || rank(path) < rank(*best)) best = &path;
  });
  if (best == nullptr || (best->packets_in_flight > 0 && !again)) return false;
  if (paths_.send_probe(peer, *best, false)) paths_.arm_pto(*best);
  // An UP path whose driver finds no way goes DOWN, as if there were data for it.
  if (best->state == PathState::up) (void)paths_.has_way(peer, *best);
  return true;
}

}  // namespace hawser::proto
