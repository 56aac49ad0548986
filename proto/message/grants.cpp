// SPDX-License-Identifier: Apache-2.0
// Grants: how much of long messages may come. They keep the total of many senders within what this
// endpoint can take.
//
// A message is *paced* from its match on if not all of it comes unasked. Bytes that may come and
// have not are awaited, and count against the budget (grant_budget.hpp). At a turn's end the
// budget's room is given out. The oldest message gets grants until an eighth of the budget is its
// own. The rest goes by rank (GrantRank) to one peer after the other, to the oldest message of
// each.
//
// Timer of a peer with paced messages: `due`, armed while bytes of it are awaited, two response
// times after the last. If by then fewer bytes came than were awaited when it was armed, the peer's
// *pace* is twice what came. The peer counts for no more than its pace, and gets no larger grants.
// A slow peer therefore holds only the small part of the budget that it uses. A peer that stands
// still, or whose grant was lost, holds nothing until something comes. Layer 2 (expect.cpp) and the
// sender's own question repeat a grant.
//
// Invariants: granted <= fragments. A grant is never taken back. The bitmap's span covers
// [first_missing, may_come). budget.awaited() is the sum of `counted`; a grantee's `awaited` is the
// sum over its messages. A message is on `by_age` and its peer's `wanting` exactly while it is not
// granted to its limit.
#include "proto/message/grants.hpp"

#include <algorithm>

#include "proto/message/incoming.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {
constexpr std::uint64_t kMostAtOnce = 64;  // fragments in one grant
constexpr std::uint64_t kOldestPart = 8;   // the oldest message gets budget / this
constexpr std::uint64_t kMostParts = 4;    // parts that old messages may have beyond the budget
constexpr int kMostQuiet = 8;              // quiet ones moved behind the others in a turn
constexpr std::int64_t kMostQueues = 8;    // response times that a full queue may take

// Nothing of the message may come yet: its sender was told NO_ROOM and has stopped.
bool is_stopped(const IncomingMessage& message) { return message.no_room && message.granted == 0; }

std::uint64_t fragments_awaited(const IncomingMessage& message) {
  const std::uint32_t here = message.arrived.claimed();
  return !message.granting.paced || is_stopped(message) || message.may_come <= here
             ? 0
             : message.may_come - here;
}

void recount_awaited(IncomingMessage& message, Grantee& grantee) {
  const std::uint64_t awaited = fragments_awaited(message) * message.fragment_bytes;
  grantee.awaited += awaited - message.awaited;
  message.awaited = awaited;
}

}  // namespace

std::uint32_t Incoming::grant_limit(const IncomingMessage& message) const {
  const std::uint32_t first = message.arrived.first_missing();
  if (message.fragments - first <= grants_.window) return message.fragments;
  // A window is renewed by halves, not by fragments.
  const std::uint32_t up_to = first + grants_.window;
  const std::uint32_t half = std::max(grants_.window / 2, 1u);
  return std::uint64_t{message.may_come} + half <= up_to ? up_to : message.may_come;
}

GrantRank Incoming::grant_rank(const IncomingMessage& message) const {
  if (turn_.tunables.recovery_gate != 0 && groups_.awaits_last(message.channel, message.hint)) {
    return GrantRank::gate;
  }
  if (message.hint.priority > 0) return GrantRank::hinted;
  const std::uint32_t left = message.fragments - std::min(message.may_come, message.fragments);
  return is_tail(left, message.fragment_bytes) ? GrantRank::tail : GrantRank::ordinary;
}

// For a matched message: checks whether part of it needs a grant.
void Incoming::start_grants(IncomingMessage& message) {
  message.granting.paced = message.no_room || message.may_come < message.fragments;
  if (!message.granting.paced) return;
  Peer& peer = peers_.at(message.peer);
  if (peer.receives.grantee == kNoIndex) {
    if (grants_.grantees.size() == 0) {
      watch_rings();  // earlier overruns don't count
      const Duration trip =
          std::min(peer.response.smoothed(), turn_.granularity / 4);  // not an absence
      std::uint64_t links = 0;
      for (const LocalNic& local : nics_) links += local.nic->caps().link_bytes_per_s / 1'000'000;
      grants_.budget.begin_with(links * static_cast<std::uint64_t>(trip.ns) / 800);
    }
    SlabId id;
    Grantee* grantee = grants_.grantees.try_allocate(id);
    HAWSER_ASSERT(grantee != nullptr);  // there are as many as peers
    grantee->peer = message.peer;
    peer.receives.grantee = id.index;
  }
  ++grants_.grantees.at(peer.receives.grantee).messages;
  regrade(message);
}

void Incoming::leave_grants(IncomingMessage& message) {
  if (!message.granting.paced) return;
  Peer& peer = peers_.at(message.peer);
  message.granting.paced = false;
  regrade(message);
  if (--grants_.grantees.at(peer.receives.grantee).messages > 0) return;
  grants_.grantees.free(peer.receives.grantee);
  peer.receives.grantee = kNoIndex;
}

// A fragment of a paced message has come, which shows how fast its peer is.
Grantee& Incoming::count_granted(const Peer& peer, const IncomingMessage& message) {
  Grantee& grantee = grants_.grantees.at(peer.receives.grantee);
  grantee.came += message.fragment_bytes;
  grantee.pace = std::max(grantee.pace, 2 * grantee.came);
  return grantee;
}

// A fragment of a paced message has come. More of the message may be granted now, and less is
// awaited.
void Incoming::grant_progress(const Peer& peer, IncomingMessage& message) {
  Grantee& grantee = count_granted(peer, message);
  const bool wants = is_stopped(message) || grant_limit(message) > message.may_come;
  if (wants != grants_.by_age.contains(message)) return regrade(message);
  recount_awaited(message, grantee);
  regrade(grantee);
}

// A message has changed: updates its awaited bytes, and the lists that it belongs on.
void Incoming::regrade(IncomingMessage& message) {
  const std::uint32_t index = messages_.index_of(message);
  const Peer& peer = peers_.at(message.peer);
  Grantee& grantee = grants_.grantees.at(peer.receives.grantee);
  recount_awaited(message, grantee);
  const bool wants =
      message.granting.paced && (is_stopped(message) || grant_limit(message) > message.may_come);
  const bool wanted = grants_.by_age.contains(messages_, index);
  const GrantRank rank = grant_rank(message);
  if (wanted && (!wants || rank != message.granting.rank)) grantee.wanting.remove(messages_, index);
  if (wants && (!wanted || rank != message.granting.rank)) {
    std::uint32_t next = rank == GrantRank::ordinary ? kNoIndex : grantee.wanting.front();
    while (next != kNoIndex && messages_.at(next).granting.rank >= rank) {
      next = grantee.wanting.next(messages_, next);
    }
    message.granting.rank = rank;
    grantee.wanting.insert_before(messages_, next, index);
  }
  if (wanted && !wants) grants_.by_age.remove(messages_, index);
  if (wants && !wanted) grants_.by_age.push_back(messages_, index);
  regrade(grantee);
}

void Incoming::regrade(Grantee& grantee) {
  const std::uint64_t counted = std::min(grantee.awaited, grantee.pace);
  grants_.budget.recount(grantee.counted, counted);
  grantee.counted = counted;
  if (grantee.awaited > 0 && grantee.due == kNever && !grantee.is_quiet()) begin_pace(grantee);
  const auto queue = [&]() -> auto& {
    return grants_.waiting[static_cast<std::size_t>(grantee.rank)];
  };
  const bool could = !grantee.wanting.empty() && grantee.may_have_more();
  const bool waits = queue().contains(grantee);
  if (!could && !waits) return;
  const GrantRank rank = could ? messages_.at(grantee.wanting.front()).granting.rank : grantee.rank;
  if (could == waits && rank == grantee.rank) return;
  const std::uint32_t index = grants_.grantees.index_of(grantee);
  if (waits) queue().remove(grants_.grantees, index);
  grantee.rank = rank;
  if (could) queue().push_back(grants_.grantees, index);
}

// Two response times. Or twice the time that all awaited bytes take at the present rate, as these
// may lie behind them.
void Incoming::begin_pace(Grantee& grantee) {
  Peer& peer = peers_.at(grantee.peer);
  const Duration overdue = peer.response.overdue(turn_.granularity);
  const Duration queued = std::min(grants_.budget.time_to_come(), overdue * kMostQueues);
  grantee.backlog = grantee.awaited;
  grantee.came = 0;
  grantee.due = turn_.now() + std::max(overdue, queued) * 2;
  touched_.add(peer);
}

void Incoming::end_pace(Grantee& grantee) {
  grantee.due = kNever;
  const bool all = grantee.awaited == 0 || grantee.came >= grantee.backlog;
  grantee.pace = all ? Grantee::kNoPace : 2 * grantee.came;
  regrade(grantee);
}

void Incoming::expire_pace(const PeerReceives& receives) {
  if (pace_ends(receives) <= turn_.now()) end_pace(grants_.grantees.at(receives.grantee));
}

// A group has come so far that it waits for its last messages. A message's own hint may differ from
// the hints of the group's other messages.
void Incoming::raise_group(std::uint16_t channel, const Hint& hint) {
  grants_.by_age.for_each(messages_, [&](std::uint32_t index) {
    IncomingMessage& message = messages_.at(index);
    const bool member = message.channel == channel && message.hint.group == hint.group &&
                        message.hint.step == hint.step;
    if (member) regrade(message);
  });
}

void Incoming::grant(Grantee& grantee, IncomingMessage& message, std::uint64_t bytes) {
  Peer& peer = peers_.at(grantee.peer);
  const std::uint32_t from =
      is_stopped(message) ? message.arrived.first_missing() : message.may_come;
  const std::uint64_t count = std::max<std::uint64_t>(bytes / message.fragment_bytes, 1);
  // A stopped sender may send its unscheduled bytes anew, whatever the grant says.
  const auto up_to = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      from + count, message.may_come, std::max(grant_limit(message), message.may_come)));
  // A grant behind many awaited bytes would measure those.
  if (message.expect.asked_at == Time{} && message.awaited <= count * message.fragment_bytes) {
    message.expect.asked_at = turn_.now();
    message.expect.asked_from = from;
    message.expect.asked_to = up_to;
  }
  // The sender continues behind the last fragment that is here, so missing ones before it need a
  // request.
  const std::uint32_t hole = message.arrived.first_missing();
  const bool lacks_some = is_stopped(message) && message.arrived.claimed() > hole;
  message.granted = message.may_come = up_to;
  message.moved = coarse(turn_.now());
  regrade(message);
  if (!message.expect.timer.is_armed()) expect(peer, message, true);
  outbox_.add_grant(peer, message);
  if (lacks_some) outbox_.add_request(peer, message);
}

void Incoming::grant_oldest() {
  const std::uint64_t part = std::max<std::uint64_t>(grants_.budget.bytes() / kOldestPart,
                                                     sender_.limits().fragment_bytes);
  // Beyond the budget by only a few such parts, as the oldest may be another one every turn.
  if (grants_.budget.awaited() >= grants_.budget.bytes() + kMostParts * part) return;
  for (int i = 0; i < kMostQuiet && !grants_.by_age.empty(); ++i) {
    const std::uint32_t index = grants_.by_age.front();
    IncomingMessage& message = messages_.at(index);
    Grantee& grantee = grants_.grantees.at(peers_.at(message.peer).receives.grantee);
    if (!grantee.is_quiet()) {
      if (message.awaited <= part / 2 && grantee.may_have_more()) {
        grant(grantee, message, std::min(part, grantee.pace) - message.awaited);
      }
      return;
    }
    grants_.by_age.remove(messages_, index);
    grants_.by_age.push_back(messages_, index);
  }
}

// Called at a turn's end, when everything that arrived is known.
void Incoming::give_grants() {
  if (grants_.grantees.size() == 0) return;
  grants_.budget.end_round(turn_.now(), std::max(grants_.response.smoothed(), turn_.granularity));
  grant_oldest();
  const std::uint64_t step = std::clamp<std::uint64_t>(
      grants_.budget.bytes() / kOldestPart, sender_.limits().fragment_bytes,
      kMostAtOnce * sender_.limits().fragment_bytes);
  for (std::size_t rank = kGrantRanks; rank-- > 0;) {
    auto& queue = grants_.waiting[rank];
    while (!queue.empty()) {
      const std::uint32_t index = queue.front();
      Grantee& grantee = grants_.grantees.at(index);
      IncomingMessage& message = messages_.at(grantee.wanting.front());
      std::uint64_t bytes = std::min(step, grantee.pace - std::min(grantee.pace, grantee.awaited));
      if (!is_stopped(message)) {
        bytes = std::min(
            bytes, std::uint64_t{grant_limit(message) - message.may_come} * message.fragment_bytes);
      }
      if (bytes > grants_.budget.room()) return grants_.budget.on_short();
      queue.remove(grants_.grantees, index);  // its next turn comes after the others'
      grant(grantee, message, bytes);
    }
  }
}

void Incoming::watch_rings() {
  std::uint64_t sum = 0;
  for (const LocalNic& local : nics_) sum += local.nic->overruns();
  if (sum != grants_.overruns && grants_.grantees.size() > 0) grants_.budget.on_overrun();
  grants_.overruns = sum;
}

}  // namespace hawser::proto
