// SPDX-License-Identifier: Apache-2.0
// Sequenced packets that arrive on a path: which are new, and whether an acknowledgement is urgent.
// A datagram that comes twice is dropped by its path number (note_arrival). A fragment that comes
// twice, or belongs to a finished message, is dropped in message/arrivals.cpp. The floor and the
// blocks of a duplicate are applied all the same, because applying them twice changes nothing.
//
// No timer here: it arms `ack_at` of the peer at the first unacknowledged packet, max_ack_delay
// later (endpoint/outbox.cpp).
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser::proto {

namespace {

// A sender has about its window in flight. With few acknowledgements in a round trip it sends in
// bursts, and learns late.
constexpr std::uint64_t kAcksInAWindow = 4;
constexpr std::uint64_t kFewest = 2;
constexpr std::uint8_t kMostCounted = 255;
std::uint64_t packets_per_ack(std::uint64_t under_way) {
  return std::max(under_way / kAcksInAWindow, kFewest);
}

}  // namespace

// Enters a sequenced packet into its path's window. False: drop the packet, as it was seen before,
// or is of an older generation.
bool Endpoint::Core::note_arrival(Peer& peer, std::size_t nic, const wire::PacketView& packet,
                                  bool congestion_experienced) {
  const wire::CommonHeader& header = *packet.header;
  const std::uint8_t slot = header.slot & 15;
  std::uint32_t& index = peer.receive_paths[slot];
  if (index == kNoIndex) {
    const std::uint8_t known = peer.receive_generations[slot];
    if (known != 0 && static_cast<std::int8_t>(header.generation - known) < 0) {
      drop(DropReason::stale_path);
      return false;
    }
    SlabId id;
    ReceivePath* fresh = receive_paths.try_allocate(id);
    if (fresh == nullptr) {
      drop(DropReason::limit);
      return false;
    }
    index = id.index;
    start_receive_path(peer, *fresh, header);
  }
  ReceivePath& path = receive_paths.at(index);
  const auto newer = static_cast<std::int8_t>(header.generation - path.generation);
  if (newer < 0) {
    drop(DropReason::stale_path);
    return false;
  }
  if (newer > 0) start_receive_path(peer, path, header);

  const std::uint64_t number = expand(header.path_number, path.window.largest() + 1);
  const std::uint64_t largest = path.window.largest();
  const auto insertion = path.window.insert(number);
  owe(peer);
  path.ack_due = true;
  if (insertion.arrival != PathWindow::Arrival::fresh) {
    peer.ack_now = true;  // its ack may have been lost
    drop(DropReason::old_path_number);
    return false;
  }
  path.local_nic = nic % kMaxNics;
  const std::uint64_t reach = number - header.path_back;
  if (before(path.reach, reach)) path.reach = reach;
  if (before(largest, number)) {
    path.largest_arrival = turn.arrived();
    path.marks = number - largest < 64 ? path.marks << (number - largest) : 0;
  }
  if (congestion_experienced) {
    ++path.ce_count;
    const std::uint64_t back = path.window.largest() - number;
    if (back < 64) path.marks |= std::uint64_t{1} << back;
    ++turn.counters.packets_marked;
  }
  grants.budget.on_arrival(packet.payload.size());

  allowance.count(peer.active_epoch);
  // A packet that was overtaken is reported at once too, before its sender takes it for lost. On
  // paths with several lanes overtaking means nothing.
  const bool in_order = (header.flags & wire::kFlagSprayed) == 0;
  if (path.unacknowledged < kMostCounted) ++path.unacknowledged;
  if (++peer.unacknowledged >= turn.tunables.ack_every_packets ||
      (in_order ? insertion.new_gap || before(number, largest)
                : path.unacknowledged >= packets_per_ack(header.path_back)) ||
      (header.flags & wire::kFlagAckNow) != 0) {
    peer.ack_now = true;
  }
  if ((header.flags & wire::kFlagAllSent) != 0) owe_soon(peer);
  if ((header.flags & wire::kFlagAckNow) != 0) {
    peer.raise_ways(Ways::two);
    peer.say_finals = true;
  }
  if (peer.ack_at == kNever)
    peer.ack_at = turn.now() + microseconds(turn.tunables.max_ack_delay_us);
  ++turn.counters.data_packets_received;
  if (turn.tracing()) trace_arrival(peer, packet, path, number);
  return true;
}

void Endpoint::Core::start_receive_path(const Peer& peer, ReceivePath& path,
                                        const wire::CommonHeader& header) {
  path = ReceivePath{};
  path.slot = header.slot & 15;
  path.generation = header.generation;
  // Numbers begin with the session's first. If either end has rested, they begin near the packet
  // that is here: of those before it none counts as arrived.
  const std::uint32_t ahead = header.path_number - to_wire(peer.first_remote_number);
  const bool near = ahead < PathWindow::kBits;
  path.reach = peer.first_remote_number + (near ? 0 : ahead - PathWindow::kBits);
  path.window.restart(path.reach);
}

}  // namespace hawser::proto
