#include "tool/run/path_log.hpp"

#include <algorithm>
#include <array>

namespace hawser::tool {

using State = PathCell::State;

namespace {

constexpr std::uint64_t kLookNs = 200'000'000;
// While a path is down: bridges are tried and moved within tens of milliseconds.
constexpr std::uint64_t kCloseLookNs = 20'000'000;
// Looking takes its time, so no more than a small part of it all.
constexpr std::uint64_t kLookNsPerPeer = 500'000;
// A path that was bound in state DOWN says nothing before so many probes of it were in vain.
constexpr std::uint64_t kProbes = 3;

}  // namespace

PathLog::PathLog(Endpoint& endpoint, const std::vector<PeerId>& peers, std::uint32_t rank)
    : endpoint_(endpoint), peers_(peers), rank_(rank) {}

void PathLog::look(std::uint64_t now_ns) {
  take_events();
  if (now_ns >= next_look_ns_) look_closely(now_ns);
}

void PathLog::look_closely(std::uint64_t now_ns) {
  take_events();
  PeerStats stats;
  for (std::uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (peer == rank_) continue;
    if (endpoint_.peer_stats(peers_[peer], stats) != Status::ok) continue;
    look_at(peer, stats, since_begin(now_ns));
  }
  any_down_ = std::any_of(cells_.begin(), cells_.end(),
                          [](const auto& cell) { return cell.second != State::alive; });
  next_look_ns_ =
      now_ns + std::max(any_down_ ? kCloseLookNs : kLookNs, kLookNsPerPeer * peers_.size());
}

void PathLog::replace_peers(const std::vector<PeerId>& peers) {
  for (const auto& entry : counts_) finished_packets_[entry.second.nic] += entry.second.packets;
  counts_.clear();
  peers_ = peers;
}

void PathLog::take_events() {
  std::array<Event, 32> events;
  for (std::size_t n = events.size(); n == events.size();) {
    n = endpoint_.poll_events(events);
    for (const Event& event : std::span(events).first(n)) {
      const std::uint64_t at_ns = since_begin(event.time_ns);
      // Ranks name their endpoints by rank + 1.
      const auto peer = static_cast<std::uint32_t>(event.endpoint_id - 1);
      const Cell cell{event.nic, peer, event.remote_nic};
      switch (event.kind) {
        case Event::Kind::path_down: set(cell, State::down, at_ns); break;
        case Event::Kind::path_up: set(cell, State::alive, at_ns); break;
        case Event::Kind::nic_down:
          tell(PathChange::Kind::driver_down, {event.nic, 0, 0}, at_ns);
          break;
        case Event::Kind::nic_up:
          tell(PathChange::Kind::driver_up, {event.nic, 0, 0}, at_ns);
          break;
        case Event::Kind::peer_established:
        case Event::Kind::peer_failed: break;
      }
    }
  }
}

void PathLog::look_at(std::uint32_t peer, const PeerStats& stats, std::uint64_t at_ns) {
  for (const PathStats& path : stats.paths) {
    const bool delivered = count(peer, path);
    const Cell cell{path.local_nic, peer, path.remote_nic};
    // One that carries nothing may be UP only because nobody has found out yet.
    if (path.state == PathState::up && delivered) set(cell, State::alive, at_ns);
    if (path.state != PathState::down) continue;
    if (path.delivered_bytes > 0) {
      set(cell, State::down, at_ns);
    } else if (path.packets_sent >= kProbes) {
      set(cell, State::tried, at_ns);
    }
  }
  // A peer that failed has none, and what is known of its NICs stays as it was.
  if (!stats.paths.empty()) forget(peer, stats, at_ns);
}

// Bridges come and go. That one was tried in vain is worth knowing until its NIC finds another.
void PathLog::forget(std::uint32_t peer, const PeerStats& stats, std::uint64_t at_ns) {
  const auto is_there = [&](const Cell& cell) {
    return std::any_of(stats.paths.begin(), stats.paths.end(), [&](const PathStats& path) {
      return path.local_nic == std::get<0>(cell) && path.remote_nic == std::get<2>(cell);
    });
  };
  const auto found_another = [&](const Cell& cell) {
    return std::any_of(cells_.begin(), cells_.end(), [&](const auto& other) {
      return other.second == State::alive && std::get<0>(other.first) == std::get<0>(cell) &&
             std::get<1>(other.first) == peer;
    });
  };
  for (auto at = cells_.begin(); at != cells_.end();) {
    const Cell& cell = at->first;
    const bool keep = std::get<1>(cell) != peer || is_there(cell) ||
                      (at->second != State::alive && !found_another(cell));
    if (!keep) tell(PathChange::Kind::gone, cell, at_ns);
    at = keep ? std::next(at) : cells_.erase(at);
  }
}

void PathLog::set(const Cell& cell, State state, std::uint64_t at_ns) {
  const auto [at, is_new] = cells_.try_emplace(cell, state);
  if (!is_new && at->second == state) return;
  if (!is_new && at->second == State::down && state == State::tried) return;  // less is no news
  at->second = state;
  switch (state) {
    case State::alive: return tell(PathChange::Kind::up, cell, at_ns);
    case State::tried: return tell(PathChange::Kind::tried, cell, at_ns);
    case State::down: break;
  }
  tell(PathChange::Kind::down, cell, at_ns);
  doubt(cell, at_ns);
  if (!any_down_) next_look_ns_ = 0;
  any_down_ = true;
}

// A path that goes down puts the others of both its NICs in doubt, until they deliver again.
void PathLog::doubt(const Cell& dead, std::uint64_t at_ns) {
  for (auto at = cells_.begin(); at != cells_.end();) {
    const auto& [nic, peer, remote_nic] = at->first;
    const bool same_local = nic == std::get<0>(dead);
    const bool same_remote = peer == std::get<1>(dead) && remote_nic == std::get<2>(dead);
    const bool in_doubt = at->second == State::alive && (same_local || same_remote);
    if (in_doubt) tell(PathChange::Kind::gone, at->first, at_ns);
    at = in_doubt ? cells_.erase(at) : std::next(at);
  }
}

void PathLog::tell(PathChange::Kind kind, const Cell& cell, std::uint64_t at_ns) {
  if (changes_.size() == kMaxChanges) {
    ++left_out_;
    return;
  }
  const auto& [nic, peer, remote_nic] = cell;
  changes_.push_back({kind, at_ns, nic, peer, remote_nic});
}

// True if the path has delivered something since the last look.
bool PathLog::count(std::uint32_t peer, const PathStats& path) {
  if (finished_packets_.size() <= path.local_nic) finished_packets_.resize(path.local_nic + 1u);
  Count& count = counts_[{peer, path.slot}];
  const bool same = count.generation == path.generation && count.packets <= path.packets_sent;
  if (!same && count.packets > 0) finished_packets_[count.nic] += count.packets;
  const bool delivered = path.delivered_bytes > (same ? count.delivered_bytes : 0);
  count = {path.generation, path.local_nic, path.packets_sent, path.delivered_bytes};
  return delivered;
}

std::uint64_t PathLog::data_packets_sent(std::size_t nic) const {
  std::uint64_t packets = nic < finished_packets_.size() ? finished_packets_[nic] : 0;
  for (const auto& entry : counts_) {
    if (entry.second.nic == nic) packets += entry.second.packets;
  }
  return packets;
}

}  // namespace hawser::tool
