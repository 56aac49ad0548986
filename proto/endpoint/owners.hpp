// SPDX-License-Identifier: Apache-2.0
// The owners of all state of one endpoint (docs/internals/owners.md), and how they are connected.
//
// Ownership. Slabs own all objects; indices name them. A PacketBuffer is the protocol's from
// PacketPool::take to tx_burst, and then the driver's. A user's send buffer is read until the
// message is finished and unreaped == 0. A receive buffer is written only between match and
// completion.
#pragma once

#include <cstdint>
#include <span>

#include "proto/base/turn.hpp"
#include "proto/endpoint.hpp"
#include "proto/endpoint/receiver.hpp"
#include "proto/endpoint/transmitter.hpp"
#include "proto/message/allowance.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/message_table.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/nic.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path_judge.hpp"
#include "proto/path/path_set.hpp"
#include "proto/path/receive_paths.hpp"
#include "proto/path/standing_verdicts.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/region/regions.hpp"
#include "proto/service/call_queue.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"
#include "proto/wire/mac.hpp"

namespace hawser::proto {

struct Owners {
  static constexpr std::uint32_t kMostRegions = 65'536;

  Owners(const EndpointConfig& config, std::span<Nic* const> given, PacketPool& buffers);

  // ---- fixed at start
  Turn turn;
  std::uint64_t endpoint_id;
  std::uint64_t epoch;
  wire::Secret job_secret;

  // ---- objects
  PeerTable peers;
  PacketSender sender;
  const std::span<LocalNic> nics;  // the sender's: what the protocol's parts know of each
  StandingVerdicts verdicts;
  Sessions sessions;
  Outgoing outgoing;
  Regions regions{kMostRegions};
  PathSet paths;
  PathJudge path_judge{turn, peers, paths, nics, verdicts};
  ReceivePaths receive_paths;
  ControlRoutes control_routes{turn, sender, paths.all(), touched};
  MessageTablePool table_blocks;
  Incoming incoming;

  // ---- lists and reports
  Senders senders{peers};
  TouchedPeers touched{peers};
  Reporter reporter{turn, peers, outgoing.all()};
  CallQueue call_queue{peers, turn.tunables.max_outstanding_handshakes};
  HalfOpenStrangers half_open{peers};

  // ---- control, and the two halves of a turn
  Allowance allowance;
  Descriptors descriptors{turn, peers, touched, outbox, control_routes};
  Outbox outbox;
  Transmitter transmitter;
  Receiver receiver;

  // ---- what several public calls need
  std::uint64_t exposed = 0;  // regions so far
  // For a call that concerns the peer: wakes it. Null: no peer has that name.
  [[nodiscard]] Peer* used_peer(PeerId id) {
    const std::uint32_t index = peers.index_of(id);
    if (index == kNoIndex) return nullptr;
    Peer& peer = peers.is_awake(index) ? peers.at(index) : sessions.wake(index);
    if (sessions.has_news(peer.paths)) sessions.hear_news(peer);
    peer.session.used_at = turn.now();
    touched.add(peer);
    return &peer;
  }
  [[nodiscard]] bool has_place_for_send(const Peer& peer) const {
    return peer.sends.table.size() < turn.tunables.max_messages_per_peer &&
           peer.sends.table.in_window(peer.sends.next_number);
  }
};

// A caller without a free name for its operation gets `again`, after all other checks.
[[nodiscard]] inline Status without_slot(OperationId operation) {
  return operation == kNoOperation ? Status::again : Status::invalid_argument;
}

}  // namespace hawser::proto
