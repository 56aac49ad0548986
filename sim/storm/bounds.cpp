// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/bounds.hpp"

#include <algorithm>

namespace hawser::sim {

namespace {

// Bytes in flight at the healing may have to be sent once more in any case; this is the least
// allowance for them.
constexpr std::uint64_t kLeastUnderWay = 256 * 1024;
// Packets in flight on paths that don't answer don't count against the limit of the others.
constexpr std::uint64_t kLimits = 2;
// The header of a packet.
constexpr std::uint64_t kHeader = 96;
// A round of loss leaves at least half of a window, so all rounds lose at most twice the first one.
constexpr std::uint64_t kRoundsOfLoss = 2;
// Unanswered probes of a path until patience ends.
constexpr std::uint64_t kProbes = 64;

}  // namespace

void Bounds::look() {
  const Tunables& t = plan_.tunables;
  for (std::uint32_t i = 0; i < world_.hosts(); ++i) {
    if (!world_.is_running(i)) continue;
    Host& host = world_.host(i);
    const EndpointStats stats = host.endpoint().stats();
    const auto hold = [&](std::uint64_t is, std::uint64_t most, const char* what) {
      if (is <= most) return;
      oracle_.accuse("host " + std::to_string(i) + " has " + std::to_string(is) + " " + what +
                     " of " + std::to_string(most));
    };
    hold(stats.operations_pending, t.max_operations, "operations");
    hold(stats.packets_in_flight,
         kLimits * t.max_in_flight_packets + stats.peers_awake * t.max_path_slots * kProbes,
         "packets in flight");
    hold(stats.unexpected_bytes_held, t.unexpected_bytes, "bytes of unexpected messages");
    hold(stats.messages_unmatched, t.max_receive_messages + t.max_peers,
         "messages without a receive");
    hold(stats.peers_awake, t.max_peers, "peers awake");
    hold(stats.peers_at_rest, t.max_peers, "peers at rest");
    hold(host.buffers_in_use(), t.packet_buffers, "packet buffers in use");
  }
}

Bounds::Traffic Bounds::traffic() const {
  Traffic sum;
  for (std::uint32_t i = 0; i < world_.hosts(); ++i) {
    sum.lives.push_back(world_.is_running(i) ? world_.life(i) + 1 : 0);
    if (!world_.is_running(i)) continue;
    const EndpointStats stats = world_.host(i).endpoint().stats();
    sum.bytes_again += stats.bytes_retransmitted;
    sum.bytes_placed += stats.data_bytes_received;
    std::vector<NicStats> nics(plan_.hosts[i].nics.size());
    world_.host(i).endpoint().nic_stats(nics);
    std::uint64_t windows = 0;
    for (const NicStats& nic : nics) {
      sum.bytes_under_way += nic.bytes_in_flight;
      windows += nic.window_bytes;
    }
    sum.window_bytes += std::max(windows, first_windows(i));
  }
  sum.bytes_dropped = world_.fabric().totals().queue_drop_bytes;
  return sum;
}

// The windows of all paths of the host, if each of them begins then.
std::uint64_t Bounds::first_windows(std::uint32_t host) const {
  const Tunables& t = plan_.tunables;
  std::uint64_t paths = 0;
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    const bool sends = std::ranges::any_of(plan_.messages, [&](const MessagePlan& message) {
      return message.from == host && message.to == other;
    });
    if (!sends) continue;
    const std::size_t pairs =
        std::max(plan_.hosts[host].nics.size(), plan_.hosts[other].nics.size());
    paths += std::min<std::uint64_t>(pairs, t.max_path_slots);
  }
  return paths * t.initial_window_packets * (t.fragment_bytes + kHeader);
}

void Bounds::judge() {
  look();
  if (!at_healing_) return;  // all operations had ended by then
  const Traffic end = traffic();
  // A process that has ended took its counts with it.
  if (end.lives != at_healing_->lives) return;
  const std::uint64_t again = end.bytes_again - at_healing_->bytes_again;
  const std::uint64_t placed = end.bytes_placed - at_healing_->bytes_placed;
  const std::uint64_t dropped = std::min(end.bytes_dropped - at_healing_->bytes_dropped,
                                         kRoundsOfLoss * at_healing_->window_bytes);
  if (again > 2 * placed + std::max(kLeastUnderWay, at_healing_->bytes_under_way) + dropped) {
    oracle_.accuse(std::to_string(again) +
                   " bytes were retransmitted after all was healed, although only " +
                   std::to_string(placed) + " were missing");
  }
}

}  // namespace hawser::sim
