// SPDX-License-Identifier: Apache-2.0
// Which of a peer's paths are bound. A session has a slot for each pair of NICs that it begins
// with, but a path costs memory at both ends. A peer therefore begins with two, its home paths, and
// has more while it needs them (docs/internals/protocol.md §10):
//
//   * Bulk: a message is longer than two paths take at a time, or data would queue up behind
//     a burst on every bound path.
//   * Repair: fewer than two paths answer.
//
// A path that was not needed for as long as a peer must be quiet to rest is released. No packet
// says so: to the receiver an unbound path looks idle, and the receiver forgets the state of idle
// paths.
//
// The sum of the two endpoints' ids chooses the home paths, so both ends choose the same. The homes
// of an endpoint's peers are on all of its NICs, evenly if their ids are.
//
// Invariants: slot i < pair_count has pair i (nic_pairs.hpp), or nothing. It has a bridge only if
// no other slot is left for one and no path works. Path numbers of a slot continue above all that
// it had. A bound path is UP, unless its bit in `unproven` says that one of its NICs went away or
// moved since it last was: then probes must come back first.
#include <algorithm>
#include <array>

#include "proto/base/sequence.hpp"
#include "proto/path/nic_pairs.hpp"
#include "proto/path/path_set.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/packet_sender.hpp"

namespace hawser::proto {

namespace {

// From this many PTOs in a row on, a path doesn't count as one that answers.
constexpr std::uint8_t kDoubted = 2;
// Up to this many full packets in flight on a path, no other one is bound beside it.
constexpr std::uint64_t kFewPackets = 8;
constexpr Duration kLeastIdle = milliseconds(1);

}  // namespace

PathSet::PathSet(const Parts& parts, std::uint32_t paths, std::uint32_t record_blocks)
    : turn_(parts.turn),
      peers_(parts.peers),
      sender_(parts.sender),
      nics_(parts.sender.nics()),
      reporter_(parts.reporter),
      senders_(parts.senders),
      touched_(parts.touched),
      verdicts_(parts.verdicts),
      packets_(parts.packets),
      user_(parts.user),
      endpoint_id_(parts.endpoint_id),
      paths_(paths),
      records_(record_blocks) {}

// Computed anew whenever an address of either end is learned.
void PathSet::pair_nics(Peer& peer) {
  const NicPairs pairs(
      {nics_.size(), peer.session.remote_nics, endpoint_id_ < peer.identity.remote_id},
      turn_.tunables.max_path_slots, [&](std::size_t local, std::size_t remote_nic) {
        return sender_.can_address(peer, local, remote_nic);
      });
  peer.slots.pairs = pairs.all();
  peer.paths.pair_count = static_cast<std::uint8_t>(pairs.size());
}

// An address has changed while slots are bound. Slots that now stand for another pair, or for none,
// are freed, and their paths begin anew.
void PathSet::pair_anew(Peer& peer) {
  const auto old = peer.slots.pairs;
  const std::uint32_t old_count = peer.paths.pair_count;
  pair_nics(peer);
  if (peer.slots.pairs == old && peer.paths.pair_count == old_count) return;
  for (std::uint32_t slot = 0; slot < std::max<std::uint32_t>(old_count, peer.paths.pair_count);
       ++slot) {
    const bool was = slot < old_count;
    const bool is = slot < peer.paths.pair_count;
    if (was && is && old[slot] == peer.slots.pairs[slot]) continue;
    if (Path* path = of(peer.paths, slot)) release_path(peer, *path);
    ++peer.slots.generations[slot];
    if (is) set_unproven(peer, slot);
  }
}

// The order in which a peer's first slots are bound: the home slots, half of the slots apart, then
// those that follow the first of them.
std::uint32_t PathSet::slot_in_order(const Peer& peer, std::uint32_t place) const {
  const std::uint32_t count = peer.paths.pair_count;
  const std::uint64_t mixed =
      ((endpoint_id_ + peer.identity.remote_id) * 0x9e3779b97f4a7c15u) >> 32;
  const auto home = static_cast<std::uint32_t>((mixed * count) >> 32);
  const std::uint32_t half = (count + 1) / 2;
  if (place == 1) return (home + half) % count;
  return (home + (place > 1 && place <= half ? place - 1 : place)) % count;
}

// A session begins.
void PathSet::open_paths(Peer& peer) {
  peer.paths.unproven = 0;
  peer.slots.epochs.fill(epoch_of(peer.slots.path_start));
  for (std::uint32_t i = 0; i < peer.paths.pair_count; ++i) ++peer.slots.generations[i];
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(kHomePaths, peer.paths.pair_count); ++i) {
    (void)bind_slot(peer, slot_in_order(peer, i), false);
  }
}

// Binds paths after a rest that began with `known_news`: the same slots and generations, with new
// numbers, so that reports about old numbers are not believed of these. A path must be proven first
// if its NIC is away, or was since, or has moved. Events already reported are not repeated.
void PathSet::reopen_paths(Peer& peer, std::uint32_t known_news) {
  for (std::uint32_t i = 0; i < peer.paths.pair_count; ++i) {
    if (is_newer(nics_[peer.slots.pairs[i].local].changed, known_news)) set_unproven(peer, i);
  }
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(kHomePaths, peer.paths.pair_count); ++i) {
    const std::uint32_t slot = slot_in_order(peer, i);
    (void)bind_slot(peer, slot, !is_newer(nics_[peer.slots.pairs[slot].local].fell, known_news));
  }
}

// Something has happened to a NIC: paths bound to it later must be proven.
void PathSet::doubt_unbound(Peer& peer, std::size_t nic, bool ours) {
  for (std::uint32_t i = 0; i < peer.paths.pair_count; ++i) {
    if ((ours ? peer.slots.pairs[i].local : peer.slots.pairs[i].remote) == nic)
      set_unproven(peer, i);
  }
}

// Binds a first slot. `told`: if it is DOWN, that is known already. Null: no memory.
Path* PathSet::bind_slot(Peer& peer, std::uint32_t slot, bool told) {
  const bool doubted = (peer.paths.unproven >> slot & 1) != 0;
  Path* path = bind_path(peer, slot, peer.slots.pairs[slot].local, peer.slots.pairs[slot].remote);
  if (path == nullptr) return nullptr;
  peer.paths.unproven = static_cast<std::uint16_t>(peer.paths.unproven & ~(1u << slot));
  const bool away = is_away(peer, *path);
  if (!away && !doubted) return path;
  if (told) {
    path->state = PathState::down;
    path->told_down = true;
    path->probe.interval = microseconds(turn_.tunables.path_probe_min_us);
  }
  const Reason whose = nics_[path->local_nic].up ? Reason::peer_said : Reason::driver;
  path_down(peer, *path, away ? whose : Reason::moved);
  if (!away) path->probe.timer.arm(turn_.now());
  return path;
}

// Whether one of its NICs is down, as its driver reports.
bool PathSet::is_away(Peer& peer, const Path& path) {
  return !nics_[path.local_nic].up || !peers_.is_up(peer, path.remote_nic);
}

// Binds a pair other than those that a session begins with. It is DOWN until proven. It takes slot
// `at`; kNoIndex: a slot behind the first ones.
Path* PathSet::bind_bridge(Peer& peer, std::uint8_t local, std::uint8_t remote_nic,
                           std::uint32_t at) {
  if (at == kNoIndex) {
    for (at = peer.paths.pair_count; at < turn_.tunables.max_path_slots; ++at) {
      if (peer.paths.indices[at] == kNoIndex) break;
    }
    if (at == turn_.tunables.max_path_slots) return nullptr;
  }
  ++peer.slots.generations[at];
  Path* path = bind_path(peer, at, local, remote_nic);
  if (path == nullptr) return nullptr;
  path->state = PathState::down;
  path->probe.interval = microseconds(turn_.tunables.path_probe_min_us);
  path->probe.timer.arm(turn_.now());
  return path;
}

Path* PathSet::bind_path(Peer& peer, std::uint32_t slot, std::uint8_t local,
                         std::uint8_t remote_nic) {
  SlabId id;
  Path* path = paths_.try_allocate(id);
  if (path == nullptr) return nullptr;
  for_each(peer.paths, [&](const Path& other) {  // it has nothing to catch up with
    path->traffic.balance_bytes =
        std::max(path->traffic.balance_bytes, other.traffic.balance_bytes);
  });
  begin_epoch(peer, slot);
  peer.paths.indices[slot] = id.index;
  peer.paths.bound = static_cast<std::uint16_t>(peer.paths.bound | 1u << slot);
  ControlRoutes::forget_slot(peer, slot);
  path->slot = static_cast<std::uint8_t>(slot);
  path->generation = peer.slots.generations[slot];
  path->local_nic = local;
  path->remote_nic = remote_nic;
  path->heard_at = turn_.now();
  path->resumed = peer.slots.path_start != turn_.tunables.initial_sequence;
  path->sent.start(peer.slots.path_start);
  path->oldest = path->sent.base();
  path->response = ResponseTime(peer.response.smoothed());
  path->window = fresh_window(peer, local);
  return path;
}

// A round trip's bytes at the link's rate, if that is known and they go over several lanes: on one
// lane, all at once, they would fill its queues. The response time may include a host's absence, so
// there is a limit. It lacks the time that a host takes between packets, as a handshake is one
// packet.
CongestionController PathSet::fresh_window(const Peer& peer, std::size_t local) const {
  constexpr std::uint64_t kMost = 4;  // times the value for an unknown rate
  constexpr Duration kTurns = microseconds(2);
  const auto packet = static_cast<std::uint32_t>(wire_bytes_of_longest_packet(peer));
  const std::uint64_t link =
      nics_[local].lanes == 1 ? 0 : nics_[local].nic->caps().link_bytes_per_s;
  const auto trip_ns = static_cast<double>((peer.response.smoothed() + kTurns).ns);
  const auto trip = static_cast<std::uint64_t>(static_cast<double>(link) * 1e-9 * trip_ns);
  const std::uint64_t least = turn_.tunables.initial_window_packets;
  return CongestionController(
      {.packet_bytes = packet,
       .initial_packets = std::clamp(trip / packet + 1, least, kMost * least),
       .delay_target = microseconds(turn_.tunables.delay_target_us),
       .spread_link_bytes_per_s = link});
}

void PathSet::release_path(Peer& peer, Path& path) {
  evacuate(peer, path);
  if (before(peer.slots.path_start, path.sent.next())) peer.slots.path_start = path.sent.next();
  path.sent.clear(records_);
  peer.paths.indices[path.slot] = kNoIndex;
  peer.paths.bound = static_cast<std::uint16_t>(peer.paths.bound & ~(1u << path.slot));
  if (path.slot < peer.paths.pair_count && path.state != PathState::up) {
    set_unproven(peer, path.slot);
  }
  // The next bridge there may have another pair.
  if (path.slot < peer.paths.pair_count && path.role.bridge) ++peer.slots.generations[path.slot];
  if (path.role.for_bulk) --bulk_paths_;
  paths_.free(paths_.index_of(path));
}

// Binds one more of the first slots, the best that is left. Null: there is none.
Path* PathSet::bind_next(Peer& peer, bool proven_only) {
  std::uint32_t best = kNoIndex;
  int best_rank = proven_only ? 1 : 3;
  for (std::uint32_t i = 0; i < peer.paths.pair_count; ++i) {
    const std::uint32_t slot = slot_in_order(peer, i);
    if (peer.paths.indices[slot] != kNoIndex) continue;
    const NicPair pair = peer.slots.pairs[slot];
    const bool away = !nics_[pair.local].up || !peers_.is_up(peer, pair.remote);
    const int rank = away ? 2 : (peer.paths.unproven >> slot & 1) != 0 ? 1 : 0;
    if (rank >= best_rank) continue;
    best = slot;
    best_rank = rank;
  }
  return best == kNoIndex ? nullptr : bind_slot(peer, best, false);
}

// A message of so many fragments is about to be sent.
void PathSet::bind_for_bulk(Peer& peer, std::uint32_t fragments) {
  if (fragments <= kFewPackets * kHomePaths) return;
  peer.paths.crowded_at = turn_.now();
  while (!all_bound(peer) && bind_for_data(peer) != nullptr) {
  }
}

// Data behind so many bytes in flight on a path would rather go on another one.
std::uint64_t PathSet::crowd_bytes(const Peer& peer, std::uint64_t want_bytes) const {
  return std::max(want_bytes, kFewPackets * wire_bytes_of_full_packet(peer));
}

// The next data would go on `chosen`, or nowhere. Returns another path that may carry it instead,
// if one can be bound for that.
Path* PathSet::bind_beside(Peer& peer, const Path* chosen, std::uint64_t want_bytes) {
  if (chosen != nullptr && chosen->bytes_in_flight < crowd_bytes(peer, want_bytes)) return nullptr;
  peer.paths.crowded_at = turn_.now();
  return all_bound(peer) ? nullptr : bind_for_data(peer);
}

bool PathSet::all_bound(const Peer& peer) const {
  const auto end = peer.paths.indices.begin() + peer.paths.pair_count;
  return std::find(peer.paths.indices.begin(), end, kNoIndex) == end;
}

// Binds a path that is UP. Null: there is none, or too many peers have bulk. The latter doesn't
// count if no path answers.
Path* PathSet::bind_for_data(Peer& peer) {
  const bool repair = count_answering(peer) == 0;
  while (repair || bulk_paths_ < turn_.tunables.max_bulk_paths) {
    Path* path = bind_next(peer, false);
    if (path == nullptr) return nullptr;
    path->role.for_bulk = !repair;
    if (!repair) ++bulk_paths_;
    user_.timers_changed(peer);
    if (path->state == PathState::up) return path;
  }
  return nullptr;
}

// Counts the paths that carry data, and that answer as far as one can tell.
std::uint32_t PathSet::count_answering(Peer& peer) {
  std::uint32_t count = 0;
  for_each(peer.paths, [&](const Path& path) {
    if (path.state == PathState::up && nics_[path.local_nic].up && path.unanswered < kDoubted) {
      ++count;
    }
  });
  return count;
}

// Called at the end of a turn. A path bound because others are silent probes the peer at once: the
// answer is the evidence against them. Returns since when the receive paths must have been idle to
// be forgotten, if it is time for that.
std::optional<Time> PathSet::tend(Peer& peer) {
  if (peer.session.state != SessionState::ready) return std::nullopt;
  const std::uint32_t answering = count_answering(peer);
  const bool lacks_paths = answering < std::min<std::uint32_t>(kHomePaths, peer.paths.pair_count);
  if (lacks_paths) bind_for_repair(peer, answering > 0);
  if (turn_.now() < peer.paths.trim_at) return std::nullopt;
  const Duration quiet = std::max(milliseconds(turn_.tunables.rest_after_ms), kLeastIdle);
  const Time since = turn_.now() - quiet;
  // While a path to release has something in flight, every turn looks at it again.
  if (lacks_paths || release_idle(peer, since, answering)) {
    peer.paths.trim_at = turn_.now() + quiet / 4;
  }
  return since;
}

// Fewer paths answer than a peer should have.
void PathSet::bind_for_repair(Peer& peer, bool proven_only) {
  Path* path = bind_next(peer, proven_only);
  if (path == nullptr || path->state != PathState::up) return;
  peer.paths.crowded_at = turn_.now();
  bool awaited = false;
  for_each(peer.paths, [&](const Path& other) { awaited |= other.packets_in_flight > 0; });
  if (awaited && send_probe(peer, *path, false)) arm_pto(*path);
  senders_.want(peer);
}

// Releases paths that were not needed since `since`, as a rest would. False: some of them are busy.
bool PathSet::release_idle(Peer& peer, Time since, std::uint32_t answering) {
  bool all = true;
  for (std::uint32_t i = kHomePaths; i < peer.paths.pair_count; ++i) {
    if (answering <= kHomePaths || peer.paths.crowded_at >= since) break;
    Path* path = of(peer.paths, slot_in_order(peer, i));
    if (path == nullptr || path->state != PathState::up) continue;
    if (path->packets_in_flight > 0) {
      all = false;
      continue;
    }
    if (path->unanswered < kDoubted) --answering;
    release_path(peer, *path);
  }
  return all;
}

}  // namespace hawser::proto
