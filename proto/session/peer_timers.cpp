// SPDX-License-Identifier: Apache-2.0
// The one deadline of each peer: the earliest timer of its session, its paths, the control that is
// due to it, its messages without a descriptor, and its grants. expire fires what is due.
//
// Timers that fire elsewhere: `due.at` in Outbox::send_due, `close_at` in progress_closing,
// `rest_at` in consider_rest, and `stall_at` in watch_progress.
#include "proto/message/incoming.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

// Folds a peer's timers into its one deadline.
void Sessions::rearm(Peer& peer) {
  Time at = kNever;
  if (peer.session.state == SessionState::ready) {
    at = earlier(paths_.next_timer(peer), earlier(outbox_.due_at(peer), descriptors_.due_at(peer)));
    at = earlier(at, incoming_.pace_ends(peer.receives));
    if (is_pending(peer)) {
      const Time quiet = peer.session.last_heard + patience_with(turn_, peer) / 4;
      at = earlier(at, gives_up_at(peer));
      at = earlier(at, peer.session.keepalive_at == kNever ? quiet : peer.session.keepalive_at);
    }
  }
  at = earlier(at, earlier(peer.session.call_at, peer.session.rest_at));
  timers_.update(peer.index, at);
}

void Sessions::expire(Peer& peer) {
  hear_news(peer);
  if (peer.session.call_at <= turn_.now()) call_again(peer);
  if (peer.session.state == SessionState::ready) {
    paths_.expire(peer);
    if (descriptors_.due_at(peer) <= turn_.now()) descriptors_.expire(peer);
    incoming_.expire_pace(peer.receives);
    watch_liveness(peer);
  }
  rearm(peer);
}

void Sessions::expire(std::uint32_t most) {
  for (std::uint32_t i = 0; i < most && timers_.next() <= turn_.now(); ++i) {
    Peer& peer = peers_.at(timers_.pop().id);
    expire(peer);
    touched_.add(peer);
    if (timers_.deadline_of(peer.index) <= turn_.now()) {
      timers_.update(peer.index, turn_.now() + Duration{1});  // it waits for this turn's end
    }
  }
}

}  // namespace hawser::proto
