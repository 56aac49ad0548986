// SPDX-License-Identifier: Apache-2.0
// Layer 2 of loss detection: the receiver knows which fragments must still come. It requests
// exactly the missing ones when they don't.
//
// Timer of an incoming message: `expect.timer`, armed while fragments that may come are missing.
// Its interval depends on the level: BULK (the gap rule covers it), TAIL (all was sent once, or
// little is missing), GATE (its group waits for it). It doubles per fruitless expiry, and progress
// resets it. The peer's patience scales it, and grows when a requested fragment turns out to have
// been under way. Asking early is cheap: the sender knows which packets may still be under way, and
// waits for those.
//
// Messages that found no descriptor have timers of their own (service/descriptors.hpp).
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/message/incoming.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {
constexpr std::uint32_t kMostPatience = 64;  // eighths
constexpr std::uint8_t kMostBackoff = 10;
constexpr std::uint8_t kAskedOnce = 1;
constexpr Duration kLeastWindow = microseconds(4);  // time must pass, however short the way is

}  // namespace

// How far fragments of a peer may overtake each other. They come over any NIC on which it has a
// path, so the widest window counts.
struct Incoming::Overtaking {
  Duration window{};
  bool is_sprayed = false;
  bool is_ordered = true;
};

Incoming::Overtaking Incoming::overtaking_of(const Peer& peer) const {
  Overtaking all;
  paths_.for_each(peer.paths, [&](const ReceivePath& path) {
    const LocalNic& nic = nics_[path.local_nic];
    if (nic.lanes == 1) return;
    all.is_sprayed = true;
    all.is_ordered &= nic.reordering.ordered();
    all.window = std::max(all.window, nic.reordering.window(peer.response, turn_.granularity));
  });
  return all;
}

DetectionLevel Incoming::level_of(const IncomingMessage& message) const {
  if (!message.all_sent) {
    const std::uint32_t missing = message.fragments - message.arrived.claimed();
    return is_tail(missing, message.fragment_bytes) ? DetectionLevel::tail : DetectionLevel::bulk;
  }
  const bool gate =
      turn_.tunables.recovery_gate != 0 && groups_.awaits_last(message.channel, message.hint);
  return gate ? DetectionLevel::gate : DetectionLevel::tail;
}

// Once all was sent, fragments that go over several lanes may be late by as much as packets
// overtake each other. The sender knows that, too. If lanes keep their order, a missing fragment is
// lost.
Duration Incoming::detection_interval(const Peer& peer, const IncomingMessage& message) const {
  const Duration smoothed = peer.response.smoothed();
  const Duration variance = peer.response.variance();
  const Overtaking overtaking = overtaking_of(peer);
  const Duration least =
      overtaking.is_sprayed ? std::max(overtaking.window, kLeastWindow) : turn_.granularity;
  if (message.all_sent && overtaking.is_sprayed && overtaking.is_ordered) return overtaking.window;
  switch (level_of(message)) {
    case DetectionLevel::bulk: return (smoothed + std::max(variance * 4, turn_.granularity)) * 4;
    case DetectionLevel::tail:
      // Nothing more is to be sent: missing fragments are under way, or lost.
      if (message.all_sent) return std::max({smoothed / 4, variance * 2, least / 2});
      return smoothed / 2 + std::max(variance * 4, turn_.granularity);
    case DetectionLevel::gate: break;
  }
  return std::max({smoothed / 8, variance, least / 4});
}

void Incoming::expect(const Peer& peer, IncomingMessage& message, bool progress) {
  if (progress) message.expect_backoff = 0;
  if (message.arrived.claimed() >= message.may_come || turn_.tunables.recovery_request == 0 ||
      (message.no_room && !message.matched)) {
    message.expect.timer.stop();
    return;
  }
  // Much is missing, and the next fragment of a burst would only show the same.
  if (message.expect.turn == turn_.number() && message.expect.timer.is_armed() &&
      level_of(message) == DetectionLevel::bulk) {
    return;
  }
  message.expect.turn = message.expect_backoff == 0 ? turn_.number() : 0;
  const Duration interval = detection_interval(peer, message) * peer.receives.patience_eighths / 8;
  const Duration longest = std::max(milliseconds(turn_.tunables.peer_timeout_ms) / 8, interval);
  message.expect.timer.arm(
      turn_.now() + std::min(interval * (std::int64_t{1} << message.expect_backoff), longest));
  // The heap holds a lower bound: it moves only forward in time, when it fires.
  const std::uint32_t index = messages_.index_of(message);
  if (message.expect.timer.at() < timers_.deadline_of(index)) {
    timers_.update(index, message.expect.timer.at());
  }
}

// Lets up to `most` timers expire: each costs up to a microsecond.
void Incoming::expire(std::uint32_t most) {
  for (std::uint32_t i = 0; i < most && timers_.next() <= turn_.now(); ++i) {
    expire_expectation(messages_.at(timers_.pop().id));
  }
}

void Incoming::expire_expectation(IncomingMessage& message) {
  const std::uint32_t index = messages_.index_of(message);
  Peer& peer = peers_.at(message.peer);
  if (!message.expect.timer.is_armed() || peer.session.state != SessionState::ready) return;
  if (!message.expect.timer.is_due(turn_.now()) ||
      turn_.postpones(message.expect.timer, peer.response.smoothed())) {
    timers_.update(index, message.expect.timer.at());
    return;
  }
  if (message.granted > 0) outbox_.add_grant(peer, message);
  // In vain: the requested fragments could have come.
  const bool in_vain =
      message.expect.asked_at != Time{} &&
      turn_.now() - message.expect.asked_at >= peer.response.overdue(turn_.granularity);
  request_missing(message);
  outbox_.raise_ways(
      peer, routes_.ways_of_question(peer, in_vain ? message.expect_backoff
                                                   : std::min(message.expect_backoff, kAskedOnce)));
  if (message.expect_backoff < kMostBackoff) ++message.expect_backoff;
  expect(peer, message, false);
}

void Incoming::request_missing(IncomingMessage& message) {
  Peer& peer = peers_.at(message.peer);
  message.expect.asked_at = turn_.now();
  message.expect.asked_from = message.arrived.first_missing();
  message.expect.asked_to = message.expect.asked_from + 1;
  message.expect.requested_from = message.expect.asked_from;
  outbox_.add_request(peer, message);
}

// A fresh fragment: checks whether it answers the last grant or request.
void Incoming::answered(Peer& peer, IncomingMessage& message, std::uint32_t fragment) {
  if (message.expect.asked_at == Time{} || fragment < message.expect.asked_from ||
      fragment >= message.expect.asked_to) {
    return;
  }
  const bool was_away = turn_.was_away_since(message.expect.asked_at);
  for (ResponseTime* const response : {&peer.response, &grants_.response}) {
    const Duration took = turn_.now() - message.expect.asked_at;
    if (was_away) {
      response->sample_absence(took, turn_.now());
    } else {
      response->sample(took);
    }
  }
  message.expect.asked_at = Time{};
  if (message.expect_backoff > 0 && peer.receives.patience_eighths > 8)
    --peer.receives.patience_eighths;
}

// A fragment came twice. If it had been requested, that was too early: be more patient with this
// peer, once for each request.
void Incoming::note_duplicate(Peer& peer, IncomingMessage& message, std::uint32_t fragment) {
  if (fragment < message.expect.requested_from) return;
  message.expect.requested_from = kNoIndex;
  peer.receives.patience_eighths =
      std::min(kMostPatience, peer.receives.patience_eighths + peer.receives.patience_eighths / 2);
  expect(peer, message, false);
}

// Nothing has left the store for peer_timeout, and messages are dropped: receives that wait for
// them may wait for ever. Ends the receives that are as old, of the peers concerned. The sends lose
// nothing: they keep asking.
void Incoming::judge_full_store() {
  const Duration patience = milliseconds(turn_.tunables.peer_timeout_ms);
  if (!descriptors_.begin_judgement()) return;
  turn_.operations.for_each_receive([&](const OperationSlot& slot) {
    const PostedReceive* posted = matching_.find(slot.operation);
    if (posted == nullptr) return;
    if (posted->peer != kAnyPeer && !descriptors_.is_starved(peers_.at(peer_place(posted->peer)))) {
      return;
    }
    const Time due = later(slot.posted_at, descriptors_.full_since()) + patience;
    if (turn_.now() < due) {
      descriptors_.judge_by(due);
      return;
    }
    const auto receive = matching_.cancel_receive(slot.operation);
    note_unposted(*receive);
    complete_unmatched(*receive, Status::store_full);
  });
}

}  // namespace hawser::proto
