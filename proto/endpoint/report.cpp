// SPDX-License-Identifier: Apache-2.0
// Statistics of an endpoint, for people and tests. Nothing here decides anything.
#include <algorithm>
#include <optional>

#include "proto/endpoint/owners.hpp"

namespace hawser::proto {

EndpointStats Endpoint::stats() const {
  EndpointStats stats = owners_->turn.counters;
  stats.operations_pending = owners_->turn.operations.live();
  stats.packets_in_flight = owners_->paths.in_flight();
  stats.messages_unmatched = owners_->descriptors.unmatched();
  stats.messages_claimed = owners_->incoming.claims();
  stats.sends_unreleased = owners_->outgoing.unreleased();
  stats.buffers_in_use = owners_->sender.buffers_in_use();
  stats.unexpected_bytes_held = owners_->incoming.bytes_held();
  stats.regions_exposed = owners_->regions.size();
  stats.replies_pending = owners_->outgoing.replies();
  stats.peers_awake = owners_->peers.awake();
  stats.peers_at_rest = owners_->peers.at_rest();
  auto& screened = stats.drops[static_cast<std::size_t>(DropReason::screened)];
  for (const LocalNic& local : owners_->nics) {
    stats.host_overruns += local.nic->overruns();
    screened += local.nic->screened();
    const NicDetours detours = local.nic->detours();
    stats.datagrams_fragmented += detours.fragmented;
    stats.segmentation_refused += detours.segmentation_refused;
    stats.segmentation_resumed += detours.segmentation_resumed;
    stats.datagrams_by_other_devices += detours.by_other_devices;
  }
  return stats;
}

std::size_t Endpoint::verdicts(std::span<Verdict> out) const { return owners_->verdicts.told(out); }

namespace {

// The state of the NIC that a path shows. Nothing if the path is idle: if it was not heard since
// another path of the NIC went DOWN, it is UP only because nobody has tried it.
std::optional<PathState> testimony(const Path& path, const LocalNic& local) {
  if (path.state != PathState::up) return path.state;
  const bool doubted = local.path_down_at != Time{};
  if (doubted && (!path.any_acked || path.heard_at < local.path_down_at)) return std::nullopt;
  return path.unanswered >= kTriedInVain ? PathState::suspect : PathState::up;
}

}  // namespace

void Endpoint::nic_stats(std::span<NicStats> out) const {
  Owners& owners = *owners_;
  for (std::size_t i = 0; i < std::min(out.size(), owners.nics.size()); ++i) {
    const LocalNic& local = owners.nics[i];
    NicStats& stats = out[i];
    stats = NicStats{};
    stats.packets_sent = local.packets_sent;
    stats.bytes_sent = local.bytes_sent;
    stats.data_packets_sent = local.data_packets_sent;
    stats.packets_received = local.packets_received;
    stats.bytes_received = local.bytes_received;
    stats.packets_lost = local.packets_lost;
    stats.retransmits = local.retransmits;
    stats.overruns = local.nic->overruns();
    std::uint64_t up = 0;
    std::optional<PathState> best;
    owners.peers.for_each_awake([&](Peer& peer) {
      owners.paths.for_each(peer.paths, [&](const Path& path) {
        if (path.local_nic != i) return;
        if (const auto said = testimony(path, local)) best = std::min(best.value_or(*said), *said);
        stats.bytes_in_flight += path.bytes_in_flight;
        stats.window_bytes += path.window.bytes();
        if (path.state == PathState::up && path.response.sampled()) {
          stats.srtt_ns += static_cast<std::uint64_t>(path.response.smoothed().ns);
          ++up;
        }
      });
    });
    stats.state = local.up ? best.value_or(PathState::up) : PathState::down;
    if (up > 0) stats.srtt_ns /= up;
  }
}

Status Endpoint::peer_stats(Time now, PeerId id, PeerStats& stats) const {
  Owners& owners = *owners_;
  const std::uint32_t index = owners.peers.index_of(id);
  if (index == kNoIndex) return Status::unknown_peer;
  stats = PeerStats{};
  stats.peer = id;
  const auto silence = [&](Time last_heard) {
    return static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, (later(now, owners.turn.now()) - last_heard).ns));
  };
  if (!owners.peers.is_awake(index)) {
    const RestingPeer& record = owners.peers.resting(index);
    stats.endpoint_id = record.remote_id;
    stats.at_rest = true;
    stats.established = record.state == SessionState::ready;
    stats.failure = record.failure;
    stats.fragment_bytes = stats.session_bytes = stats.established ? record.session_bytes : 0;
    stats.failure_reason = record.failure_reason;
    stats.last_heard_ns_ago = silence(record.last_heard);
    return Status::ok;
  }
  Peer* peer = &owners.peers.at(index);
  stats.endpoint_id = peer->identity.remote_id;
  stats.established = peer->session.state == SessionState::ready;
  stats.failure = peer->session.failure;
  stats.fragment_bytes = stats.established ? peer->session.fragment_bytes : 0;
  stats.session_bytes = stats.established ? peer->session.session_bytes : 0;
  stats.failure_reason = peer->session.failure_reason;
  stats.sends_pending = peer->open_sends;
  stats.last_heard_ns_ago = silence(peer->session.last_heard);
  owners.paths.for_each(peer->paths, [&](const Path& path) {
    PathStats out;
    out.slot = path.slot;
    out.generation = path.generation;
    out.local_nic = path.local_nic;
    out.remote_nic = path.remote_nic;
    out.state = path.state;
    out.srtt_ns = static_cast<std::uint64_t>(path.response.smoothed().ns);
    out.rttvar_ns = static_cast<std::uint64_t>(path.response.variance().ns);
    out.min_fabric_delay_ns = static_cast<std::uint64_t>(path.window.fabric_floor().ns);
    out.delivered_bytes = path.traffic.delivered_bytes;
    out.window_bytes = path.window.bytes();
    out.bytes_in_flight = path.bytes_in_flight;
    out.packets_sent = path.traffic.packets_sent;
    out.packets_lost = path.traffic.packets_lost;
    stats.paths.push_back(out);
  });
  return Status::ok;
}

}  // namespace hawser::proto
