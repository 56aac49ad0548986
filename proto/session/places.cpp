// SPDX-License-Identifier: Apache-2.0
// Places. An endpoint knows max_peers peers at a time, and serves any number one after the other
// (docs/internals/protocol.md §6). A newcomer that finds no free place gets one of these:
//
//   1. The place of a peer whose session has ended and of which nothing is left. The session that
//      ended first comes first.
//   2. The place of a stranger that has called and from which nothing came since, oldest first. If
//      several came from one address, those but the newest lose their places sooner.
//
// If there is neither, some peers that were silent for long are asked whether they live. The
// session of a peer that does not answer ends. Until then newcomers are refused.
//
// Invariants: `half_open` (service/half_open_strangers.hpp) holds no peer that somebody here
// wants, or that has sent our token. `ended` names peers whose sessions have ended. A walk over all
// places finds those that didn't fit there, or whose places could not be given away yet.
#include "proto/session/places.hpp"

#include <algorithm>

#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/call_queue.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {

// The time per place for a walk over all of them, so that refused newcomers cost only a small part
// of a core.
constexpr Duration kPerPlace = microseconds(1);
constexpr std::uint32_t kMostQuestioned = 8;  // in a walk
// One place in so many, rounded up, may go to strangers that have not proven their address.
constexpr std::uint32_t kPlacesPerUnproven = 4;
// A stranger of a crowd keeps its place for so many first intervals between calls.
constexpr std::int64_t kHeldIntervals = 4;
// Others keep it for so many of the longest. Half of that is the longest time between two calls.
constexpr std::int64_t kLongestIntervals = 3;

}  // namespace

struct Sessions::PlaceKeeper {
  // Whether a peer's session has ended, or never began, and everything that came with it was
  // received.
  static bool is_over(const Sessions& sessions, std::uint32_t index) {
    if (!sessions.peers_.is_awake(index))
      return sessions.peers_.resting(index).state == SessionState::failed;
    const Peer& peer = sessions.peers_.at(index);
    const bool lives =
        peer.session.state != SessionState::failed && peer.session.state != SessionState::idle;
    return !lives && peer.messages == 0 && !is_pending(peer);
  }

  // Whether a half-open stranger is left in its place when another caller needs one. A stranger
  // that is alone at its address has that long to hear the answer, even if it must call again for
  // it.
  static bool keeps_its_place(const Sessions& sessions, const Peer& stranger) {
    const AllTunables& t = sessions.turn_.tunables;
    const Time since = stranger.handshake.calling_since;
    const Time present_since = since + sessions.turn_.absence().since(since);
    const Duration retry = microseconds(t.handshake_retry_us);
    const Duration in_crowd =
        std::max(retry, std::min(retry * kHeldIntervals, milliseconds(t.peer_timeout_ms) / 4));
    const Duration alone = std::max(in_crowd, sessions.longest_interval() * kLongestIntervals) +
                           stranger.session.remote_absence;
    const bool is_alone = !HalfOpenStrangers::is_in_crowd(stranger);
    return present_since + (is_alone ? alone : in_crowd) > sessions.turn_.now();
  }

  static void forget(Sessions& sessions, Peer& peer, bool was_named) {
    const std::uint32_t index = peer.index;
    sessions.half_open_.leave(peer);
    sessions.learn_nics(peer, {});
    if (peer.sends.table.is_open()) peer.sends.table.close();
    if (peer.receives.table.is_open()) peer.receives.table.close();
    if (sessions.touched_.contains(sessions.peers_, index))
      sessions.touched_.remove(sessions.peers_, index);
    sessions.timers_.remove(index);
    sessions.peers_.forget(index, was_named);
  }

  // Forgets a peer of which nothing is left; its PeerId names nobody from here on.
  static void let_go(Sessions& sessions, std::uint32_t index) {
    HAWSER_ASSERT(is_over(sessions, index));
    ++sessions.turn_.counters.peers_forgotten;
    if (sessions.peers_.is_awake(index)) {
      forget(sessions, sessions.peers_.at(index), true);
    } else {
      sessions.peers_.forget(index, true);
    }
  }

  // Frees the place of the oldest session that is over. False: there is none.
  static bool free_ended(Sessions& sessions) {
    while (!sessions.places_.ended.empty()) {
      const PeerId name = sessions.places_.ended.pop();
      const std::uint32_t index = sessions.peers_.index_of(name);
      if (index == kNoIndex) continue;
      if (is_over(sessions, index)) {
        let_go(sessions, index);
        return true;
      }
    }
    return false;
  }

  // A known peer has called again, and died before it heard the answer. No timer of this end covers
  // it.
  static bool is_left_alone(const Sessions& sessions, std::uint32_t index) {
    if (!sessions.peers_.is_awake(index)) return false;
    const Peer& peer = sessions.peers_.at(index);
    return peer.session.state == SessionState::answered && peer.session.call_at == kNever &&
           !CallQueue::waits(peer) && !is_pending(peer) &&
           sessions.turn_.now() - peer.session.last_heard >=
               milliseconds(sessions.turn_.tunables.peer_timeout_ms);
  }

  // Nobody waits for the peer, and it has been silent for half the peer timeout. Asked now, it has
  // the other half for its answer. Its place is then free a peer timeout after its last packet.
  static bool is_silent(const Sessions& sessions, std::uint32_t index) {
    const Duration half = milliseconds(sessions.turn_.tunables.peer_timeout_ms) / 2;
    if (!sessions.peers_.is_awake(index)) {
      const RestingPeer& peer = sessions.peers_.resting(index);
      return peer.state == SessionState::ready &&
             sessions.turn_.now() - peer.last_heard >= half + milliseconds(peer.absence_ms);
    }
    const Peer& peer = sessions.peers_.at(index);
    return peer.session.state == SessionState::ready && !is_waited_for(peer) &&
           sessions.turn_.now() - peer.session.last_heard >= half + peer.session.remote_absence;
  }

  // Until the peer is heard, somebody counts as waiting for it.
  static void question(Sessions& sessions, std::uint32_t index) {
    Peer& peer = sessions.peers_.is_awake(index) ? sessions.peers_.at(index) : sessions.wake(index);
    peer.session.questioned = true;
    sessions.touched_.add(peer);
  }

  // Finds sessions that are over, and asks some of the peers that were silent for long.
  static void walk_places(Sessions& sessions) {
    Places& places = sessions.places_;
    if (sessions.turn_.now() < places.walk_at) return;
    places.walk_at = sessions.turn_.now() + kPerPlace * sessions.peers_.used();
    std::uint32_t asked = 0;
    for (std::uint32_t left = sessions.peers_.used(); left > 0 && !places.ended.full(); --left) {
      places.cursor = places.cursor + 1 < sessions.peers_.used() ? places.cursor + 1 : 0;
      const std::uint32_t index = places.cursor;
      if (!sessions.peers_.is_known(index)) continue;
      if (is_over(sessions, index)) {
        (void)places.ended.push(sessions.peers_.id_of(index));
      } else if (is_left_alone(sessions, index)) {
        sessions.fail_peer(sessions.peers_.at(index), Status::peer_unreachable);
      } else if (asked < kMostQuestioned && is_silent(sessions, index)) {
        question(sessions, index);
        ++asked;
      }
    }
  }
};

Peer* Sessions::make_peer(std::uint64_t remote_id, Asker asker) {
  const auto may_go = [&](const Peer& stranger) {
    return asker == Asker::program || !PlaceKeeper::keeps_its_place(*this, stranger);
  };
  if (peers_.full()) (void)PlaceKeeper::free_ended(*this);
  while (Peer* const stranger = peers_.full() ? half_open_.first_to_go(may_go) : nullptr) {
    if (is_pending(*stranger)) {
      half_open_.leave(*stranger);  // somebody has guessed its name
    } else {
      give_back(*stranger);
    }
  }
  if (peers_.full()) {
    PlaceKeeper::walk_places(*this);
    (void)PlaceKeeper::free_ended(*this);
  }
  Peer* peer = peers_.make(remote_id);
  if (peer == nullptr) return nullptr;
  start_peer(*peer);
  peer->slots.path_start = turn_.tunables.initial_sequence;
  return peer;
}

// Whether a stranger must prove its address before it gets a place.
bool Sessions::is_crowded() const {
  const auto most = std::min<std::uint64_t>(turn_.tunables.max_half_open_sessions,
                                            1 + (peers_.capacity() - 1) / kPlacesPerUnproven);
  return half_open_.size() >= most || peers_.full();
}

// Forgets a stranger's peer that has led to nothing yet.
void Sessions::give_back(Peer& peer) {
  HAWSER_ASSERT(!peer.session.wanted && !is_pending(peer) &&
                peer.session.state != SessionState::ready);
  end_calling(peer);
  PlaceKeeper::forget(*this, peer, false);
}

void Sessions::enter_half_open(Peer& peer, bool is_proven) {
  // A peer that had a session keeps its PeerId until that session is over.
  if (peer.session.wanted || peer.session.met || is_pending(peer)) return;
  const NicAddress& from = peers_.nic_of(peer, peer.session.route.remote).address;
  half_open_.enter(peer, from, is_proven, turn_.now());
}

}  // namespace hawser::proto
