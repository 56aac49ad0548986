// SPDX-License-Identifier: Apache-2.0
// fail_peer ends a session that fails, and every operation with that peer. If a peer that was READY
// restarts, sends and receives end with the status peer_restarted, and nothing goes to its new
// process. The old process may have got a send that went out whole, so its completion says
// `outcome_unknown`. Receives for any peer stay posted, unless the peer's message has matched them.
//
// Two files call fail_peer for what a peer says. In handshake.cpp, `admit` believes a session
// packet of a newer incarnation; new operations then go to that one. If the session was not READY
// yet, it calls no fail_peer, and the operations wait for the new process. In closing.cpp,
// `on_closing` gets a RESET: the peer has given up the session. Sends to the peer are then refused
// with the status, until one end connects anew. closing.cpp also ends sessions on purpose.
// docs/internals/protocol.md §12 names the other causes.
//
// Invariants: after fail_peer no operation to that peer is pending, except sends that a NIC still
// reads from. Such a send has completed with `released` unset, and completes once more when the NIC
// releases its bytes. If its final status had come before, it completes only then. Whole messages
// that no receive has taken stay until one does: their sender may have learned that they are
// accepted.
#include <algorithm>
#include <array>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"
#include "proto/peer/patience.hpp"

namespace hawser::proto {

namespace {

// Whether the peer was still heard long after it last acknowledged anything of a send.
template <class Core>
bool answers_nothing(const Core& core, const Peer& peer) {
  const Time since = peer.session.last_heard - patience_with(core.turn, peer) / 4;
  if (peer.silence.newest_acked_sent >= since) return false;
  bool any = false;
  peer.sends.table.for_each([&](std::uint64_t, std::uint32_t index) {
    const OutgoingMessage& message = core.outgoing.at(index);
    any |= !message.finished && coarse_since(message.moved, since) > 0;
  });
  return any;
}

// Whether a NIC here has found the way to one of the peer's.
template <class Core>
bool has_way(Core& core, Peer& peer) {
  for (std::size_t local = 0; local < core.nics.size(); ++local) {
    for (std::uint32_t far = 0; far < peer.session.remote_nics; ++far) {
      if (core.sender.remote(peer, NicPair(local, far)) != kNoRemote) return true;
    }
  }
  return false;
}

template <class Core>
Reason reason_of(Core& core, Peer& peer, Status status, Reason of_timeout) {
  if (status == Status::peer_full) return Reason::no_place;
  const bool was_ready = status == Status::peer_timeout;
  if (was_ready && of_timeout != Reason::none) return of_timeout;
  if (!was_ready && status != Status::peer_unreachable) return Reason::status;
  if (std::ranges::none_of(core.nics, [](const auto& nic) { return nic.up; })) {
    return Reason::nics_down;
  }
  if (was_ready && peer.session.small_only_since != Time{}) return Reason::only_small;
  if (was_ready) return answers_nothing(core, peer) ? Reason::one_way : Reason::unheard;
  if (peer.session.outdated) return Reason::stale_epoch;
  if (peer.session.state == SessionState::answered) return Reason::one_way;
  return has_way(core, peer) ? Reason::never_heard : Reason::no_way;
}

}  // namespace

void Endpoint::Core::fail_peer(Peer& peer, Status status, Reason of_timeout) {
  HAWSER_ASSERT(peer.session.state != SessionState::failed);
  const PeerId id = peers.id_of(peer);
  const bool real = status != Status::endpoint_closed;
  peer.session.failure_reason = reason_of(*this, peer, status, of_timeout);
  half_open.leave(peer);
  end_calling(peer);
  peer.session.state = SessionState::failed;
  peer.session.failure = status;
  if (turn.tracing()) reporter.trace_session(peer);
  if (real) ++turn.counters.peer_failures;
  turn.emit({.kind = Event::Kind::peer_failed,
             .reason = peer.session.failure_reason,
             .status = status,
             .peer = id,
             .endpoint_id = peer.identity.remote_id,
             .nic = peer.session.route.local,
             .remote_nic = peer.session.route.remote});

  outgoing.end_session(peer, status);
  descriptors.forget(peer);  // else it would be offered the descriptors that it frees
  incoming.end_session(peer, status, closing && peer.session.close_sent);
  for (const std::uint32_t index : std::array(peer.paths.indices)) {
    if (index != kNoIndex) paths.release_path(peer, paths.at(index));
  }
  receive_paths.forget_all(peer.paths);
  outbox.end_session(peer);
  if (peer.sends.table.is_open()) peer.sends.table.close();
  if (peer.receives.table.is_open()) peer.receives.table.close();
  peer.session.call_at = peer.session.keepalive_at = kNever;
  peer.session.pending_since = peer.session.small_only_since = peer.session.stall_at = Time{};
  peer.session.questioned = false;
  const std::uint32_t index = peer.index;
  if (senders.contains(peers, index)) senders.remove(peers, index);
  peer_timers.remove(index);
  touched.add(peer);
  if (!verdicts.empty()) paths.want_verdicts();
  (void)peer_places.ended.push(id);  // a walk finds those without room here
  turn.progress();
}

// Makes a failed peer ready for a new session.
void Endpoint::Core::forget_failed(Peer& peer) {
  HAWSER_ASSERT(peer.session.state == SessionState::failed);
  peer.session.state = SessionState::idle;
  if (turn.tracing()) reporter.trace_session(peer);
  peer.session.remote_token = 0;
  peer.session.call_at = kNever;
}

}  // namespace hawser::proto
