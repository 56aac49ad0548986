// SPDX-License-Identifier: Apache-2.0
// The paths on which peers send to this end: which of their numbers have arrived. A datagram that
// comes twice is dropped by its path number (docs/internals/protocol.md §8).
//
// No timer here: the outbox arms one at the first unacknowledged packet (service/outbox.hpp).
//
// Nothing of a forgotten path is remembered, not even its generation: while it is idle its sender
// may bind the slot so often that a newer generation would look older. An old packet that comes
// then does no harm, because message numbers and fragments are known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/base/turn.hpp"
#include "proto/path/path.hpp"
#include "proto/path/peer_paths.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

class Reporter;
struct Peer;

class ReceivePaths {
 public:
  // What a sequenced packet means to its path.
  struct Arrival {
    ReceivePath* path = nullptr;  // null: drop the packet, it was counted
    bool is_new = false;          // false: drop the packet, but acknowledge it again
    bool overtaken = false;       // a packet before it is missing, or it comes after a later one
  };

  // Both outlive it. `paths`: how many there may be of all peers.
  ReceivePaths(Turn& turn, Reporter& reporter, std::uint32_t paths)
      : turn_(turn), reporter_(reporter), paths_(paths) {}

  // Enters a sequenced packet, which came over NIC `nic`, into its path's window.
  [[nodiscard]] Arrival note(Peer& peer, std::size_t nic, const wire::PacketView& packet,
                             bool congestion_experienced);

  // Forgets the paths on which nothing has come since then, and nothing is to be acknowledged.
  void forget_idle(PeerPaths& peer, Time since);
  // For a peer that goes to rest, and for a session that has ended.
  void forget_all(PeerPaths& peer);

  [[nodiscard]] ReceivePath& at(std::uint32_t index) { return paths_.at(index); }
  [[nodiscard]] const ReceivePath& at(std::uint32_t index) const { return paths_.at(index); }
  // Calls visit(const path) for each path of the peer, in the order of slots.
  template <class Visit>
  void for_each(const PeerPaths& peer, Visit&& visit) const {
    for (const std::uint32_t index : peer.receiving) {
      if (index != kNoIndex) visit(paths_.at(index));
    }
  }

 private:
  static void start(const Peer& peer, ReceivePath& path, const wire::CommonHeader& header);

  Turn& turn_;
  Reporter& reporter_;
  Slab<ReceivePath> paths_;
};

}  // namespace hawser::proto
