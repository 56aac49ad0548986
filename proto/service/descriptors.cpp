// SPDX-License-Identifier: Apache-2.0
#include "proto/service/descriptors.hpp"

#include <algorithm>
#include <array>

#include "proto/base/assert.hpp"
#include "proto/base/sequence.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {
// Up to the longest interval, however short the way is: each question costs a data packet that is
// dropped again.
constexpr std::uint8_t kMostSolicitBackoff = 24;
}  // namespace

void Descriptors::take(Peer& peer, bool from_reserve) {
  if (from_reserve) {
    peer.starvation.reserve_used = true;
    ++reserves_used_;
  }
  ++unmatched_;
}

// A peer's reserved descriptor serves nobody else. Other descriptors serve all peers in turn.
void Descriptors::give_back(Peer& peer, bool from_reserve) {
  HAWSER_ASSERT(unmatched_ > 0);
  --unmatched_;
  if (from_reserve) {
    HAWSER_ASSERT(reserves_used_ > 0);
    peer.starvation.reserve_used = false;
    --reserves_used_;
  }
  if (starved_.empty()) return;
  if (from_reserve && starved_.contains(peer) && !outbox_.solicits(peer)) solicit(peer);
  if (all_taken()) return;
  if (Peer* next = next_starved()) solicit(*next);
}

void Descriptors::turn_away(Peer& peer, std::uint64_t number) {
  Starvation& lack = peer.starvation;
  if (!starved_.contains(peer)) {
    starved_.push_back(peers_, peer.index);
    judge_by(patience_ends());
    lack.starved_to = lack.solicited_to = number;
    lack.backoff = 0;
    lack.timer.arm(turn_.now() + peer.response.overdue(turn_.granularity) * 2);
  }
  if (full_since_ == Time{}) {
    full_since_ = turn_.now();
    judge_timer_.arm(patience_ends());
  }
  if (!before(number, lack.starved_to)) lack.starved_to = number + 1;
  if (before(number, lack.solicited_to)) lack.solicited_to = number;
}

bool Descriptors::begin_judgement() {
  if (turn_.postpones(judge_timer_, turn_.granularity)) return false;
  judge_timer_.stop();
  return !starved_.empty();
}

void Descriptors::forget(Peer& peer) {
  if (starved_.contains(peer)) starved_.remove(peers_, peer.index);
  if (starved_.empty()) note_store_moves();
  peer.starvation.timer.stop();
  outbox_.withdraw_solicitation(peer);
}

// Asks a starved peer, which then becomes the last of them.
void Descriptors::ask(Peer& peer) {
  starved_.remove(peers_, peer.index);
  starved_.push_back(peers_, peer.index);
  outbox_.add_solicitation(peer);
}

// The peer that waits longest and of which not everything was solicited. Otherwise the one that was
// asked first, as that question may be lost. Null: all are being asked.
Peer* Descriptors::next_starved() {
  constexpr int kMostLooks = 16;
  Peer* asked = nullptr;
  std::uint32_t index = starved_.front();
  for (int left = kMostLooks; left > 0 && index != kNoIndex; --left) {
    Peer& peer = peers_.at(index);
    index = starved_.next(peers_, index);
    if (outbox_.solicits(peer)) continue;
    if (before(peer.starvation.solicited_to, peer.starvation.starved_to)) return &peer;
    if (asked == nullptr) asked = &peer;
  }
  if (asked != nullptr) asked->starvation.solicited_to = asked->receives.next_to_process;
  return asked;
}

// Solicited messages will find a place. If the question or its answer is lost, the next one comes
// soon.
void Descriptors::solicit(Peer& peer) {
  peer.starvation.backoff = 0;
  peer.starvation.timer.advance_to(turn_.now() + peer.response.overdue(turn_.granularity) * 2);
  ask(peer);
  touched_.add(peer);
}

// The endpoint dropped the next message when it was not the lowest one. The lowest one may take the
// reserve, or the descriptor of a receive that waits for it.
void Descriptors::solicit_lowest(Peer& peer) {
  const bool asked = before(peer.receives.next_to_process, peer.starvation.solicited_to);
  if (peer.starvation.timer.is_armed() && !asked) solicit(peer);
}

// A peer's lowest number needs no other descriptor than that of the receive.
void Descriptors::solicit_for_receive(Peer& peer) {
  if (!peer.starvation.reserve_used || peer.receives.table.get(peer.receives.next_to_process))
    return;
  peer.starvation.solicited_to = peer.receives.next_to_process;
  solicit(peer);
}

void Descriptors::note_waiting_receive(PeerId from) {
  constexpr int kMostAsked = 8;
  if (from != kAnyPeer) {
    Peer& peer = peers_.at(peer_place(from));
    if (starved_.contains(peer)) solicit_for_receive(peer);
    return;
  }
  std::uint32_t index = starved_.front();
  for (int left = kMostAsked; left > 0 && index != kNoIndex; --left) {
    const std::uint32_t following = starved_.next(peers_, index);
    solicit_for_receive(peers_.at(index));
    index = following;
  }
}

void Descriptors::expire(Peer& peer) {
  Starvation& lack = peer.starvation;
  if (turn_.postpones(lack.timer, peer.response.smoothed())) return;
  if (lack.backoff < kMostSolicitBackoff) ++lack.backoff;
  const Duration longest = milliseconds(turn_.tunables.peer_timeout_ms) / 8;
  lack.timer.arm(turn_.now() + std::min(peer.response.overdue(turn_.granularity) *
                                            (std::int64_t{2} << lack.backoff),
                                        longest));
  lack.solicited_to = peer.receives.next_to_process;
  outbox_.raise_ways(peer, routes_.ways_of_question(peer, lack.backoff - 1u));
  ask(peer);
  // Solicited messages had a place, but did not come: let ever more other peers take it.
  constexpr int kMostShared = 4;
  if (all_taken()) return;
  for (int others = 1 << std::min(lack.backoff - 1, kMostShared); others > 0; --others) {
    Peer* const next = next_starved();
    if (next == nullptr) break;
    ask(*next);
  }
}

// Requests the first fragments of unknown messages, as many as have a descriptor now. Without a
// free descriptor only a wanted message can have one, and nobody knows whether this one is wanted.
// Its first fragment alone will tell.
bool Descriptors::write_solicitation(Peer& peer, wire::PacketWriter& writer) {
  constexpr std::array<std::uint64_t, 1> kFirst{1};
  constexpr std::array<std::uint64_t, 1> kFirstMany{~std::uint64_t{0}};
  Starvation& lack = peer.starvation;
  std::uint64_t number = before(lack.solicited_to, peer.receives.next_to_process)
                             ? peer.receives.next_to_process
                             : lack.solicited_to;
  std::uint64_t free = 1;
  // Messages solicited from others in this turn take some of them.
  if (asked_turn_ != turn_.number()) asked_ = 0;
  asked_turn_ = turn_.number();
  const std::uint32_t taken = unmatched_ - reserves_used_ + asked_;
  const bool any_free = taken < turn_.tunables.max_receive_messages;
  if (any_free) free = turn_.tunables.max_receive_messages - taken;

  for (; free > 0 && before(number, lack.starved_to); ++number) {
    if (peer.receives.table.get(number)) continue;
    if (!writer.request(to_wire(number), 0, any_free ? kFirstMany : kFirst)) {
      lack.solicited_to = number;
      return false;
    }
    ++turn_.counters.requests_sent;
    if (turn_.tracing()) {
      TraceRecord record = record_of(TraceKind::request_sent, peer);
      record.message = number;
      record.fragment = 0;
      record.cause = 1;
      turn_.trace(record);
    }
    --free;
    ++asked_;
  }
  lack.solicited_to = number;
  return true;
}

}  // namespace hawser::proto
