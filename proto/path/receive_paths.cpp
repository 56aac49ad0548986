// SPDX-License-Identifier: Apache-2.0
// A fragment that comes twice under two path numbers, or belongs to a finished message, is dropped
// in message/arrivals.cpp. The floor and the blocks of a duplicate are applied all the same,
// because applying them twice changes nothing.
#include "proto/path/receive_paths.hpp"

#include "proto/base/sequence.hpp"
#include "proto/peer/peer.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

ReceivePaths::Arrival ReceivePaths::note(Peer& peer, std::size_t nic,
                                         const wire::PacketView& packet,
                                         bool congestion_experienced) {
  const wire::CommonHeader& header = *packet.header;
  const std::uint8_t slot = header.slot & 15;
  std::uint32_t& index = peer.paths.receiving[slot];
  if (index == kNoIndex) {
    SlabId id;
    ReceivePath* fresh = paths_.try_allocate(id);
    if (fresh == nullptr) {
      reporter_.drop(DropReason::limit);
      return {};
    }
    index = id.index;
    start(peer, *fresh, header);
  }
  ReceivePath& path = paths_.at(index);
  const auto newer = static_cast<std::int8_t>(header.generation - path.generation);
  if (newer < 0) {
    reporter_.drop(DropReason::stale_path);
    return {};
  }
  if (newer > 0) start(peer, path, header);

  const std::uint64_t number = expand(header.path_number, path.window.largest() + 1);
  const std::uint64_t largest = path.window.largest();
  const auto insertion = path.window.insert(number);
  if (insertion.arrival != PathWindow::Arrival::fresh) {
    reporter_.drop(DropReason::old_path_number);
    return {.path = &path};
  }
  path.local_nic = nic % kMaxNics;
  const std::uint64_t reach = number - header.path_back;
  if (before(path.reach, reach)) path.reach = reach;
  if (before(largest, number)) {
    path.largest_arrival = turn_.arrived();
    path.marks = number - largest < 64 ? path.marks << (number - largest) : 0;
  }
  if (congestion_experienced) {
    ++path.ce_count;
    const std::uint64_t back = path.window.largest() - number;
    if (back < 64) path.marks |= std::uint64_t{1} << back;
    ++turn_.counters.packets_marked;
  }
  ++turn_.counters.data_packets_received;
  if (turn_.tracing()) reporter_.trace_arrival(peer, packet, path, number);
  return {.path = &path, .is_new = true, .overtaken = insertion.new_gap || before(number, largest)};
}

void ReceivePaths::start(const Peer& peer, ReceivePath& path, const wire::CommonHeader& header) {
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

void ReceivePaths::forget_idle(PeerPaths& peer, Time since) {
  for (std::uint32_t& index : peer.receiving) {
    if (index == kNoIndex) continue;
    const ReceivePath& path = paths_.at(index);
    if (path.ack_due || path.largest_arrival >= since) continue;
    paths_.free(index);
    index = kNoIndex;
  }
}

void ReceivePaths::forget_all(PeerPaths& peer) {
  for (std::uint32_t& index : peer.receiving) {
    if (index != kNoIndex) paths_.free(index);
    index = kNoIndex;
  }
}

}  // namespace hawser::proto
