// SPDX-License-Identifier: Apache-2.0
// fail_peer ends a session that fails, and every operation with that peer. A restart of a READY
// peer is noticed when a packet of its newer process is believed, or when the program connects to
// that process. Sends and receives then end with the status peer_restarted. They end with
// peer_timeout if the new process does not call in time, or has an older epoch. None of them goes
// to the new process. The old process may have got a send that went out whole, so its completion
// says `outcome_unknown`. Receives for any peer stay posted, unless the peer's message has matched
// them.
//
// Two files call fail_peer for what a peer says. In handshake.cpp, `admit` believes a session
// packet of a newer incarnation; new operations then go to that one. If it is of the same process,
// that process gave up the session, and the status is peer_timeout. If the session was not READY
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
#include "proto/message/incoming.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/path/receive_paths.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

struct Sessions::Failure {
  // Whether the peer was still heard long after it last acknowledged anything of a send.
  static bool answers_nothing(const Sessions& sessions, const Peer& peer) {
    const Time since = peer.session.last_heard - patience_with(sessions.turn_, peer) / 4;
    if (peer.silence.newest_acked_sent >= since) return false;
    bool any = false;
    peer.sends.table.for_each([&](std::uint64_t, std::uint32_t index) {
      const OutgoingMessage& message = sessions.outgoing_.at(index);
      any |= !message.finished && coarse_since(message.moved, since) > 0;
    });
    return any;
  }

  // Whether a NIC here has found the way to one of the peer's.
  static bool has_way(Sessions& sessions, Peer& peer) {
    for (std::size_t local = 0; local < sessions.nics_.size(); ++local) {
      for (std::uint32_t far = 0; far < peer.session.remote_nics; ++far) {
        if (sessions.sender_.remote(peer, NicPair(local, far)) != kNoRemote) return true;
      }
    }
    return false;
  }

  static Reason reason_of(Sessions& sessions, Peer& peer, Status status, Reason of_timeout) {
    if (status == Status::peer_full) return Reason::no_place;
    const bool was_ready = status == Status::peer_timeout;
    if (was_ready && of_timeout != Reason::none) return of_timeout;
    if (!was_ready && status != Status::peer_unreachable) return Reason::status;
    if (std::ranges::none_of(sessions.nics_, [](const auto& nic) { return nic.up; })) {
      return Reason::nics_down;
    }
    if (was_ready && peer.session.small_only_since != Time{}) return Reason::only_small;
    if (was_ready) return answers_nothing(sessions, peer) ? Reason::one_way : Reason::unheard;
    if (peer.session.outdated) return Reason::stale_epoch;
    if (peer.session.state == SessionState::answered) return Reason::one_way;
    return has_way(sessions, peer) ? Reason::never_heard : Reason::no_way;
  }
};

void Sessions::fail_peer(Peer& peer, Status status, Reason of_timeout) {
  HAWSER_ASSERT(peer.session.state != SessionState::failed);
  const PeerId id = peers_.id_of(peer);
  const bool real = status != Status::endpoint_closed;
  peer.session.failure_reason = Failure::reason_of(*this, peer, status, of_timeout);
  half_open_.leave(peer);
  end_calling(peer);
  peer.session.state = SessionState::failed;
  peer.session.failure = status;
  peer.session.named = false;
  if (turn_.tracing()) reporter_.trace_session(peer);
  if (real) ++turn_.counters.peer_failures;
  turn_.emit({.kind = Event::Kind::peer_failed,
              .reason = peer.session.failure_reason,
              .status = status,
              .peer = id,
              .endpoint_id = peer.identity.remote_id,
              .nic = peer.session.route.local,
              .remote_nic = peer.session.route.remote});

  outgoing_.end_session(peer, status);
  descriptors_.forget(peer);  // else it would be offered the descriptors that it frees
  incoming_.end_session(peer, status, closing_ && peer.session.close_sent);
  for (const std::uint32_t index : std::array(peer.paths.indices)) {
    if (index != kNoIndex) paths_.release_path(peer, paths_.at(index));
  }
  receive_paths_.forget_all(peer.paths);
  outbox_.end_session(peer);
  if (peer.sends.table.is_open()) peer.sends.table.close();
  if (peer.receives.table.is_open()) peer.receives.table.close();
  peer.session.call_at = peer.session.keepalive_at = kNever;
  peer.session.pending_since = peer.session.small_only_since = peer.session.stall_at = Time{};
  peer.session.questioned = peer.session.floor_awaited = false;
  const std::uint32_t index = peer.index;
  if (senders_.contains(peers_, index)) senders_.remove(peers_, index);
  timers_.remove(index);
  touched_.add(peer);
  if (!verdicts_.empty()) paths_.want_verdicts();
  (void)places_.ended.push(id);  // a walk finds those without room here
  turn_.progress();
}

// A session with an earlier process ends. Messages that were posted to a peer that was not READY
// go to the process that the program named.
void Sessions::name_process(Peer& peer, std::uint64_t epoch) {
  if (epoch == 0 || epoch == peer.identity.verified_epoch) return;
  peer.session.named = false;
  if (epoch < peer.identity.verified_epoch) return;
  if (peer.session.state == SessionState::ready) fail_peer(peer, Status::peer_restarted);
  if (peer.session.state == SessionState::answered && peer.identity.remote_epoch < epoch) {
    half_open_.leave(peer);
    peer.session.state = SessionState::calling;
    if (turn_.tracing()) reporter_.trace_session(peer);
    peer.session.remote_token = 0;
    draw_token(peer);  // the earlier process may know the one before
  }
  peer.identity.verified_epoch = epoch;
  peer.identity.verified_counter = 0;
  peer.session.named = true;
}

void Sessions::forget_failed(Peer& peer) {
  HAWSER_ASSERT(peer.session.state == SessionState::failed);
  peer.session.state = SessionState::idle;
  if (turn_.tracing()) reporter_.trace_session(peer);
  peer.session.remote_token = 0;
  peer.session.call_at = kNever;
}

}  // namespace hawser::proto
