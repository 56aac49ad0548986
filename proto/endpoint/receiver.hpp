// SPDX-License-Identifier: Apache-2.0
// Takes packets from all NICs, and hands what they hold to the owners that it concerns. It keeps
// only work space for a burst. receiver.cpp has the rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/nic.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

class Allowance;
class ControlRoutes;
class Incoming;
class Outbox;
class Outgoing;
class PacketSender;
class PathSet;
class PeerTable;
class ReceivePaths;
class Reporter;
class Sessions;
class TouchedPeers;
class Turn;
struct LocalNic;
struct Peer;

class Receiver {
 public:
  // The receiver works with these. All of them outlive it.
  struct Parts {
    Turn& turn;
    PeerTable& peers;
    PacketSender& sender;
    Reporter& reporter;
    TouchedPeers& touched;
    Outbox& outbox;
    ControlRoutes& routes;
    Allowance& allowance;
    PathSet& paths;
    ReceivePaths& receive_paths;
    Outgoing& outgoing;
    Incoming& incoming;
    Sessions& sessions;
  };
  explicit Receiver(const Parts& parts);

  // Receives from all NICs, within the budget of a turn.
  void receive_all();

 private:
  void receive_packet(std::size_t nic, const RxPacket& datagram);
  [[nodiscard]] inline bool note_arrival(Peer& peer, std::size_t nic,
                                         const wire::PacketView& packet,
                                         bool congestion_experienced);
  inline void dispatch(Peer& peer, const wire::PacketView& packet);
  void apply_blocks(Peer& peer, const wire::BlockRange& blocks);
  inline void look_ahead(std::span<const RxPacket> burst, std::size_t i) const;

  Turn& turn_;
  PeerTable& peers_;
  PacketSender& sender_;
  const std::span<LocalNic> nics_;  // the sender's
  Reporter& reporter_;
  TouchedPeers& touched_;
  Outbox& outbox_;
  ControlRoutes& routes_;
  Allowance& allowance_;
  PathSet& paths_;
  ReceivePaths& receive_paths_;
  Outgoing& outgoing_;
  Incoming& incoming_;
  Sessions& sessions_;

  std::array<RxPacket, Nic::kMaxRxBurst> received_;
};

}  // namespace hawser::proto
