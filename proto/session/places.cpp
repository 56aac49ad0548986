// SPDX-License-Identifier: Apache-2.0
// Places. An endpoint knows max_peers peers at a time, and serves any number one after the other
// (docs/internals/protocol.md §6). A newcomer that finds no free place gets one of these:
//
//   1. The place of a peer whose session has ended and of which nothing is left. The session that
//      ended first comes first.
//   2. The place of a stranger that has called and from which nothing came since, oldest first.
//
// If there is neither, some peers that were silent for long are asked whether they live. The
// session of a peer that does not answer ends. Until then newcomers are refused.
//
// Invariants: `half_open` (endpoint/half_open_strangers.hpp) holds no peer that somebody here
// wants, or that has sent our token. `ended` names peers whose sessions have ended. A walk over all
// places finds those that didn't fit there, or whose places could not be given away yet.
#include "proto/session/places.hpp"

#include "proto/endpoint/core.hpp"
#include "proto/peer/patience.hpp"

namespace hawser::proto {

namespace {

// The time per place for a walk over all of them, so that refused newcomers cost only a small part
// of a core.
constexpr Duration kPerPlace = microseconds(1);
constexpr std::uint32_t kMostQuestioned = 8;  // in a walk

// Whether a peer's session has ended, or never began, and everything that came with it was
// received.
template <class Core>
bool is_over(const Core& core, std::uint32_t index) {
  if (!core.peers.is_awake(index)) return core.peers.resting(index).state == SessionState::failed;
  const Peer& peer = core.peers.at(index);
  const bool lives =
      peer.session.state != SessionState::failed && peer.session.state != SessionState::idle;
  return !lives && peer.messages == 0 && !is_pending(peer);
}

template <class Core>
void forget(Core& core, Peer& peer, bool was_named) {
  const std::uint32_t index = peer.index;
  core.half_open.leave(peer);
  core.learn_nics(peer, {});
  if (peer.sends.table.is_open()) peer.sends.table.close();
  if (peer.receives.table.is_open()) peer.receives.table.close();
  if (core.touched.contains(core.peers, index)) core.touched.remove(core.peers, index);
  core.peer_timers.remove(index);
  core.peers.forget(index, was_named);
}

// Forgets a peer of which nothing is left; its PeerId names nobody from here on.
template <class Core>
void let_go(Core& core, std::uint32_t index) {
  HAWSER_ASSERT(is_over(core, index));
  ++core.turn.counters.peers_forgotten;
  if (core.peers.is_awake(index)) {
    forget(core, core.peers.at(index), true);
  } else {
    core.peers.forget(index, true);
  }
}

// Frees the place of the oldest session that is over. False: there is none.
template <class Core>
bool free_ended(Core& core) {
  while (!core.peer_places.ended.empty()) {
    const PeerId name = core.peer_places.ended.pop();
    const std::uint32_t index = core.peers.index_of(name);
    if (index == kNoIndex) continue;
    if (is_over(core, index)) {
      let_go(core, index);
      return true;
    }
  }
  return false;
}

// A known peer has called again, and died before it heard the answer. No timer of this end covers
// it.
template <class Core>
bool is_left_alone(const Core& core, std::uint32_t index) {
  if (!core.peers.is_awake(index)) return false;
  const Peer& peer = core.peers.at(index);
  return peer.session.state == SessionState::answered && peer.session.call_at == kNever &&
         !CallQueue::waits(peer) && !is_pending(peer) &&
         core.turn.now() - peer.session.last_heard >=
             milliseconds(core.turn.tunables.peer_timeout_ms);
}

// Nobody waits for the peer, and it has been silent for half the peer timeout. Asked now, it has
// the other half for its answer. Its place is then free a peer timeout after its last packet.
template <class Core>
bool is_silent(const Core& core, std::uint32_t index) {
  const Duration half = milliseconds(core.turn.tunables.peer_timeout_ms) / 2;
  if (!core.peers.is_awake(index)) {
    const RestingPeer& peer = core.peers.resting(index);
    return peer.state == SessionState::ready &&
           core.turn.now() - peer.last_heard >= half + milliseconds(peer.absence_ms);
  }
  const Peer& peer = core.peers.at(index);
  return peer.session.state == SessionState::ready && !is_pending(peer) &&
         core.turn.now() - peer.session.last_heard >= half + peer.session.remote_absence;
}

// Until the peer is heard, somebody counts as waiting for it.
template <class Core>
void question(Core& core, std::uint32_t index) {
  Peer& peer = core.peers.is_awake(index) ? core.peers.at(index) : core.wake(index);
  peer.session.questioned = true;
  core.touched.add(peer);
}

// Finds sessions that are over, and asks some of the peers that were silent for long.
template <class Core>
void walk_places(Core& core) {
  Places& places = core.peer_places;
  if (core.turn.now() < places.walk_at) return;
  places.walk_at = core.turn.now() + kPerPlace * core.peers.used();
  std::uint32_t asked = 0;
  for (std::uint32_t left = core.peers.used(); left > 0 && !places.ended.full(); --left) {
    places.cursor = places.cursor + 1 < core.peers.used() ? places.cursor + 1 : 0;
    const std::uint32_t index = places.cursor;
    if (!core.peers.is_known(index)) continue;
    if (is_over(core, index)) {
      (void)places.ended.push(core.peers.id_of(index));
    } else if (is_left_alone(core, index)) {
      core.fail_peer(core.peers.at(index), Status::peer_unreachable);
    } else if (asked < kMostQuestioned && is_silent(core, index)) {
      question(core, index);
      ++asked;
    }
  }
}

}  // namespace

// Null: all places are taken, by peers whose sessions live or of which something is left. Strangers
// that became half open after `half_open_until` keep theirs: the answer may be on its way to them.
Peer* Endpoint::Core::make_peer(std::uint64_t remote_id, Time half_open_until) {
  if (peers.full()) (void)free_ended(*this);
  while (Peer* const oldest = peers.full() ? half_open.oldest() : nullptr) {
    if (oldest->handshake.calling_since > half_open_until) break;
    if (is_pending(*oldest)) {
      half_open.leave(*oldest);  // somebody has guessed its name
    } else {
      give_back(*oldest);
    }
  }
  if (peers.full()) {
    walk_places(*this);
    (void)free_ended(*this);
  }
  Peer* peer = peers.make(remote_id);
  if (peer == nullptr) return nullptr;
  start_peer(*peer);
  peer->slots.path_start = turn.tunables.initial_sequence;
  return peer;
}

// Forgets a stranger's peer that has led to nothing yet.
void Endpoint::Core::give_back(Peer& peer) {
  HAWSER_ASSERT(!peer.session.wanted && !is_pending(peer) &&
                peer.session.state != SessionState::ready);
  end_calling(peer);
  forget(*this, peer, false);
}

void Endpoint::Core::enter_half_open(Peer& peer) {
  // A peer that had a session keeps its PeerId until that session is over.
  const bool is_known = peer.session.wanted || peer.identity.verified_counter != 0;
  if (is_known || is_pending(peer)) return;
  if (half_open.enter(peer)) peer.handshake.calling_since = turn.now();
}

}  // namespace hawser::proto
