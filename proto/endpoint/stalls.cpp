// SPDX-License-Identifier: Apache-2.0
// Operations that stand still although their peer is heard. The protocol lets nothing stand still
// for long, so if it happens somebody must be able to see it. An event tells what is awaited, and a
// counter counts.
//
// Silent peers are not looked at: peer_timeout ends what waits for them. Operations that wait for a
// program don't count either: a send whose peer reports that no receive has it, or a receive of
// which nothing came.
//
// Timer of a peer: `stall_at`, the next look. watch_liveness (session.cpp) takes it.
#include <algorithm>

#include "proto/endpoint/core.hpp"
#include "proto/peer/patience.hpp"

namespace hawser::proto {

namespace {

constexpr std::int64_t kLooks = 4;  // within the time that is too long

// The cause for which a send waits. None: nothing is due. A message that was never sent waits for
// those before it, which is fine while anything is acknowledged.
Reason awaited(const OutgoingMessage& message, bool any_acknowledged) {
  if (message.finished) return Reason::none;
  if (message.ask_at != kNever) return Reason::awaits_answer;
  const bool waits_for_others = message.next_fragment == 0 && any_acknowledged;
  return waits_for_others ? Reason::none : Reason::awaits_path;
}

Reason awaited(const IncomingMessage& message) {
  if (!message.processed) return Reason::awaits_message;
  // Without room for it, its sender waits for a grant, which a receive brings.
  const bool waits_for_receive = message.no_room && message.granted == 0;
  const bool is_due = message.arrived.claimed() < message.may_come && !waits_for_receive;
  return is_due ? Reason::awaits_fragments : Reason::none;
}

}  // namespace

// Called while something is pending. At most one event per look, for what has stood still longest.
void Endpoint::Core::watch_progress(Peer& peer) {
  if (turn.now() < peer.session.stall_at) return;
  const Duration patience = patience_with(turn, peer);
  const bool first = peer.session.stall_at == Time{};
  // An end that was away itself, or doesn't hear the peer, can't judge yet. Keepalives go out only
  // after such a silence, so the look waits for their answer.
  if (!first && (turn.is_late() || turn.now() - peer.session.last_heard > patience / kLooks)) {
    return;
  }
  peer.session.stall_at = turn.now() + patience / kLooks;
  if (first) return;
  const Time since = turn.now() - (patience + turn.absence().since(turn.now() - patience));
  std::int32_t longest = coarse_since(coarse(since), turn.now());
  Reason reason = Reason::none;
  const auto look_at = [&](std::uint32_t moved, Reason waits_for) {
    const std::int32_t stands = coarse_since(moved, turn.now());
    if (waits_for == Reason::none || stands <= longest) return;
    longest = stands;
    reason = waits_for;
  };
  peer.sends.table.for_each([&](std::uint64_t, std::uint32_t index) {
    const OutgoingMessage& message = outgoing.at(index);
    look_at(message.moved, awaited(message, peer.silence.newest_acked_sent > since));
  });
  // A dropped message waits for room here, and so do those behind it.
  const bool turned_away = descriptors.is_starved(peer);
  peer.receives.table.for_each([&](std::uint64_t, std::uint32_t entry) {
    if (is_finished_entry(entry)) return;
    const IncomingMessage& message = incoming.at(entry);
    const Reason waits_for = awaited(message);
    if (turned_away && waits_for == Reason::awaits_message) return;
    look_at(message.moved, waits_for);
  });
  if (reason == Reason::none) return;
  peer.session.stall_at = turn.now() + patience;
  ++turn.counters.operations_stalled;
  turn.warn({.kind = Event::Kind::operation_stalled,
             .reason = reason,
             .peer = peers.id_of(peer),
             .endpoint_id = peer.identity.remote_id,
             .nic = peer.session.route.local,
             .remote_nic = peer.session.route.remote});
}

}  // namespace hawser::proto
