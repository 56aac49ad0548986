// SPDX-License-Identifier: Apache-2.0
// Sequenced packets that arrive on a path: which are new.
// A datagram that comes twice is dropped by its path number (note_arrival). A fragment that comes
// twice, or belongs to a finished message, is dropped in message/arrivals.cpp. The floor and the
// blocks of a duplicate are applied all the same, because applying them twice changes nothing.
//
// No timer here: the outbox arms one at the first unacknowledged packet (service/outbox.hpp).
#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser::proto {

// Enters a sequenced packet into its path's window. False: drop the packet, as it was seen before,
// or is of an older generation.
bool Endpoint::Core::note_arrival(Peer& peer, std::size_t nic, const wire::PacketView& packet,
                                  bool congestion_experienced) {
  const wire::CommonHeader& header = *packet.header;
  const std::uint8_t slot = header.slot & 15;
  std::uint32_t& index = peer.paths.receiving[slot];
  if (index == kNoIndex) {
    const std::uint8_t known = peer.slots.receive_generations[slot];
    if (known != 0 && static_cast<std::int8_t>(header.generation - known) < 0) {
      reporter.drop(DropReason::stale_path);
      return false;
    }
    SlabId id;
    ReceivePath* fresh = receive_paths.try_allocate(id);
    if (fresh == nullptr) {
      reporter.drop(DropReason::limit);
      return false;
    }
    index = id.index;
    start_receive_path(peer, *fresh, header);
  }
  ReceivePath& path = receive_paths.at(index);
  const auto newer = static_cast<std::int8_t>(header.generation - path.generation);
  if (newer < 0) {
    reporter.drop(DropReason::stale_path);
    return false;
  }
  if (newer > 0) start_receive_path(peer, path, header);

  const std::uint64_t number = expand(header.path_number, path.window.largest() + 1);
  const std::uint64_t largest = path.window.largest();
  const auto insertion = path.window.insert(number);
  if (insertion.arrival != PathWindow::Arrival::fresh) {
    outbox.acknowledge_again(peer, path);
    reporter.drop(DropReason::old_path_number);
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

  allowance.count(peer.receives.active_epoch);
  outbox.acknowledge(peer, path, header, insertion.new_gap || before(number, largest));
  ++turn.counters.data_packets_received;
  if (turn.tracing()) reporter.trace_arrival(peer, packet, path, number);
  return true;
}

void Endpoint::Core::start_receive_path(const Peer& peer, ReceivePath& path,
                                        const wire::CommonHeader& header) {
  path = ReceivePath{};
  path.slot = header.slot & 15;
  path.generation = header.generation;
  // Numbers begin with the session's first. If either end has rested, they begin near the packet
  // that is here: of those before it none counts as arrived.
  const std::uint32_t ahead = header.path_number - to_wire(peer.slots.first_remote_number);
  const bool near = ahead < PathWindow::kBits;
  path.reach = peer.slots.first_remote_number + (near ? 0 : ahead - PathWindow::kBits);
  path.window.restart(path.reach);
}

}  // namespace hawser::proto
