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

#include "proto/message/finished_entry.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {

constexpr std::int64_t kLooks = 4;  // within the time that is too long

// The cause for which a send waits. None: nothing is due. A message that was never sent waits for
// those before it, which is fine while anything is acknowledged.
Reason awaited(const OutgoingMessage& message, bool any_acknowledged) {
  if (message.finished) return Reason::none;
  if (message.ask_timer.is_armed()) return Reason::awaits_answer;
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
void Sessions::watch_progress(Peer& peer) {
  if (turn_.now() < peer.session.stall_at) return;
  const Duration patience = patience_with(turn_, peer);
  const bool first = peer.session.stall_at == Time{};
  // An end that was away itself, or doesn't hear the peer, can't judge yet. Keepalives go out only
  // after such a silence, so the look waits for their answer.
  if (!first && (turn_.is_late() || turn_.now() - peer.session.last_heard > patience / kLooks)) {
    return;
  }
  peer.session.stall_at = turn_.now() + patience / kLooks;
  if (first) return;
  const Time since = turn_.now() - (patience + turn_.absence().since(turn_.now() - patience));
  std::int32_t longest = coarse_since(coarse(since), turn_.now());
  Reason reason = Reason::none;
  const auto look_at = [&](std::uint32_t moved, Reason waits_for) {
    const std::int32_t stands = coarse_since(moved, turn_.now());
    if (waits_for == Reason::none || stands <= longest) return;
    longest = stands;
    reason = waits_for;
  };
  peer.sends.table.for_each([&](std::uint64_t, std::uint32_t index) {
    const OutgoingMessage& message = outgoing_.at(index);
    look_at(message.moved, awaited(message, peer.silence.newest_acked_sent > since));
  });
  // A dropped message waits for room here, and so do those behind it.
  const bool turned_away = descriptors_.is_starved(peer);
  peer.receives.table.for_each([&](std::uint64_t, std::uint32_t entry) {
    if (is_finished_entry(entry)) return;
    const IncomingMessage& message = incoming_.at(entry);
    const Reason waits_for = awaited(message);
    if (turned_away && waits_for == Reason::awaits_message) return;
    look_at(message.moved, waits_for);
  });
  if (reason == Reason::none) return;
  peer.session.stall_at = turn_.now() + patience;
  ++turn_.counters.operations_stalled;
  turn_.warn({.kind = Event::Kind::operation_stalled,
              .reason = reason,
              .peer = peers_.id_of(peer),
              .endpoint_id = peer.identity.remote_id,
              .nic = peer.session.route.local,
              .remote_nic = peer.session.route.remote});
}

}  // namespace hawser::proto
