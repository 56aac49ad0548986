// SPDX-License-Identifier: Apache-2.0
// One endpoint: it makes the owners of all state (docs/internals/owners.md) and connects them. Its
// own are the order of a turn (pass.cpp) and the sending of packets (transmit.cpp).
//
// Ownership. Slabs own all objects; indices name them. A PacketBuffer is the protocol's from
// PacketPool::take to tx_burst, and then the driver's. A user's send buffer is read until the
// message is finished and unreaped == 0. A receive buffer is written only between match and
// completion.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hawser/stats.hpp"
#include "hawser/types.hpp"
#include "proto/base/sequence.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/base/untouched.hpp"
#include "proto/endpoint.hpp"
#include "proto/endpoint/burst.hpp"
#include "proto/message/allowance.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/nic.hpp"
#include "proto/path/division.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path_judge.hpp"
#include "proto/path/path_set.hpp"
#include "proto/path/receive_paths.hpp"
#include "proto/path/standing_verdicts.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/call_queue.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/half_open_strangers.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/resting.hpp"
#include "proto/session/sessions.hpp"
#include "proto/wire/mac.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

struct Endpoint::Core {
  Core(const EndpointConfig& config, std::span<Nic* const> nics, PacketPool& pool);

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
  PathSet paths;
  PathJudge path_judge{turn, peers, paths, nics, verdicts};
  ReceivePaths receive_paths;
  ControlRoutes control_routes{turn, sender, paths.all()};
  MessageTablePool table_blocks;
  Incoming incoming;

  // ---- work at hand
  Senders senders{peers};
  TouchedPeers touched{peers};
  Reporter reporter{turn, peers, outgoing.all()};
  CallQueue call_queue{peers, turn.tunables.max_outstanding_handshakes};
  HalfOpenStrangers half_open{peers};

  // ---- this turn
  bool called_to_send = false;            // since the last turn, and last for a single packet
  std::uint32_t last_sent_to = kNoIndex;  // the peer that the last send call was for
  Pace pace;
  Allowance allowance;
  Descriptors descriptors{turn, peers, touched, outbox, control_routes};
  Outbox outbox;

  Burst burst;  // this and the next two are work space, made once: clearing them costs kilobytes
  Division division;
  std::array<RxPacket, Nic::kMaxRxBurst> received;

  // ---- pass.cpp
  void begin_turn(Time at);
  TurnResult finish_turn(Time at);
  void expire_timers();
  void apply_blocks(Peer& peer, const wire::BlockRange& blocks);
  [[nodiscard]] bool arrives(Peer& peer, std::size_t nic, const wire::PacketView& packet,
                             bool congestion_experienced);
  void receive_packet(std::size_t nic, const RxPacket& datagram);
  void receive_all();

  // ---- transmit.cpp
  enum class Sent : std::uint8_t { all, more, blocked, refused };
  void transmit();
  [[nodiscard]] Sent transmit_burst(Peer& peer, std::uint64_t in_a_row);
  [[nodiscard]] Path* choose_path(Peer& peer, std::uint64_t want_bytes);
  [[nodiscard]] std::size_t burst_limit(Peer& peer, Path& path, std::uint64_t in_a_row);
  void write_fragment(Peer& peer, Path& path, std::uint64_t number, Pick& pick,
                      PacketBuffer& buffer, TxPacket& packet);
  void commit_fragment(Peer& peer, Path& path, const Pick& pick, const TxPacket& packet);
  void burst_left(Peer& peer, Path& path, const Pick& last);
  void take_back(Peer& peer, Path& path, const Pick& pick, const TxPacket& packet);
  [[nodiscard]] Sent refuse();
  [[nodiscard]] static Sent sent(const Peer& peer) {
    return peer.sends.retransmits.empty() && peer.sends.to_send.empty() ? Sent::all : Sent::more;
  }
  [[nodiscard]] Sent transmit_divided(Peer& peer, std::uint64_t want_bytes, std::uint64_t most);
  [[nodiscard]] bool begin_division(Peer& peer, std::uint64_t want_bytes);
  [[nodiscard]] std::uint32_t write_divided(Peer& peer, std::uint64_t want_bytes, std::size_t most);
  [[nodiscard]] bool prepare_share(Peer& peer, Share& share, std::size_t more);
  void pace_shares(std::size_t nic, std::uint64_t bytes);
  [[nodiscard]] bool hand_over_rows(Peer& peer);

  // For a call that concerns the peer: wakes it. Null: no peer has that name.
  [[nodiscard]] Peer* used_peer(PeerId id) {
    const std::uint32_t index = peers.index_of(id);
    if (index == kNoIndex) return nullptr;
    Peer& peer = peers.is_awake(index) ? peers.at(index) : sessions.wake(index);
    sessions.hear_news(peer);
    peer.session.used_at = turn.now();
    touched.add(peer);
    return &peer;
  }
};

}  // namespace hawser::proto
