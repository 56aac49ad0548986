// SPDX-License-Identifier: Apache-2.0
// The life of paths: suspected, down, probed, back. Also bridges between NICs that were not paired
// at first. docs/internals/protocol.md §10 has the table of states; binding.cpp decides which paths
// there are.
//
// Timer of a path: `probe.timer`, armed in SUSPECT, DOWN and PROBING. In UP it is armed only while
// the driver finds no way. binding.cpp, session/nic_news.cpp and session/addresses.cpp arm it as
// well.
//
// Invariants: a slot that changes its NIC pair gets a new generation and new numbers. Before that,
// everything in flight on it is evacuated. A path in DOWN carries probes only.
#include <algorithm>
#include <array>

#include "proto/base/sequence.hpp"
#include "proto/path/path_set.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {
constexpr std::uint8_t kProbesUntilDown = 3;
constexpr std::uint8_t kProbesUntilUp = 2;
constexpr std::int64_t kBriefly = 8;  // a silence below patience / this is no concern
constexpr std::uint8_t kMostProbes = 255;
Duration longer(Duration interval, const Tunables& tunables) {
  return std::min(interval * 2, microseconds(tunables.path_probe_max_us));
}

}  // namespace

void PathSet::want_verdicts() { verdicts_.want(turn_.now(), peers_.awake()); }

// The earliest timer of the peer's paths.
Time PathSet::next_timer(const Peer& peer) {
  Time at = kNever;
  for_each(peer.paths, [&](const Path& path) {
    at = earlier(at, earlier(path.pto_timer.at(), earlier(path.gap_at, path.probe.timer.at())));
  });
  return at;
}

// Fires the timers of the peer's paths that are due.
void PathSet::expire(Peer& peer) {
  for (const std::uint32_t index : std::array(peer.paths.indices)) {
    if (index == kNoIndex || !paths_.is_live(index)) continue;
    Path& path = paths_.at(index);
    if (path.gap_at <= turn_.now()) {
      find_gaps(peer, path);
      senders_.want(peer);  // the window has room again
    }
    if (path.pto_timer.is_due(turn_.now())) expire_pto(peer, path);
    if (path.probe.timer.is_due(turn_.now())) expire_probe(peer, path);
  }
}

// Whether the path's driver knows the way. It may have to ask the network first. An UP path waits
// for that as long as for an answer, and then goes DOWN.
bool PathSet::has_way(Peer& peer, Path& path) {
  if (sender_.remote(peer, pair_of(path)) != kNoRemote) {
    if (path.without_way) path.probe.timer.stop();
    path.without_way = false;
    return true;
  }
  if (!path.without_way) {
    path.without_way = true;
    path.probe.timer.arm(turn_.now() + path.response.overdue(turn_.granularity));
    user_.timers_changed(peer);
  }
  return false;
}

// The next path after this one, in the order of slots, that carries data. Null: there is none.
Path* PathSet::next_usable_path(Peer& peer, const Path& path) {
  for (std::size_t i = 1; i < kMaxPaths; ++i) {
    Path* other = of(peer.paths, (path.slot + i) % kMaxPaths);
    if (other != nullptr && other->state == PathState::up && nics_[other->local_nic].up)
      return other;
  }
  return nullptr;
}

// Probes the other path that was heard last, unless something is in flight there: the peer then has
// something to acknowledge on it. Probing several dead paths would find the living pair of NICs
// later.
void PathSet::ask_elsewhere(Peer& peer, const Path& path) {
  Path* other = nullptr;
  for_each(peer.paths, [&](Path& one) {
    if (one.slot == path.slot || one.state != PathState::up || !one.any_acked) return;
    if (!nics_[one.local_nic].up) return;
    if (other == nullptr || other->heard_at < one.heard_at) other = &one;
  });
  if (other == nullptr || other->packets_in_flight > 0) return;
  if (send_probe(peer, *other, false)) arm_pto(*other);
}

// Whether a path carries data and answers.
bool PathSet::any_path_works(Peer& peer) {
  bool any = false;
  for_each(peer.paths, [&](const Path& path) {
    any |= path.state == PathState::up && path.unanswered < kTriedInVain;
  });
  return any;
}

void PathSet::suspect(Peer& peer, Path& path, Reason reason) {
  path.state = PathState::suspect;
  path.without_way = false;
  path.counts.unheard = 0;
  reporter_.emit(Event::Kind::path_suspect, peer, path, reason);
  path.unanswered = 0;
  evacuate(peer, path);
  path.probe.timer.arm(turn_.now());  // at once, in this turn's timers or the next's
  senders_.want(peer);
  user_.timers_changed(peer);
}

void PathSet::path_down(Peer& peer, Path& path, Reason reason) {
  if (path.state != PathState::down) {
    nics_[path.local_nic].path_down_at = turn_.now();
    if (path.state != PathState::probing) {  // else it has not been back
      path.told_down = true;
      path.down_at = turn_.now();
      ++turn_.counters.paths_down;
      path.probe.interval = microseconds(turn_.tunables.path_probe_min_us);
    }
    reporter_.emit(Event::Kind::path_down, peer, path, reason);
  }
  path.state = PathState::down;
  path.without_way = false;
  path.unanswered = 0;
  path.counts.answered = 0;
  evacuate(peer, path);
  path.probe.timer.arm(turn_.now() + path.probe.interval);
  if (!path.role.witness) bridge(peer, path.local_nic, path.remote_nic, true);
  want_verdicts();
  senders_.want(peer);
  user_.timers_changed(peer);
}

// At once, but only after packets in flight have had time for an answer.
Time PathSet::next_probe(Path& path) {
  if (path.packets_in_flight == 0) return turn_.now();
  const Time sent = path.sent.at(records_, path.sent.next() - 1).sent;
  return sent + path.response.overdue(turn_.granularity);
}

// If no path works, and not only because the peer is away for a moment, sends a HELLO over each
// pair of NICs. There are more pairs than paths, and one of them may work. Hearing the peer is no
// reason to wait: its packets may come over a pair that no path here stands for.
void PathSet::seek(Peer& peer) {
  if (peer.session.announcing || any_path_works(peer) || !is_pending(peer)) return;
  Time answered = peer.session.pending_since;
  for_each(peer.paths, [&](const Path& path) {
    if (path.any_acked) answered = later(answered, path.heard_at);
  });
  if (turn_.now() - answered >= patience_with(turn_, peer) / kBriefly) user_.announce(peer);
}

// The peer was heard from one NIC to another: if no path works, one between these two may. This
// holds even if the peer reported that its NIC is away: the report that it is back may be lost.
void PathSet::meet(Peer& peer, std::size_t local, std::uint8_t remote_nic) {
  if (any_path_works(peer) || !nics_[local].up) return;
  if (!takes_full_packets(peer, peers_.nic_of(peer, remote_nic))) return;
  if (!sender_.can_address(peer, local, remote_nic)) return;
  Path* bridge = nullptr;
  Path* heard_last = nullptr;  // the one heard longest ago
  for (const std::uint32_t index : peer.paths.indices) {
    if (index == kNoIndex) continue;
    Path& path = paths_.at(index);
    if (heard_last == nullptr || path.heard_at < heard_last->heard_at) heard_last = &path;
    if (path.local_nic != local) continue;
    if (path.remote_nic == remote_nic) {
      if (path.state == PathState::down && path.packets_in_flight == 0)
        path.probe.timer.arm(turn_.now());
      return touched_.add(peer);
    }
    if (path.role.bridge && path.state != PathState::up) bridge = &path;
  }
  const auto bind = [&](Path* instead) {
    const std::uint32_t slot = instead == nullptr ? kNoIndex : instead->slot;
    if (instead != nullptr) release_path(peer, *instead);
    return bind_bridge(peer, static_cast<std::uint8_t>(local), remote_nic, slot);
  };
  Path* path = bind(bridge);
  // No slot is left, or no memory: replace a path that does not work either.
  if (path == nullptr && bridge == nullptr && heard_last != nullptr) path = bind(heard_last);
  if (path != nullptr) path->role.bridge = true;
  touched_.add(peer);
}

// A packet of the path was acknowledged.
void PathSet::path_heard(Peer& peer, Path& path, bool full_probe) {
  const bool was_silent = path.unanswered > 0;
  path.counts.in_vain = 0;
  path.unanswered = path.counts.unheard = 0;
  if (path.written_off) written_off_ -= path.packets_in_flight;
  path.written_off = false;
  path.heard_at = turn_.now();
  switch (path.state) {
    case PathState::up:
      if (was_silent) drop_bridges(peer, path, false);
      return;
    case PathState::suspect:
      if (passes_small_only(peer, path)) return path_down(peer, path, Reason::only_small);
      // The path has answered, so mere probes under way would tell nothing new. If their answers
      // are lost where that of an insisting probe was not, their timeout would make the path
      // SUSPECT again, and so for ever.
      if (!awaits_data(path)) evacuate(peer, path);
      return path_up(peer, path, Reason::answered);
    case PathState::down:
      path.state = PathState::probing;
      reporter_.emit(Event::Kind::path_probing, peer, path, Reason::answered);
      path.counts.answered = full_probe ? 1 : 0;
      // Probes still in flight left before this answer came. A peer that was away may have lost
      // them, and the answer time may include the absence, so waiting for them may take long.
      // Their late answers count as well.
      evacuate(peer, path);
      path.probe.timer.arm(turn_.now());
      return;
    case PathState::probing:
      if (full_probe && ++path.counts.answered >= kProbesUntilUp) {
        return path_up(peer, path, Reason::proven);
      }
      path.probe.timer.arm(next_probe(path));
      return;
  }
}

void PathSet::path_up(Peer& peer, Path& path, Reason reason) {
  const bool returned = path.state == PathState::probing;
  // If the peer reported the NIC's return, the report got lost.
  if (returned && !peers_.is_up(peer, path.remote_nic)) {
    peers_.nic_of(peer, path.remote_nic).state = 1;
    want_verdicts();
  }
  path.state = PathState::up;
  path.probe.timer.stop();
  path.counts.answered = 0;
  path.tried = 0;
  if (!verdicts_.empty()) want_verdicts();
  reporter_.emit(Event::Kind::path_up, peer, path, reason);
  if (path.told_down) {
    path.told_down = false;
    ++turn_.counters.paths_returned;
  }
  if (returned) {
    path.window = fresh_window(peer, path.local_nic);
    // The path has nothing to catch up with.
    for_each(peer.paths, [&](const Path& other) {
      path.traffic.balance_bytes =
          std::max(path.traffic.balance_bytes, other.traffic.balance_bytes);
    });
  }
  drop_bridges(peer, path, true);
  senders_.want(peer);
}

// A NIC whose own path works needs no substitute. Releases its bridges, and witnesses for its
// remote NIC; those that are UP only if `proven_too`.
void PathSet::drop_bridges(Peer& peer, const Path& works, bool proven_too) {
  if (works.role.bridge || works.role.witness) return;
  for_each(peer.paths, [&](Path& path) {
    const bool bridges = path.role.bridge && path.local_nic == works.local_nic;
    const bool witnesses = path.role.witness && path.remote_nic == works.remote_nic;
    if (!bridges && !witnesses) return;
    if (proven_too || path.state != PathState::up) release_path(peer, path);
  });
}

// Finds a new partner for the NICs of a path that went down, so that any pair of living NICs finds
// each other. The local NIC tries the remote ones, one bridge at a time. It begins with one that
// few paths work with. Among equal ones the two ends' ids decide. A dead NIC leaves partners at
// every peer, and if all of them chose the same new partner, that one would carry a double load.
// Later bridges go in turn.
void PathSet::bridge(Peer& peer, std::uint8_t local, std::uint8_t remote_nic, bool is_first) {
  if (peer.session.remote_nics < 2 || !nics_[local].up) return;
  bool has_bridge = false;
  std::uint32_t taken = 0;    // remote NICs that this local one is bound to, a bit each
  std::uint32_t doubted = 0;  // those that may be dead themselves
  std::array<std::uint32_t, kMaxNics> working{};
  for_each(peer.paths, [&](const Path& path) {
    if (path.state == PathState::up || path.role.bridge) {
      ++working[path.remote_nic];
    } else if (nics_[path.local_nic].up) {  // else the local NIC may be at fault
      doubted |= 1u << path.remote_nic;
    }
    if (path.local_nic != local) return;
    has_bridge |= path.role.bridge;
    taken |= 1u << path.remote_nic;
  });
  if (has_bridge) return;
  // The first bridge's candidates are those with the fewest paths; NICs that are away come last.
  // Later bridges go in turn, which includes NICs that are away: they may be back.
  const auto place_of = [&](std::uint32_t remote) {
    return remote +
           (peers_.is_up(peer, static_cast<std::uint8_t>(remote)) ? 0 : peer.session.remote_nics);
  };
  std::array<std::uint8_t, kMaxNics> candidates{};
  std::uint32_t count = 0;
  std::uint32_t least = kNoIndex;
  for (std::uint32_t i = 1; i <= peer.session.remote_nics; ++i) {
    const auto remote = static_cast<std::uint8_t>((remote_nic + i) % peer.session.remote_nics);
    if ((taken >> remote & 1) != 0 || !sender_.can_address(peer, local, remote)) continue;
    if (!is_first && !takes_full_packets(peer, peers_.nic_of(peer, remote))) continue;
    std::uint32_t load = 0;
    if (!is_first) {
      const std::uint32_t turns = 2 * peer.session.remote_nics;
      load = (place_of(remote) + turns - place_of(remote_nic) - 1) % turns;
    } else if (!peers_.is_up(peer, remote)) {
      load = kMaxPaths + 1;
    } else {
      const bool is_doubtful = working[remote] == 0 && (doubted >> remote & 1) != 0;
      load = is_doubtful ? kMaxPaths : working[remote];
    }
    if (load > least) continue;
    if (load < least) count = 0;
    least = load;
    candidates[count++] = remote;
  }
  if (count == 0) return;
  const std::uint64_t apart = is_first ? endpoint_id_ + peer.identity.remote_id + local : 0;
  const std::uint8_t chosen = candidates[apart % count];
  Path* path = bind_bridge(peer, local, chosen, kNoIndex);
  if (path != nullptr) path->role.bridge = true;
}

// Whether the peer left the last packet on this path unanswered though it was there: it has
// acknowledged something that left elsewhere no earlier.
bool PathSet::was_in_vain(const Peer& peer, Path& path) {
  const SentPacket& last = path.sent.at(records_, path.sent.next() - 1);
  return last.left() <= peer.silence.newest_acked_sent;
}

void PathSet::expire_probe(Peer& peer, Path& path) {
  const Duration patience = path.response.overdue(turn_.granularity);
  if (path.state == PathState::up) {
    path.probe.timer.stop();
    if (path.without_way && !has_way(peer, path)) return path_down(peer, path, Reason::no_way);
    return senders_.want(peer);
  }
  seek(peer);
  if (path.packets_in_flight > 0) {
    // The last probe was not answered in time.
    if (turn_.postpones(path.probe.timer, path.response.smoothed())) return;
    if (was_in_vain(peer, path) && path.counts.in_vain < kMostProbes) ++path.counts.in_vain;
    evacuate(peer, path);
    if (path.unanswered < kMostUnanswered) ++path.unanswered;
    if (path.state == PathState::suspect && path.unanswered >= kProbesUntilDown) {
      return path_down(peer, path, Reason::unanswered);
    }
    if (path.state == PathState::probing) return path_down(peer, path, Reason::unanswered);
    if (path.state == PathState::down && path.unanswered >= kProbesUntilDown) {
      if (path.role.bridge) return move_bridge(peer, path);
      // It got no bridge when it went down if its NIC was away.
      if (!path.role.witness) bridge(peer, path.local_nic, path.remote_nic, true);
    }
  }
  if (path.state == PathState::down && path.told_down) call_witness(peer, path);
  if (sender_.remote(peer, pair_of(path)) == kNoRemote) return ask_the_way(peer, path);
  (void)send_probe(peer, path, path.state != PathState::suspect);
  if (path.state == PathState::down) {
    path.probe.interval = longer(path.probe.interval, turn_.tunables);
    path.probe.timer.arm(turn_.now() + std::max(path.probe.interval, patience) +
                         turn_.random.jitter(path.probe.interval / 4));
    const bool is_news = turn_.now() - peer.silence.newest_acked_sent <
                         microseconds(turn_.tunables.path_probe_min_us);
    if (path.counts.in_vain < kInVain && !is_news && !is_away(peer, path))
      ask_elsewhere(peer, path);
  } else {
    path.probe.timer.arm(turn_.now() + patience);
  }
}

// No probe can be sent. Asking the driver again costs no packet, so it uses the shortest interval.
void PathSet::ask_the_way(Peer& peer, Path& path) {
  if (path.state != PathState::down) return path_down(peer, path, Reason::no_way);
  path.probe.timer.arm(turn_.now() + microseconds(turn_.tunables.path_probe_min_us));
  if (path.unanswered < kMostUnanswered) ++path.unanswered;
  if (path.role.bridge && path.unanswered >= kProbesUntilDown) move_bridge(peer, path);
}

// Finds out whose fault it is that a path is DOWN. Its local NIC works with another remote one, so
// the fault is with the remote NIC or the link. A path from another local NIC shows which. That
// witness is like a bridge: it may carry data, and is released when the path it was bound for is
// back.
void PathSet::call_witness(Peer& peer, const Path& path) {
  if (path.role.bridge || path.role.witness) return;
  bool bridged = false;
  std::uint8_t local = path.local_nic;
  for_each(peer.paths, [&](const Path& other) {
    if (other.local_nic == path.local_nic) {
      bridged |= other.state == PathState::up;
    } else if (other.state == PathState::up && nics_[other.local_nic].up && other.any_acked &&
               sender_.can_address(peer, other.local_nic, path.remote_nic)) {
      local = other.local_nic;
    }
  });
  if (!bridged || local == path.local_nic) return;
  bool has_witness = false;
  for_each(peer.paths, [&](const Path& other) {
    has_witness |= other.remote_nic == path.remote_nic && other.local_nic != path.local_nic;
  });
  if (has_witness) return;
  Path* witness = bind_bridge(peer, local, path.remote_nic, kNoIndex);
  if (witness != nullptr) witness->role.witness = true;
}

// A bridge that leads nowhere tries the next remote NIC.
void PathSet::move_bridge(Peer& peer, Path& path) {
  const std::uint8_t local = path.local_nic;
  const std::uint8_t remote_nic = path.remote_nic;
  const Duration interval = path.probe.interval;
  const bool in_vain = path.counts.in_vain >= kInVain;
  const auto tried = static_cast<std::uint16_t>(path.tried | (in_vain ? 1u << remote_nic : 0u));
  release_path(peer, path);
  bridge(peer, local, remote_nic, false);
  for_each(peer.paths, [&](Path& other) {
    if (!other.role.bridge || other.local_nic != local) return;
    other.probe.interval = interval;
    other.probe.timer.arm(turn_.now() + interval);
    other.tried = tried;
  });
  want_verdicts();
}

void PathSet::on_nic_state(Peer& peer, const wire::NicStateBlock& state) {
  if (state.nic >= peer.session.remote_nics) return reporter_.drop(DropReason::bad_field);
  std::uint32_t& newest = peer.identity.remote_nic_sequences[state.nic];
  if (static_cast<std::int32_t>(state.sequence - newest) <= 0) return;
  newest = state.sequence;
  peers_.nic_of(peer, state.nic).state = state.state;
  doubt_unbound(peer, state.nic, false);
  want_verdicts();
  for (const std::uint32_t index : std::array(peer.paths.indices)) {
    if (index == kNoIndex || paths_.at(index).remote_nic != state.nic) continue;
    Path& path = paths_.at(index);
    if (state.state == 0 && path.state != PathState::down) {
      path_down(peer, path, Reason::peer_said);
    }
    if (state.state == 0 && path.role.bridge) {  // there are others
      const std::uint8_t local = path.local_nic;
      release_path(peer, path);
      bridge(peer, local, state.nic, true);
      continue;
    }
    if (state.state == 1 && path.state == PathState::down) path.probe.timer.arm(turn_.now());
  }
}

}  // namespace hawser::proto
