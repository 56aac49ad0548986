// SPDX-License-Identifier: Apache-2.0
// Which pairs of NICs control goes over.
//
// A single packet goes over the pair last heard, unless there is evidence against that pair. Then
// it goes over a path that is UP, or, without one, over any pair. None of this shows that a way is
// dead in one direction, or on the control queue alone; an unanswered question does. Therefore a
// question's first repetition goes over two pairs. Every later one goes over all bound pairs and
// one that is not bound. Such a question *insists* (flag INSISTS): its answer goes over as many
// pairs. Each end then doubts the pair that came first until then: others come before it until
// path_probe_max later.
//
// Per peer and response time, one packet goes over all pairs, be it a question or an answer: many
// at once would fill rings. Others go over two pairs.
//
// Invariants: a pair that has no way is never used. If a packet goes over several pairs, the first
// is the one that a single packet would take.
#include <algorithm>

#include "proto/endpoint/core.hpp"

namespace hawser::proto {

namespace {

// Doubts the pair that control last went over: it brought no answer.
template <class Core>
void doubt_route(Core& core, Peer& peer) {
  core.for_each_path(peer, [&](const Path& path) {
    if (pair_of(path) != peer.said_over) return;
    peer.doubted = static_cast<std::uint16_t>(peer.doubted | 1u << path.slot);
    peer.doubted_at = coarse(core.turn.now());
  });
}

// Whether a packet may go over all pairs now. If so, the pair that comes first is doubted.
template <class Core>
bool may_insist(Core& core, Peer& peer) {
  const auto least =
      static_cast<std::uint32_t>(peer.response.overdue(core.turn.granularity).ns >> 10);
  if (peer.insisted_at != 0 && fine(core.turn.now()) - peer.insisted_at < least) return false;
  peer.insisted_at = std::max(fine(core.turn.now()), 1u);
  // A peer that is silent on every pair says nothing about this one. An absence of this end
  // says nothing either.
  const Duration due = peer.response.overdue(core.turn.granularity);
  const bool was_away = core.turn.absence().since(core.turn.now() - due * 4).ns > 0;
  if (core.turn.now() - peer.last_heard <= due && !was_away) doubt_route(core, peer);
  return true;
}

// Bits of the slots whose pairs come last.
template <class Core>
std::uint32_t doubted_slots(const Core& core, Peer& peer) {
  const auto longest = static_cast<std::int32_t>(
      coarse(Time{} + microseconds(core.turn.tunables.path_probe_max_us)));
  if (peer.doubted != 0 && coarse_since(peer.doubted_at, core.turn.now()) > longest)
    peer.doubted = 0;
  return peer.doubted;
}

// A random pair that is UP and has a way, other than `than`, and in none of the slots `not_these`.
template <class Core>
std::optional<NicPair> find_up(Core& core, Peer& peer, NicPair than, std::uint32_t not_these) {
  const auto start = static_cast<std::uint32_t>(core.turn.random.below(kMaxPaths));
  for (std::uint32_t step = 0; step < kMaxPaths; ++step) {
    const std::uint32_t index = peer.paths[(start + step) % kMaxPaths];
    if (index == kNoIndex) continue;
    const Path& path = core.paths.at(index);
    if (path.state != PathState::up || (not_these >> path.slot & 1) != 0) continue;
    const NicPair pair = pair_of(path);
    if (pair == than || !core.nics[pair.local].up) continue;
    if (core.sender.remote(peer, pair) != kNoRemote) return pair;
  }
  return std::nullopt;
}

}  // namespace

// For a question that was asked `asked` times before.
Ways Endpoint::Core::ways_of_question(Peer& peer, std::uint32_t asked) {
  if (asked == 0) return Ways::one;
  return asked >= kInsistsAfter && may_insist(*this, peer) ? Ways::all : Ways::two;
}

// The peer has asked in vain before.
void Endpoint::Core::on_insists(Peer& peer) {
  peer.raise_ways(may_insist(*this, peer) ? Ways::all : Ways::two);
}

// The pair for a packet without copies, or the first pair of one with copies. A packet with copies
// takes the pair last heard in any case: if no path answers any more, UP only describes the past.
NicPair Endpoint::Core::control_route(Peer& peer, Ways ways) {
  const NicPair last = peer.route;
  const std::uint32_t slots = doubted_slots(*this, peer);
  bool bad = !nics[last.local].up || sender.remote(peer, last) == kNoRemote;
  bool bound = false;    // this pair
  bool proven = false;   // a pair of this local NIC carries data
  bool down = false;     // one doesn't
  bool doubted = false;  // this pair
  for_each_path(peer, [&](const Path& path) {
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
  if (!bad) return doubted ? find_up(*this, peer, last, slots).value_or(last) : last;
  if (const auto other = other_route(peer, last)) return *other;
  return next_pair(peer);
}

// A random pair that has a way, if there is any.
NicPair Endpoint::Core::next_pair(Peer& peer) {
  const auto pairs = static_cast<std::uint32_t>(nics.size()) * std::max(peer.remote_nics, 1u);
  const auto start = static_cast<std::uint32_t>(turn.random.below(pairs));
  NicPair pair = peer.route;
  for (std::uint32_t step = 0; step < pairs; ++step) {
    const std::uint32_t i = (start + step) % pairs;
    const NicPair one{i % nics.size(), i / nics.size()};
    if (!nics[one.local].up || !sender.can_address(peer, one.local, one.remote)) continue;
    if (sender.remote(peer, one) == kNoRemote) continue;
    pair = one;
    break;
  }
  return pair;
}

// Keeps to the pair if it has a way.
NicPair Endpoint::Core::find_way(Peer& peer, NicPair pair) {
  return sender.remote(peer, pair) != kNoRemote ? pair : next_pair(peer);
}

// A pair that is UP, other than `than`; one that isn't doubted, if there is any.
std::optional<NicPair> Endpoint::Core::other_route(Peer& peer, NicPair than) {
  if (const auto trusted = find_up(*this, peer, than, doubted_slots(*this, peer))) return trusted;
  return find_up(*this, peer, than, 0);
}

// The routes of a packet that goes over one pair or several.
Routes Endpoint::Core::plan_routes(Peer& peer, Ways ways) {
  Routes routes;
  routes.first = control_route(peer, ways);
  if (ways == Ways::two) {
    if (const auto other = other_route(peer, routes.first)) routes.add(*other);
  }
  if (ways == Ways::all) {
    for_each_path(peer, [&](const Path& path) { routes.add(pair_of(path)); });
    const NicPair more = next_pair(peer);
    bool bound = false;
    for_each_path(peer, [&](const Path& path) { bound |= pair_of(path) == more; });
    if (!bound) routes.add(more);
  }
  return routes;
}

// Sends the written packet over one pair or several, and gives the buffer away. False: the first
// pair has no way, or its NIC is full.
bool Endpoint::Core::send_by(Peer& peer, PacketBuffer& buffer, wire::PacketWriter& writer,
                             Ways ways) {
  const Routes routes = plan_routes(peer, ways);
  const bool is_control = wire::rule_of(writer.header().type).queue == Queue::control;
  if (is_control && sender.remote(peer, routes.first) != kNoRemote) peer.said_over = routes.first;
  return sender.send_over(peer, routes, buffer, writer);
}

}  // namespace hawser::proto
