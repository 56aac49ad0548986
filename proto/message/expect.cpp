// SPDX-License-Identifier: Apache-2.0
// Layer 2 of loss detection: the receiver knows which fragments must still come. It requests
// exactly the missing ones when they don't.
//
// Timer of an incoming message: `expect_at`, armed while fragments that may come are missing. Its
// interval depends on the level: BULK (the gap rule covers it), TAIL (all was sent once, or little
// is missing), GATE (its group waits for it). It doubles per fruitless expiry, and progress resets
// it. The peer's patience scales it, and grows when a requested fragment turns out to have been
// under way. Asking early is cheap: the sender knows which packets may still be under way, and
// waits for those.
#include <algorithm>
#include <array>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser::proto {

namespace {
constexpr std::uint32_t kMostPatience = 64;  // eighths
constexpr std::uint8_t kMostBackoff = 10;
constexpr std::uint8_t kAskedOnce = 1;
constexpr Duration kLeastWindow = microseconds(4);  // time must pass, however short the way is
// Up to the longest interval, however short the way is: each question costs a data packet that is
// dropped again.
constexpr std::uint8_t kMostSolicitBackoff = 24;
// How far fragments of a peer may overtake each other. They come over any NIC on which it has a
// path, so the widest window counts.
struct Overtaking {
  Duration window{};
  bool is_sprayed = false;
  bool is_ordered = true;
};

template <class Core>
Overtaking overtaking_of(const Core& core, const Peer& peer) {
  Overtaking all;
  for (const std::uint32_t index : peer.receive_paths) {
    if (index == kNoIndex) continue;
    const LocalNic& nic = core.nics[core.receive_paths.at(index).local_nic];
    if (nic.lanes == 1) continue;
    all.is_sprayed = true;
    all.is_ordered &= nic.reordering.ordered();
    all.window = std::max(all.window, nic.reordering.window(peer.response, core.turn.granularity));
  }
  return all;
}

}  // namespace

DetectionLevel Endpoint::Core::level_of(const IncomingMessage& message) const {
  if (!message.all_sent) {
    const std::uint32_t missing = message.fragments - message.arrived.claimed();
    return missing <= tail_fragments(peers.at(message.peer).fragment_bytes) ? DetectionLevel::tail
                                                                            : DetectionLevel::bulk;
  }
  const bool gate =
      turn.tunables.recovery_gate != 0 && groups.awaits_last(message.context, message.hint);
  return gate ? DetectionLevel::gate : DetectionLevel::tail;
}

// Once all was sent, fragments that go over several lanes may be late by as much as packets
// overtake each other. The sender knows that, too. If lanes keep their order, a missing fragment is
// lost.
Duration Endpoint::Core::detection_interval(const Peer& peer,
                                            const IncomingMessage& message) const {
  const Duration smoothed = peer.response.smoothed();
  const Duration variance = peer.response.variance();
  const Overtaking overtaking = overtaking_of(*this, peer);
  const Duration least =
      overtaking.is_sprayed ? std::max(overtaking.window, kLeastWindow) : turn.granularity;
  if (message.all_sent && overtaking.is_sprayed && overtaking.is_ordered) return overtaking.window;
  switch (level_of(message)) {
    case DetectionLevel::bulk: return (smoothed + std::max(variance * 4, turn.granularity)) * 4;
    case DetectionLevel::tail:
      // Nothing more is to be sent: missing fragments are under way, or lost.
      if (message.all_sent) return std::max({smoothed / 4, variance * 2, least / 2});
      return smoothed / 2 + std::max(variance * 4, turn.granularity);
    case DetectionLevel::gate: break;
  }
  return std::max({smoothed / 8, variance, least / 4});
}

void Endpoint::Core::expect(IncomingMessage& message, bool progress) {
  if (progress) message.backoff = 0;
  if (message.arrived.claimed() >= message.may_come || turn.tunables.recovery_request == 0 ||
      (message.no_room && !message.matched)) {
    message.expect_at = kNever;
    return;
  }
  // Much is missing, and the next fragment of a burst would only show the same.
  if (message.expect_turn == turn.number() && message.expect_at != kNever &&
      level_of(message) == DetectionLevel::bulk) {
    return;
  }
  message.expect_turn = message.backoff == 0 ? turn.number() : 0;
  const Peer& peer = peers.at(message.peer);
  const Duration interval = detection_interval(peer, message) * peer.patience_eighths / 8;
  const Duration longest = std::max(milliseconds(turn.tunables.peer_timeout_ms) / 8, interval);
  message.expect_at =
      turn.now() + std::min(interval * (std::int64_t{1} << message.backoff), longest);
  message.expect_put_off = false;
  // The heap holds a lower bound: it moves only forward in time, when it fires.
  const std::uint32_t index = incoming.index_of(message);
  if (message.expect_at < incoming_timers.deadline_of(index)) {
    incoming_timers.update(index, message.expect_at);
  }
}

void Endpoint::Core::expire_expectation(IncomingMessage& message) {
  const std::uint32_t index = incoming.index_of(message);
  Peer& peer = peers.at(message.peer);
  if (message.expect_at == kNever || peer.state != SessionState::ready) return;
  if (turn.now() < message.expect_at ||
      turn.put_off(message.expect_at, message.expect_put_off, peer.response.smoothed())) {
    incoming_timers.update(index, message.expect_at);
    return;
  }
  if (message.granted > 0) outbox.add_grant(peer, message);
  // In vain: the requested fragments could have come.
  const bool in_vain = message.asked_at != Time{} &&
                       turn.now() - message.asked_at >= peer.response.overdue(turn.granularity);
  request_missing(message);
  outbox.raise_ways(peer,
                    control_routes.ways_of_question(
                        peer, in_vain ? message.backoff : std::min(message.backoff, kAskedOnce)));
  if (message.backoff < kMostBackoff) ++message.backoff;
  expect(message, false);
}

void Endpoint::Core::request_missing(IncomingMessage& message) {
  Peer& peer = peers.at(message.peer);
  message.asked_at = turn.now();
  message.asked_from = message.arrived.first_missing();
  message.asked_to = message.asked_from + 1;
  message.requested_from = message.asked_from;
  outbox.add_request(peer, message);
}

// A fresh fragment: checks whether it answers the last grant or request.
void Endpoint::Core::answered(Peer& peer, IncomingMessage& message, std::uint32_t fragment) {
  if (message.asked_at == Time{} || fragment < message.asked_from || fragment >= message.asked_to) {
    return;
  }
  peer.response.sample(turn.now() - message.asked_at);
  grants.response.sample(turn.now() - message.asked_at);
  message.asked_at = Time{};
  if (message.backoff > 0 && peer.patience_eighths > 8) --peer.patience_eighths;
}

// A fragment came twice. If it had been requested, that was too early: be more patient with this
// peer, once for each request.
void Endpoint::Core::note_duplicate(Peer& peer, IncomingMessage& message, std::uint32_t fragment) {
  if (fragment < message.requested_from) return;
  message.requested_from = kNoIndex;
  peer.patience_eighths =
      std::min(kMostPatience, peer.patience_eighths + peer.patience_eighths / 2);
  expect(message, false);
}

// A message's first packet was dropped for want of a descriptor. When one is free again, the
// receiver requests the lowest such numbers, as the sender's own questions become ever rarer.
void Endpoint::Core::note_starved(Peer& peer, std::uint64_t number) {
  if (!starved.contains(peers, index_of(peer))) {
    starved.push_back(peers, index_of(peer));
    store_judged_at =
        earlier(store_judged_at, turn.now() + milliseconds(turn.tunables.peer_timeout_ms));
    peer.starved_to = peer.solicited_to = number;
    peer.solicit_backoff = 0;
    peer.solicit_put_off = false;
    peer.solicit_at = turn.now() + peer.response.overdue(turn.granularity) * 2;
  }
  if (store_full_since == Time{}) {
    store_full_since = turn.now();
    store_put_off = false;
    store_judged_at = turn.now() + milliseconds(turn.tunables.peer_timeout_ms);
  }
  if (!before(number, peer.starved_to)) peer.starved_to = number + 1;
  if (before(number, peer.solicited_to)) peer.solicited_to = number;
}

// Nothing has left the store for peer_timeout, and messages are dropped: receives that wait for
// them may wait for ever. Ends the receives that are as old, of the peers concerned. The sends lose
// nothing: they keep asking.
void Endpoint::Core::judge_full_store() {
  const Duration patience = milliseconds(turn.tunables.peer_timeout_ms);
  if (turn.put_off(store_judged_at, store_put_off, turn.granularity)) return;
  store_judged_at = kNever;
  if (starved.empty()) return;
  turn.operations.for_each_receive([&](const OperationSlot& slot) {
    const PostedReceive* posted = matching.find(slot.operation);
    if (posted == nullptr) return;
    if (posted->peer != kAnyPeer && !starved.contains(peers, peer_place(posted->peer))) return;
    const Time due = later(slot.posted_at, store_full_since) + patience;
    if (turn.now() < due) {
      store_judged_at = earlier(store_judged_at, due);
      return;
    }
    const auto receive = matching.cancel_receive(slot.operation);
    note_unposted(*receive);
    complete_unmatched(*receive, Status::store_full);
  });
}

void Endpoint::Core::no_longer_starved(Peer& peer) {
  const std::uint32_t index = index_of(peer);
  if (starved.contains(peers, index)) starved.remove(peers, index);
  if (starved.empty()) store_moves();
  peer.solicit_at = kNever;
  outbox.withdraw_solicitation(peer);
}

namespace {

// Asks a starved peer, which then becomes the last of them.
template <class Core>
void ask(Core& core, Peer& peer) {
  const std::uint32_t index = core.index_of(peer);
  core.starved.remove(core.peers, index);
  core.starved.push_back(core.peers, index);
  core.outbox.add_solicitation(peer);
}

// Whether all descriptors are taken, except those reserved for peers.
template <class Core>
bool all_taken(const Core& core) {
  return core.unmatched - core.starved.reserves_used >= core.turn.tunables.max_receive_messages;
}

// The peer that waits longest and of which not everything was solicited. Otherwise the one that was
// asked first, as that question may be lost. Null: all are being asked.
template <class Core>
Peer* next_starved(Core& core) {
  constexpr int kMostLooks = 16;
  Peer* asked = nullptr;
  std::uint32_t index = core.starved.front();
  for (int left = kMostLooks; left > 0 && index != kNoIndex; --left) {
    Peer& peer = core.peers.at(index);
    index = core.starved.next(core.peers, index);
    if (core.outbox.solicits(peer)) continue;
    if (before(peer.solicited_to, peer.starved_to)) return &peer;
    if (asked == nullptr) asked = &peer;
  }
  if (asked != nullptr) asked->solicited_to = asked->next_to_process;
  return asked;
}

}  // namespace

// Solicited messages will find a place. If the question or its answer is lost, the next one comes
// soon.
void Endpoint::Core::solicit(Peer& peer) {
  peer.solicit_backoff = 0;
  peer.solicit_at =
      earlier(peer.solicit_at, turn.now() + peer.response.overdue(turn.granularity) * 2);
  ask(*this, peer);
  touch(peer);
}

// A peer's reserved descriptor serves nobody else. Other descriptors serve all peers in turn.
void Endpoint::Core::descriptor_freed(Peer& by, bool in_reserve) {
  if (starved.empty()) return;
  if (in_reserve && starved.contains(by) && !outbox.solicits(by)) solicit(by);
  if (all_taken(*this)) return;
  if (Peer* next = next_starved(*this)) solicit(*next);
}

void Endpoint::Core::expire_solicitation(Peer& peer) {
  if (turn.put_off(peer.solicit_at, peer.solicit_put_off, peer.response.smoothed())) return;
  peer.solicit_put_off = false;
  if (peer.solicit_backoff < kMostSolicitBackoff) ++peer.solicit_backoff;
  const Duration longest = milliseconds(turn.tunables.peer_timeout_ms) / 8;
  peer.solicit_at = turn.now() + std::min(peer.response.overdue(turn.granularity) *
                                              (std::int64_t{2} << peer.solicit_backoff),
                                          longest);
  peer.solicited_to = peer.next_to_process;
  outbox.raise_ways(peer, control_routes.ways_of_question(peer, peer.solicit_backoff - 1u));
  ask(*this, peer);
  // Solicited messages had a place, but did not come: let ever more other peers take it.
  constexpr int kMostDoublings = 4;
  if (all_taken(*this)) return;
  for (int others = 1 << std::min(peer.solicit_backoff - 1, kMostDoublings); others > 0; --others) {
    Peer* const next = next_starved(*this);
    if (next == nullptr) break;
    ask(*this, *next);
  }
}

// Requests the first fragments of unknown messages, as many as have a descriptor now. Without a
// free descriptor only a wanted message can have one, and nobody knows whether this one is wanted.
// Its first fragment alone will tell. False: no room for the rest.
bool Endpoint::Core::write_solicitation(Peer& peer, wire::PacketWriter& writer) {
  constexpr std::array<std::uint64_t, 1> kFirst{1};
  constexpr std::array<std::uint64_t, 1> kFirstMany{~std::uint64_t{0}};
  std::uint64_t number =
      before(peer.solicited_to, peer.next_to_process) ? peer.next_to_process : peer.solicited_to;
  std::uint64_t free = 1;
  // Messages solicited from others in this turn take some of them.
  if (starved.asked_turn != turn.number()) starved.asked = 0;
  starved.asked_turn = turn.number();
  const std::uint32_t taken = unmatched - starved.reserves_used + starved.asked;
  const bool any_free = taken < turn.tunables.max_receive_messages;
  if (any_free) free = turn.tunables.max_receive_messages - taken;

  for (; free > 0 && before(number, peer.starved_to); ++number) {
    if (peer.incoming.get(number)) continue;
    if (!writer.request(to_wire(number), 0, any_free ? kFirstMany : kFirst)) {
      peer.solicited_to = number;
      return false;
    }
    ++turn.counters.requests_sent;
    if (turn.tracing()) {
      TraceRecord record = traced(TraceKind::request_sent, peer);
      record.message = number;
      record.fragment = 0;
      record.cause = 1;
      turn.trace(record);
    }
    --free;
    ++starved.asked;
  }
  peer.solicited_to = number;
  return true;
}

}  // namespace hawser::proto
