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

#include "proto/peer/peer_table.hpp"
#include "proto/service/outbox.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {
// Awake peers that a turn tells: they take some hundred microseconds.
constexpr std::uint32_t kAwakeBurst = 64;
// Peers woken in one turn to hear of a change, and the time until the next ones are.
constexpr std::uint32_t kWokenBurst = 32;
constexpr Duration kWokenInterval = microseconds(500);
}  // namespace

void Sessions::take_nic_events() {
  std::array<NicEvent, 8> batch;
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    for (std::size_t n = batch.size(); n == batch.size();) {
      n = nics_[nic].nic->events(batch);
      for (std::size_t i = 0; i < n; ++i) {
        if (batch[i].kind == NicEvent::Kind::ways) {
          ways_.note();
        } else {
          local_nic_changed(nic, batch[i].kind == NicEvent::Kind::up);
        }
      }
      if (n > 0) notice_address(nic);
    }
  }
}

// Tells a peer of the changes of our NICs during its rest.
void Sessions::tell_news(Peer& peer) {
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    if (nics_[nic].sequence == 0) continue;
    outbox_.add_nic_state(peer, nic);
    outbox_.schedule_now(peer);
  }
  if (std::ranges::any_of(nics_, &LocalNic::has_moved)) announce(peer);
}

void Sessions::local_nic_changed(std::size_t nic, bool up) {
  LocalNic& local = nics_[nic];
  if (local.up == up) return;
  local.up = up;
  ++local.sequence;
  local.changed = local.switched = ++news_.count;
  if (!up) local.fell = news_.count;
  paths_.want_verdicts();
  turn_.emit({.kind = up ? Event::Kind::nic_up : Event::Kind::nic_down,
              .reason = Reason::driver,
              .nic = static_cast<std::uint8_t>(nic)});
  begin_news();
}

// Called after an event of a NIC: checks whether the peers know its address.
void Sessions::notice_address(std::size_t nic) {
  LocalNic& local = nics_[nic];
  if (local.address == local.nic->address()) return;
  local.address = local.nic->address();
  local.has_moved = true;
  local.changed = local.fell = local.moved = ++news_.count;
  turn_.emit({.kind = Event::Kind::nic_moved,
              .reason = Reason::driver,
              .nic = static_cast<std::uint8_t>(nic)});
  begin_news();
}

void Sessions::begin_news() {
  news_.awake_left = peers_.awake_places();
  news_.resting_left = peers_.used();
  news_.at = turn_.now();
  tell_awake();
}

void Sessions::tell_awake() {
  std::uint32_t told = 0;
  for (; news_.awake_left > 0 && told < kAwakeBurst; --news_.awake_left) {
    const std::uint32_t place = news_.awake_next;
    news_.awake_next = place + 1 < peers_.awake_places() ? place + 1 : 0;
    Peer* const peer = peers_.awake_at(place);
    if (peer == nullptr || peer->paths.nic_news == news_.newest()) continue;
    hear_news(*peer);
    ++told;
  }
}

void Sessions::hear_news(Peer& peer) {
  if (!has_news(peer.paths)) return;
  const std::uint32_t known = news_.known_to(std::exchange(peer.paths.nic_news, news_.newest()));
  if (peer.session.state != SessionState::ready) return;
  bool any_switched = false;
  bool any_moved = false;
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    const LocalNic& local = nics_[nic];
    if (!is_newer(local.changed, known)) continue;
    const bool fell = is_newer(local.fell, known);
    const bool moved = is_newer(local.moved, known);
    for (const std::uint32_t index : std::array(peer.paths.indices)) {
      if (index == kNoIndex || paths_.at(index).local_nic != nic) continue;
      Path& path = paths_.at(index);
      if (fell && path.state != PathState::down) {
        paths_.path_down(peer, path, moved ? Reason::moved : Reason::driver);
      }
      if (moved || (local.up && path.state == PathState::down)) path.probe.timer.arm(turn_.now());
    }
    paths_.doubt_unbound(peer, nic, true);
    any_moved |= moved;
    if (!is_newer(local.switched, known)) continue;
    any_switched = true;
    outbox_.add_nic_state(peer, nic);
    outbox_.schedule_now(peer);
  }
  if (any_switched) rearm(peer);
  if (!any_moved) return;
  paths_.pair_anew(peer);
  announce(peer);
}

void Sessions::expire_news() {
  if (news_.at <= turn_.now()) spread_news();
}

void Sessions::spread_news() {
  tell_awake();
  if (news_.awake_left > 0) return;  // the next turn is due at once
  std::uint32_t woken = 0;
  for (; news_.resting_left > 0 && woken < kWokenBurst; --news_.resting_left) {
    const std::uint32_t index = news_.resting_next;
    news_.resting_next = index + 1 < peers_.used() ? index + 1 : 0;
    if (!peers_.is_known(index) || peers_.is_awake(index)) continue;
    const RestingPeer& record = peers_.resting(index);
    if (record.state != SessionState::ready || record.nic_news == news_.count) continue;
    (void)wake(index);
    ++woken;
  }
  news_.at = news_.resting_left > 0 ? turn_.now() + kWokenInterval : kNever;
}

}  // namespace hawser::proto
