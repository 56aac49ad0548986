// SPDX-License-Identifier: Apache-2.0
#include "proto/service/control_routes.hpp"

#include <algorithm>

#include "proto/wire/packet.hpp"

namespace hawser::proto {

void ControlRoutes::begin_session(Peer& peer) {
  peer.routes.doubted = 0;
  peer.routes.insisted_at = 0;
}

void ControlRoutes::forget_slot(Peer& peer, std::uint32_t slot) {
  peer.routes.doubted = static_cast<std::uint16_t>(peer.routes.doubted & ~(1u << slot));
}

// Doubts the pair that control went over first: it brought no answer.
void ControlRoutes::doubt_route(Peer& peer, NicPair pair) {
  for_each_path(paths_, peer.paths, [&](const Path& path) {
    if (pair_of(path) != pair) return;
    peer.routes.doubted = static_cast<std::uint16_t>(peer.routes.doubted | 1u << path.slot);
    peer.routes.doubted_at = coarse(turn_.now());
  });
}

// Whether a packet may go over all pairs now. If so, the pair that came first is doubted.
bool ControlRoutes::may_insist(Peer& peer, NicPair first) {
  const auto least = static_cast<std::uint32_t>(peer.response.overdue(turn_.granularity).ns >> 10);
  if (peer.routes.insisted_at != 0 && fine(turn_.now()) - peer.routes.insisted_at < least)
    return false;
  peer.routes.insisted_at = std::max(fine(turn_.now()), 1u);
  // A peer that is silent on every pair says nothing about this one. An absence of this end
  // says nothing either.
  const Duration due = peer.response.overdue(turn_.granularity);
  const bool was_away = turn_.absence().since(turn_.now() - due * 4).ns > 0;
  if (turn_.now() - peer.session.last_heard <= due && !was_away) doubt_route(peer, first);
  return true;
}

// Bits of the slots whose pairs come last.
std::uint32_t ControlRoutes::doubted_slots(Peer& peer) {
  const auto longest =
      static_cast<std::int32_t>(coarse(Time{} + microseconds(turn_.tunables.path_probe_max_us)));
  if (peer.routes.doubted != 0 && coarse_since(peer.routes.doubted_at, turn_.now()) > longest)
    peer.routes.doubted = 0;
  return peer.routes.doubted;
}

// A random pair that is UP and has a way, other than `than`, and in none of the slots `not_these`.
std::optional<NicPair> ControlRoutes::find_up(Peer& peer, NicPair than, std::uint32_t not_these) {
  const auto start = static_cast<std::uint32_t>(turn_.random.below(kMaxPaths));
  for (std::uint32_t step = 0; step < kMaxPaths; ++step) {
    const std::uint32_t index = peer.paths.indices[(start + step) % kMaxPaths];
    if (index == kNoIndex) continue;
    const Path& path = paths_.at(index);
    if (path.state != PathState::up || (not_these >> path.slot & 1) != 0) continue;
    const NicPair pair = pair_of(path);
    if (pair == than || !sender_.nics()[pair.local].up) continue;
    if (sender_.remote(peer, pair) != kNoRemote) return pair;
  }
  return std::nullopt;
}

Ways ControlRoutes::ways_of_question(Peer& peer, std::uint32_t asked) {
  if (asked == 0) return Ways::one;
  if (peer.session.announcing) {
    peer.session.call_at = earlier(peer.session.call_at, turn_.now());
    touched_.add(peer);
  }
  return asked >= kInsistsAfter && may_insist(peer, peer.routes.sent_over) ? Ways::all : Ways::two;
}

Ways ControlRoutes::ways_of_answer(Peer& peer, bool is_probe) {
  const NicPair first = is_probe ? peer.session.route : peer.routes.sent_over;
  return may_insist(peer, first) ? Ways::all : Ways::two;
}

// A packet with copies takes the pair last heard in any case: if no path answers any more, UP only
// describes the past.
NicPair ControlRoutes::first_of(Peer& peer, Ways ways) {
  const NicPair last = peer.session.route;
  const std::uint32_t slots = doubted_slots(peer);
  bool bad = !sender_.nics()[last.local].up || sender_.remote(peer, last) == kNoRemote;
  bool bound = false;    // this pair
  bool proven = false;   // a pair of this local NIC carries data
  bool down = false;     // one doesn't
  bool doubted = false;  // this pair
  for_each_path(paths_, peer.paths, [&](const Path& path) {
    if (path.local_nic != last.local || ways != Ways::one) return;
    const bool is_up = path.state == PathState::up;
    (is_up ? proven : down) = true;
    if (path.remote_nic != last.remote) return;
    bound = true;
    bad |= !is_up;
    doubted = (slots >> path.slot & 1) != 0;
  });
  // Hearing the peer over a pair of its own choice doesn't show that our NIC can send.
  bad |= !bound && down && !proven;
  // A doubt is no proof: it only prefers another pair that is as good otherwise.
  if (!bad) return doubted ? find_up(peer, last, slots).value_or(last) : last;
  if (const auto other = other_route(peer, last)) return *other;
  return next_pair(peer);
}

// A random pair that has a way, if there is any.
NicPair ControlRoutes::next_pair(Peer& peer) {
  const auto pairs = static_cast<std::uint32_t>(sender_.nics().size()) *
                     std::max<std::uint32_t>(peer.session.remote_nics, 1);
  const auto start = static_cast<std::uint32_t>(turn_.random.below(pairs));
  NicPair pair = peer.session.route;
  for (std::uint32_t step = 0; step < pairs; ++step) {
    const std::uint32_t i = (start + step) % pairs;
    const NicPair one{i % sender_.nics().size(), i / sender_.nics().size()};
    if (!sender_.nics()[one.local].up || !sender_.can_address(peer, one.local, one.remote))
      continue;
    if (sender_.remote(peer, one) == kNoRemote) continue;
    pair = one;
    break;
  }
  return pair;
}

NicPair ControlRoutes::find_way(Peer& peer, NicPair pair) {
  return sender_.remote(peer, pair) != kNoRemote ? pair : next_pair(peer);
}

// A pair that is UP, other than `than`; one that isn't doubted, if there is any.
std::optional<NicPair> ControlRoutes::other_route(Peer& peer, NicPair than) {
  if (const auto trusted = find_up(peer, than, doubted_slots(peer))) return trusted;
  return find_up(peer, than, 0);
}

// The routes of a packet that goes over one pair or several.
Routes ControlRoutes::plan(Peer& peer, Ways ways) {
  Routes routes;
  routes.first = first_of(peer, ways);
  if (ways == Ways::two) {
    if (const auto other = other_route(peer, routes.first)) routes.add(*other);
  }
  if (ways == Ways::all) {
    for_each_path(paths_, peer.paths, [&](const Path& path) { routes.add(pair_of(path)); });
    const NicPair more = next_pair(peer);
    bool bound = false;
    for_each_path(paths_, peer.paths, [&](const Path& path) { bound |= pair_of(path) == more; });
    if (!bound) routes.add(more);
  }
  return routes;
}

bool ControlRoutes::send(Peer& peer, Ways ways, PacketBuffer& buffer, wire::PacketWriter& writer) {
  const Routes routes = plan(peer, ways);
  const bool is_control = wire::rule_of(writer.header().type).queue == Queue::control;
  if (is_control && sender_.remote(peer, routes.first) != kNoRemote)
    peer.routes.sent_over = routes.first;
  return sender_.send_over(peer, routes, buffer, writer);
}

}  // namespace hawser::proto
