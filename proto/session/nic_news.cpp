// SPDX-License-Identifier: Apache-2.0
// A NIC of this end went down, came up, or moved to another address. Each peer's paths follow, and
// the peer is told: by NIC_STATE, and after a move by an announcement (addresses.cpp).
//
// With thousands of peers that takes longer than a turn may. Therefore each turn tells some awake
// peers, until all know. A peer that is needed earlier hears of it then: when a packet comes from
// it, a call names it, its timer fires, or data goes to it. After the awake peers, those at rest
// are woken, a few at a time. They rest again as soon as they know.
//
// Timer of the endpoint: `news.at`, while peers are left.
//
// Invariant: a peer with the newest `nic_news` has applied all changes. New and woken peers begin
// so.
#include "proto/session/nic_news.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "proto/endpoint/core.hpp"

namespace hawser::proto {

namespace {
// Awake peers that a turn tells: they take some hundred microseconds.
constexpr std::uint32_t kAwakeBurst = 64;
// Peers woken in one turn to hear of a change, and the time until the next ones are.
constexpr std::uint32_t kWokenBurst = 32;
constexpr Duration kWokenInterval = microseconds(500);
}  // namespace

void Endpoint::Core::take_nic_events() {
  std::array<NicEvent, 8> batch;
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    for (std::size_t n = batch.size(); n == batch.size();) {
      n = nics[nic].nic->events(batch);
      for (std::size_t i = 0; i < n; ++i) {
        local_nic_changed(nic, batch[i].kind == NicEvent::Kind::up);
      }
      if (n > 0) notice_address(nic);
    }
  }
}

// Tells a peer of the changes of our NICs during its rest.
void Endpoint::Core::tell_news(Peer& peer) {
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    if (nics[nic].sequence == 0) continue;
    outbox.add_nic_state(peer, nic);
    outbox.schedule_now(peer);
  }
  if (std::ranges::any_of(nics, &LocalNic::has_moved)) announce(peer);
}

void Endpoint::Core::local_nic_changed(std::size_t nic, bool up) {
  LocalNic& local = nics[nic];
  if (local.up == up) return;
  local.up = up;
  ++local.sequence;
  local.changed = local.switched = ++news.count;
  if (!up) local.fell = news.count;
  paths.want_verdicts();
  turn.emit({.kind = up ? Event::Kind::nic_up : Event::Kind::nic_down,
             .reason = Reason::driver,
             .nic = static_cast<std::uint8_t>(nic)});
  begin_news();
}

// Called after an event of a NIC: checks whether the peers know its address.
void Endpoint::Core::notice_address(std::size_t nic) {
  LocalNic& local = nics[nic];
  if (local.address == local.nic->address()) return;
  local.address = local.nic->address();
  local.has_moved = true;
  local.changed = local.fell = local.moved = ++news.count;
  turn.emit({.kind = Event::Kind::nic_moved,
             .reason = Reason::driver,
             .nic = static_cast<std::uint8_t>(nic)});
  begin_news();
}

void Endpoint::Core::begin_news() {
  news.awake_left = peers.awake_places();
  news.resting_left = peers.used();
  news.at = turn.now();
  tell_awake();
}

void Endpoint::Core::tell_awake() {
  std::uint32_t told = 0;
  for (; news.awake_left > 0 && told < kAwakeBurst; --news.awake_left) {
    const std::uint32_t place = news.awake_next;
    news.awake_next = place + 1 < peers.awake_places() ? place + 1 : 0;
    Peer* const peer = peers.awake_at(place);
    if (peer == nullptr || peer->paths.nic_news == news.newest()) continue;
    hear_news(*peer);
    ++told;
  }
}

void Endpoint::Core::hear_news(Peer& peer) {
  if (peer.paths.nic_news == news.newest()) return;
  const std::uint32_t known = news.known_to(std::exchange(peer.paths.nic_news, news.newest()));
  if (peer.session.state != SessionState::ready) return;
  bool any_switched = false;
  bool any_moved = false;
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    const LocalNic& local = nics[nic];
    if (!is_newer(local.changed, known)) continue;
    const bool fell = is_newer(local.fell, known);
    const bool moved = is_newer(local.moved, known);
    for (const std::uint32_t index : std::array(peer.paths.indices)) {
      if (index == kNoIndex || paths.at(index).local_nic != nic) continue;
      Path& path = paths.at(index);
      if (fell && path.state != PathState::down) {
        paths.path_down(peer, path, moved ? Reason::moved : Reason::driver);
      }
      if (moved || (local.up && path.state == PathState::down)) path.probe_at = turn.now();
    }
    paths.doubt_unbound(peer, nic, true);
    any_moved |= moved;
    if (!is_newer(local.switched, known)) continue;
    any_switched = true;
    outbox.add_nic_state(peer, nic);
    outbox.schedule_now(peer);
  }
  if (any_switched) rearm(peer);
  if (!any_moved) return;
  paths.pair_anew(peer);
  announce(peer);
}

void Endpoint::Core::spread_news() {
  tell_awake();
  if (news.awake_left > 0) return;  // the next turn is due at once
  std::uint32_t woken = 0;
  for (; news.resting_left > 0 && woken < kWokenBurst; --news.resting_left) {
    const std::uint32_t index = news.resting_next;
    news.resting_next = index + 1 < peers.used() ? index + 1 : 0;
    if (!peers.is_known(index) || peers.is_awake(index)) continue;
    const RestingPeer& record = peers.resting(index);
    if (record.state != SessionState::ready || record.nic_news == news.count) continue;
    (void)wake(index);
    ++woken;
  }
  news.at = news.resting_left > 0 ? turn.now() + kWokenInterval : kNever;
}

}  // namespace hawser::proto
