// SPDX-License-Identifier: Apache-2.0
// The state of one endpoint: everything that the protocol's files share, in slabs made at start.
// One file per event or decision works on it. Each has its own header comment, and the READMEs of
// path/, message/, session/ and endpoint/ list them.
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
#include "proto/base/deadline_heap.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/sequence.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/base/untouched.hpp"
#include "proto/endpoint.hpp"
#include "proto/endpoint/burst.hpp"
#include "proto/endpoint/call_queue.hpp"
#include "proto/endpoint/half_open_strangers.hpp"
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
#include "proto/service/control_routes.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/nic_news.hpp"
#include "proto/session/places.hpp"
#include "proto/session/resting.hpp"
#include "proto/session/session_keys.hpp"
#include "proto/wire/mac.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

struct Endpoint::Core : private PathUser {
  Core(const EndpointConfig& config, std::span<Nic* const> nics, PacketPool& pool);

  // ---- fixed at start
  Turn turn;
  std::uint64_t endpoint_id;
  std::uint64_t epoch;
  wire::Secret job_secret;

  // ---- objects
  SessionKeys keys;
  std::uint32_t name_mask;  // a peer's name on the wire is its index xor this
  PeerTable peers;
  PacketSender sender;
  const std::span<LocalNic> nics;  // the sender's: what the protocol's parts know of each
  StandingVerdicts verdicts;
  Outgoing outgoing;
  PathSet paths;
  PathJudge path_judge{turn, peers, paths, nics, verdicts};
  ReceivePaths receive_paths;
  ControlRoutes control_routes{turn, sender, paths.all()};
  MessageTablePool table_blocks;
  Incoming incoming;

  // ---- timers: one deadline per object, for the earliest of its timers
  DeadlineHeap peer_timers;

  // ---- work at hand
  Senders senders{peers};
  TouchedPeers touched{peers};
  Reporter reporter{turn, peers, outgoing.all()};
  CallQueue call_queue{peers, turn.tunables.max_outstanding_handshakes};
  HalfOpenStrangers half_open{peers};
  Places peer_places;

  // ---- this turn
  bool called_to_send = false;            // since the last turn, and last for a single packet
  std::uint32_t last_sent_to = kNoIndex;  // the peer that the last send call was for
  Pace pace;
  Allowance allowance;
  Descriptors descriptors{turn, peers, touched, outbox, control_routes};
  Outbox outbox;

  std::uint32_t handshake_counter = 0;
  std::uint32_t session_sequence = 0;
  NicNews news;
  bool closing = false;
  bool closed = false;
  Time closing_since{};
  Time close_wake{kNever};
  Burst burst;  // this and the next two are work space, made once: clearing them costs kilobytes
  Division division;
  std::array<RxPacket, Nic::kMaxRxBurst> received;

  // ---- pass.cpp
  void begin_turn(Time at);
  TurnResult finish_turn(Time at);
  void rearm(Peer& peer);
  void timers_changed(Peer& peer) override { rearm(peer); }
  void expire(Peer& peer);
  void expire_timers();
  void apply_blocks(Peer& peer, const wire::BlockRange& blocks);
  [[nodiscard]] bool arrives(Peer& peer, std::size_t nic, const wire::PacketView& packet,
                             bool congestion_experienced);
  void receive_packet(std::size_t nic, const RxPacket& datagram);
  void receive_all();

  // ---- places.cpp
  [[nodiscard]] Peer* make_peer(std::uint64_t remote_id, Time half_open_until);
  void give_back(Peer& peer);
  void enter_half_open(Peer& peer);

  // ---- session.cpp
  [[nodiscard]] ResponseTime first_guess(Duration handshake) const;
  [[nodiscard]] Peer* find_peer(std::uint64_t remote_id);
  [[nodiscard]] wire::NicRecord nic_record(std::size_t nic) const;
  void start_peer(Peer& peer);
  void learn_nics(Peer& peer, std::span<const wire::NicRecord> records);
  void draw_token(Peer& peer);
  [[nodiscard]] bool begin_session(Peer& peer);
  [[nodiscard]] bool learn_session(Peer& peer, const wire::SessionPart& hello,
                                   std::span<const wire::NicRecord> records);
  void become_ready(Peer& peer);
  [[nodiscard]] Time gives_up_at(const Peer& peer) const;
  void watch_liveness(Peer& peer);
  bool probe_best_path(Peer& peer, bool again = false);

  // ---- handshake.cpp
  void want_session(Peer& peer);
  void begin_calling(Peer& peer, Time at);
  void call_elsewhere(Peer& peer, std::span<const wire::NicRecord> records);
  void end_calling(Peer& peer);
  void say_hello(Peer& peer);
  void call_again(Peer& peer);
  void send_session(Peer& peer, wire::PacketType type, NicPair over, std::uint64_t cookie);
  [[nodiscard]] bool echoes_us(const Peer& peer, const wire::SessionPart& said) const;
  void on_session(std::size_t nic, const wire::PacketView& packet);
  [[nodiscard]] Peer* caller(std::size_t nic, const wire::PacketView& packet);
  [[nodiscard]] Peer* admit(std::size_t nic, const wire::PacketView& packet, Peer* peer);
  void send_challenge(std::size_t nic, const wire::SessionPart& hello, const NicAddress& address);
  void send_refusal(std::size_t nic, const wire::SessionPart& hello, const NicAddress& address);
  void on_challenge(std::size_t nic, Peer& peer, const wire::PacketView& packet);

  // ---- addresses.cpp
  void announce(Peer& peer) override;
  void learn_addresses(Peer& peer, std::span<const wire::NicRecord> records);

  // ---- nic_news.cpp
  void tell_news(Peer& peer);
  void take_nic_events();
  void local_nic_changed(std::size_t nic, bool up);
  void notice_address(std::size_t nic);
  void begin_news();
  void tell_awake();
  void hear_news(Peer& peer);
  void spread_news();

  // ---- rest.cpp
  [[nodiscard]] bool pack_finals(const Peer& peer, RestingPeer& record) const;
  [[nodiscard]] bool is_out_of_reach(Peer& peer);
  [[nodiscard]] bool path_may_go(Peer& peer, const Path& path);
  [[nodiscard]] bool is_settled(Peer& peer);
  [[nodiscard]] bool consider_rest(Peer& peer);
  [[nodiscard]] bool put_to_rest(Peer& peer, RestingPeer& record);
  Peer& wake(std::uint32_t index);
  void wake_all();

  // ---- failure.cpp
  // `of_timeout`: the reason of a peer_timeout, if the evidence here doesn't give it.
  void fail_peer(Peer& peer, Status status, Reason of_timeout = Reason::none);
  void forget_failed(Peer& peer);

  // ---- closing.cpp
  [[nodiscard]] wire::ClosingPart& begin_closing(const Peer& peer, wire::PacketType type,
                                                 wire::PacketWriter& writer);
  void send_closing(Peer& peer, wire::PacketType type, std::uint8_t flags, Ways ways);
  void send_close(Peer& peer);
  void repeat_close(Peer& peer);
  void send_reset(Peer& peer);
  void on_closing(Peer& peer, NicPair from, const wire::PacketView& packet);
  void on_close(Peer& peer, const wire::PacketView& packet);
  void progress_closing();

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

  // ---- stalls.cpp
  void watch_progress(Peer& peer);

  // ---- small things that many need
  // The name that the peer puts in packets to us: its index, in a form that strangers can't guess.
  [[nodiscard]] std::uint32_t name_of(const Peer& peer) const { return peer.index ^ name_mask; }
  // For a call that concerns the peer: wakes it. Null: no peer has that name.
  [[nodiscard]] Peer* used_peer(PeerId id) {
    const std::uint32_t index = peers.index_of(id);
    if (index == kNoIndex) return nullptr;
    Peer& peer = peers.is_awake(index) ? peers.at(index) : wake(index);
    hear_news(peer);
    peer.session.used_at = turn.now();
    touched.add(peer);
    return &peer;
  }
  // Visits the peers that are awake.
  template <class Visit>
  void for_each_peer(Visit&& visit) {
    peers.for_each_awake(visit);
  }
};

}  // namespace hawser::proto
