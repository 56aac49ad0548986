// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/peers.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hawser::ofi {
namespace {

constexpr std::chrono::milliseconds kTendInterval{10};
constexpr std::chrono::seconds kRecent{2};  // an older refusal says nothing about the present

constexpr std::size_t kLeastSwept = 64;

bool has_ended(const hawser::Endpoint& endpoint, PeerId peer, PeerStats& stats) {
  return endpoint.peer_stats(peer, stats) != Status::ok || stats.failure != Status::ok;
}

template <class Value, class Index>
Value& slot(std::vector<Value>& values, Index index, Value empty) {
  const auto at = static_cast<std::size_t>(index);
  if (at >= values.size()) values.resize(at + 1, empty);
  return values[at];
}

}  // namespace

Status Peers::find(fi_addr_t address, PeerId& peer) {
  if (address < peers_.size() && peers_[address] != kAnyPeer) {
    peer = peers_[address];
    return Status::ok;
  }
  AddressBytes bytes;
  if (!addresses_.find(address, bytes)) return Status::unknown_peer;
  const Status status = connect(unpack_address(bytes), peer);
  if (status == Status::ok) set(address, peer);
  return status;
}

Status Peers::connect(std::span<const std::byte> address, PeerId& peer) {
  const Status status = endpoint_.connect(address, peer);
  if (status != Status::again || !end_leaving()) return status;
  return endpoint_.connect(address, peer);
}

bool Peers::renew(fi_addr_t address, PeerId& peer) {
  if (address >= peers_.size() || peers_[address] != peer) return false;
  peers_[address] = kAnyPeer;
  return find(address, peer) == Status::ok;
}

fi_addr_t Peers::source_of(PeerId peer) {
  const std::uint32_t place = peer_place(peer);
  if (place < by_place_.size() && by_place_[place].peer == peer &&
      by_place_[place].address != FI_ADDR_NOTAVAIL) {
    return by_place_[place].address;
  }
  // It is the peer's first message, and the peer has called us.
  PeerStats stats;
  if (endpoint_.peer_stats(peer, stats) != Status::ok) return FI_ADDR_NOTAVAIL;
  const fi_addr_t address = addresses_.find(stats.endpoint_id);
  if (address != FI_ADDR_NOTAVAIL) set(address, peer);
  return address;
}

void Peers::set(fi_addr_t address, PeerId peer) {
  PeerId& before = slot(peers_, address, kAnyPeer);
  Known& known = slot(by_place_, peer_place(peer), Known{});
  const bool is_counted = before == peer && known.peer == peer;
  before = peer;
  if (known.peer != peer) known = {.peer = peer};
  if (known.address == FI_ADDR_NOTAVAIL) known.address = address;
  if (is_counted) return;
  ++known.addresses;
  std::erase(leaving_, peer);
}

void Peers::set_own(fi_addr_t address, PeerId peer) {
  own_ = peer;
  set(address, peer);
}

void Peers::met(PeerId peer) {
  const std::uint32_t place = peer_place(peer);
  if (place < by_place_.size() && by_place_[place].peer == peer) by_place_[place].is_met = true;
}

bool Peers::has_met(PeerId peer) const {
  const std::uint32_t place = peer_place(peer);
  return place < by_place_.size() && by_place_[place].peer == peer && by_place_[place].is_met;
}

void Peers::forget(fi_addr_t address) {
  if (address >= peers_.size() || peers_[address] == kAnyPeer) return;
  const PeerId peer = std::exchange(peers_[address], kAnyPeer);
  Known& known = by_place_[peer_place(peer)];
  if (known.peer != peer) return;  // its place belongs to another peer
  if (known.address == address) known.address = FI_ADDR_NOTAVAIL;
  if (--known.addresses > 0 || peer == own_) return;
  leaving_.push_back(peer);
  if (leaving_.size() < sweep_at_) return;
  std::erase_if(leaving_, [&](PeerId other) {
    PeerStats stats;
    return has_ended(endpoint_, other, stats);
  });
  sweep_at_ = 2 * leaving_.size() + kLeastSwept;
}

void Peers::tend() {
  if (leaving_.empty()) return;
  const Clock::time_point now = Clock::now();
  if (now - tended_at_ < kTendInterval) return;
  tended_at_ = now;
  const auto recent = std::chrono::nanoseconds((now - kRecent).time_since_epoch()).count();
  bool any_refused = false;
  std::array<Event, 16> events;
  for (std::size_t n = events.size(); n == events.size();) {
    n = endpoint_.poll_events(events);
    for (const Event& event : std::span(events).first(n)) {
      any_refused |= event.kind == Event::Kind::peer_refused &&
                     event.time_ns >= static_cast<std::uint64_t>(recent);
    }
  }
  if (any_refused) (void)end_leaving();
}

// Ends the session of the oldest removed peer without sends in progress, and all those at rest.
// Until then messages from these peers are received, as with other providers. Returns true if a
// place is free now.
bool Peers::end_leaving() {
  bool any = false;
  std::erase_if(leaving_, [&](PeerId peer) {
    PeerStats stats;
    if (has_ended(endpoint_, peer, stats)) return true;
    if (stats.sends_pending > 0 || (any && !stats.at_rest)) return false;
    any |= endpoint_.disconnect(peer) == Status::ok;
    return true;
  });
  return any;
}

}  // namespace hawser::ofi
