// SPDX-License-Identifier: Apache-2.0
// How a peer is called (docs/internals/protocol.md §6): over which pairs of NICs, how often, and
// for how long. handshake.cpp decides what the answers prove.
//
// Timer of a peer: `call_at`, the next HELLO. At most max_outstanding_handshakes peers are in their
// first calls; others wait for their turn (service/call_queue.hpp).
#include <algorithm>

#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/call_queue.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {

// After so many HELLOs, a peer that does not answer gives others their turn.
constexpr std::uint32_t kQuickCalls = 3;
// After those, this many calls try all pairs of NICs once.
constexpr std::uint32_t kSweepCalls = 8;
// The longest interval between calls is this part of peer_timeout.
constexpr std::int64_t kIntervals = 16;

// How long a peer that does not answer is called.
Duration calls_for(const Turn& turn, const Peer& peer) {
  const Duration timeout = milliseconds(turn.tunables.peer_timeout_ms);
  // The peer's places for dead peers become free after its peer timeout. A session of an earlier
  // process of ours ends only after the absence that was allowed it, too.
  if (peer.session.outdated)
    return timeout + timeout / 4 + milliseconds(turn.tunables.longest_absence_ms);
  return peer.session.refused ? timeout + timeout / 4 : timeout;
}

// How long this end listens after its last call: the answer may be a CHALLENGE first.
Duration listens_for(const Turn& turn, const Peer& peer) {
  return peer.response.overdue(turn.granularity) * 4;
}

}  // namespace

void Sessions::want_session(Peer& peer) {
  peer.session.wanted = true;
  half_open_.leave(peer);
  if (peer.session.state == SessionState::idle) {
    if (!begin_session(peer)) return;
    peer.session.state = SessionState::calling;
    if (turn_.tracing()) reporter_.trace_session(peer);
    turn_.emit({.kind = Event::Kind::peer_calling,
                .reason = Reason::asked,
                .peer = peers_.id_of(peer),
                .endpoint_id = peer.identity.remote_id});
  }
  const bool is_called = peer.session.call_at != kNever || CallQueue::waits(peer);
  if (peer.session.state == SessionState::ready || is_called) return;
  if (call_queue_.begin(peer)) begin_calling(peer, turn_.now());
}

void Sessions::begin_calling(Peer& peer, Time at) {
  peer.handshake.calling_since = peer.session.call_at = at;
  peer.session.timeout_put_off = false;
  touched_.add(peer);
}

// Takes an address of a peer that has not been heard to answer yet. If it differs from the known
// one, which may be a stranger's claim, calls go there from now on, with full patience.
void Sessions::call_elsewhere(Peer& peer, std::span<const wire::NicRecord> records) {
  bool same = records.size() == peer.session.remote_nics;
  for (std::size_t i = 0; same && i < records.size(); ++i) {
    same = peers_.nic_of(peer, i).address == records[i].address;
  }
  if (same) return;
  learn_nics(peer, records);
  peer.handshake.cookie = 0;
  if (peer.session.state == SessionState::calling)
    draw_offer(peer);  // no end is READY with the old token
  peer.session.refused = peer.session.outdated = false;
  peer.session.timeout_put_off = false;
  peer.handshake.calls = 0;
  peer.handshake.call_interval = microseconds(turn_.tunables.handshake_retry_us);
  peer.handshake.calling_since = turn_.now();
  if (!CallQueue::waits(peer)) peer.session.call_at = turn_.now();
}

// Answered, failed, or unanswered for a while: the next peer gets its turn.
void Sessions::end_calling(Peer& peer) {
  Peer* const next = call_queue_.end(peer);
  if (next == nullptr) return;
  const Duration at_most = microseconds(turn_.tunables.handshake_retry_us) / 16;
  begin_calling(*next, turn_.now() + turn_.random.jitter(at_most));
}

// The time between two calls, without its jitter, grows up to this.
Duration Sessions::longest_interval() const {
  return std::max(milliseconds(turn_.tunables.peer_timeout_ms) / kIntervals,
                  microseconds(turn_.tunables.handshake_retry_us));
}

// Sends a HELLO over the next pair of NICs. After the first calls it uses several pairs, so that a
// few calls reach all of them. Arms the timer for the next call.
void Sessions::say_hello(Peer& peer) {
  const std::uint32_t far_nics = std::max<std::uint32_t>(peer.session.remote_nics, 1);
  const std::uint32_t pairs = static_cast<std::uint32_t>(nics_.size()) * far_nics;
  const auto pair_at = [&](std::uint32_t attempt) {
    const auto local = static_cast<std::uint32_t>(attempt % nics_.size());
    NicPair pair;
    pair.local = local % kMaxNics;
    pair.remote = (local + attempt / nics_.size()) % far_nics % kMaxNics;
    return pair;
  };
  // If the session lives, all pairs are tried at once, and then at leisure.
  const bool knows = peer.session.state == SessionState::ready;
  const bool sweeps = knows || peer.handshake.calls >= kQuickCalls;
  const std::uint32_t swept = peer.handshake.calls / pairs;
  std::uint32_t count = sweeps ? (pairs + kSweepCalls - 1) / kSweepCalls : 1;
  for (; count > 0; --count) {
    NicPair pair = pair_at(peer.handshake.call_turn++ % pairs);
    for (std::uint32_t left = pairs; left > 1 && sender_.remote(peer, pair) == kNoRemote; --left) {
      pair = pair_at(peer.handshake.call_turn++ % pairs);
    }
    ++peer.handshake.calls;
    send_session(peer, wire::PacketType::hello, pair, peer.handshake.cookie);
  }
  peer.session.call_at = turn_.now() + peer.handshake.call_interval +
                         turn_.random.jitter(peer.handshake.call_interval / 2);
  // An announcement's next interval is longer only after all pairs were tried at this one.
  if (knows && peer.handshake.calls / pairs == swept) return;
  peer.handshake.call_interval = std::min(peer.handshake.call_interval * 2, longest_interval());
}

void Sessions::call_again(Peer& peer) {
  const bool knows = peer.session.state == SessionState::ready;
  if (peer.session.state == SessionState::failed || (knows && !peer.session.announcing)) {
    peer.session.call_at = kNever;
    return;
  }
  if (knows) return say_hello(peer);
  if (peer.handshake.calls == 0)
    peer.handshake.calling_since = turn_.now();  // the peer had no call before
  const Time end = peer.handshake.calling_since +
                   turn_.absence().since(peer.handshake.calling_since) + calls_for(turn_, peer);
  if (end <= turn_.now() && peer.session.timeout_put_off) {
    return fail_peer(peer, peer.session.refused ? Status::peer_full : Status::peer_unreachable);
  }
  peer.handshake.called_at = turn_.now();
  say_hello(peer);
  // This end calls until then, and once more at the end: a place may have become free only now.
  peer.session.timeout_put_off = end <= turn_.now();
  peer.session.call_at = peer.session.timeout_put_off ? turn_.now() + listens_for(turn_, peer)
                                                      : earlier(peer.session.call_at, end);
  if (peer.handshake.calls == kQuickCalls) end_calling(peer);
}

}  // namespace hawser::proto
