// SPDX-License-Identifier: Apache-2.0
// PathSet owns the paths to all peers and the packets in flight on them. It decides which paths are
// bound, how they live and fail, which packets arrived and which are lost
// (docs/internals/protocol.md §8 to §10).
//
//   binding.cpp          which of a peer's paths are bound
//   life_cycle.cpp       suspected, down, probed, back; bridges
//   loss_detector.cpp    which packets are lost
//   path_acks.cpp        which packets arrived
//   probe.cpp            how a probe is written
//   probe_timeouts.cpp   when the peer is asked for an answer
//
// Whoever sends data asks for a path (bound, usable, with room), and enters each packet that a NIC
// has accepted with `push`. A PathSet knows nothing of messages: it tells their owner what became
// of a packet.
//
// Timers of a path: `gap_at`, `pto_timer` and `probe.timer`. `expire` fires what is due, and
// `next_timer` is the earliest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "hawser/trace.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/nic.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path.hpp"
#include "proto/path/peer_paths.hpp"
#include "proto/path/sent_packets.hpp"
#include "proto/path/standing_verdicts.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

class PacketSender;
class PeerTable;
class Reporter;
class Senders;
class TouchedPeers;
struct Peer;

// The owner of the data that goes over the paths. It is told what became of each packet with data.
class PacketOwner {
 public:
  // A packet with data was in flight, and has arrived.
  virtual void packet_arrived(Peer& peer, const SentPacket& packet) = 0;
  // A packet with data has arrived after all. It was declared lost before.
  virtual void packet_came_late(Peer& peer, const SentPacket& packet) = 0;
  // A packet with data was declared lost. The owner may note in the record what it did about that.
  virtual void packet_lost(Peer& peer, SentPacket& packet) = 0;

 protected:
  ~PacketOwner() = default;
};

// The owner of the sessions and the timers of peers.
class PathUser {
 public:
  // No path works: the peer should be called over all pairs of NICs.
  virtual void announce(Peer& peer) = 0;
  // A path of the peer has an earlier timer, perhaps between two turns.
  virtual void timers_changed(Peer& peer) = 0;

 protected:
  ~PathUser() = default;
};

class PathSet {
 public:
  // The paths work with these. All of them outlive them.
  struct Parts {
    Turn& turn;
    PeerTable& peers;
    PacketSender& sender;
    Reporter& reporter;
    Senders& senders;
    TouchedPeers& touched;
    StandingVerdicts& verdicts;
    PacketOwner& packets;
    PathUser& user;
    std::uint64_t endpoint_id;
  };
  // `paths` and `record_blocks`: how many there may be of all peers.
  PathSet(const Parts& parts, std::uint32_t paths, std::uint32_t record_blocks);

  // ---- paths
  [[nodiscard]] Path& at(std::uint32_t index) { return paths_.at(index); }
  [[nodiscard]] const Path& at(std::uint32_t index) const { return paths_.at(index); }
  [[nodiscard]] bool is_live(std::uint32_t index) const { return paths_.is_live(index); }
  // Null: the slot has no path.
  [[nodiscard]] Path* of(const PeerPaths& peer, std::size_t slot) {
    return peer.indices[slot] == kNoIndex ? nullptr : &paths_.at(peer.indices[slot]);
  }
  // Calls visit(path) for each path of the peer. A visit may bind and release any.
  template <class Visit>
  void for_each(const PeerPaths& peer, Visit&& visit) {
    for_each_path(paths_, peer, visit);
  }
  // Prefetches the paths of a peer that is about to be used.
  void fetch(const PeerPaths& peer) const {
    for_each_bound(peer, [&](std::uint32_t slot) { paths_.fetch(peer.indices[slot]); });
  }
  [[nodiscard]] Slab<Path>& all() { return paths_; }

  // ---- what is in flight
  [[nodiscard]] std::uint32_t in_flight() const { return in_flight_; }
  // Packets in flight that count against the limit of this path's kind: those of paths that do not
  // answer don't count for the others.
  [[nodiscard]] std::uint32_t in_flight_beside(const Path& path) const {
    return path.written_off ? in_flight_ : in_flight_ - written_off_;
  }
  [[nodiscard]] std::uint32_t in_flight_on_answering() const { return in_flight_ - written_off_; }
  [[nodiscard]] SentPacket& record(Path& path, std::uint64_t number) {
    return path.sent.at(records_, number);
  }
  // Enters a packet that the path's NIC has taken, under the path's next number.
  SentPacket& push(Path& path, const TxPacket& packet) {
    LocalNic& nic = nics_[path.local_nic];
    if (path.packets_in_flight == 0) path.oldest = path.sent.next();
    SentPacket& record = path.sent.push(records_);
    record.sent = turn_.now();
    record.departed = path.last_departed = nic.idle_at;
    record.lane = static_cast<std::uint8_t>(packet.entropy);
    record.wire_bytes = static_cast<std::uint16_t>(packet.header_bytes + packet.payload_bytes);
    ++in_flight_;
    written_off_ += path.written_off;
    ++path.packets_in_flight;
    path.bytes_in_flight += record.wire_bytes;
    ++path.traffic.packets_sent;
    ++nic.data_packets_sent;
    return record;
  }
  // The receiver misses that packet, which is in flight. The gap rule judges it, when this turn has
  // read everything that arrived.
  static void miss(PeerSilence& silence, Path& path, SentPacket& record) {
    record.requested = true;
    path.any_requested = path.acked_in_turn = silence.acked_in_turn = true;
  }
  // Calls visit(path, record) for each packet in flight to the peer, until that is false.
  template <class Visit>
  void for_each_in_flight(const PeerPaths& peer, Visit&& visit) {
    bool goes_on = true;
    for_each(peer, [&](Path& path) {
      for (std::uint64_t n = path.oldest; goes_on && n != path.sent.next(); ++n) {
        SentPacket& sent = path.sent.at(records_, n);
        if (sent.state == SentPacket::State::in_flight) goes_on = visit(path, sent);
      }
    });
  }

  // ---- binding.cpp
  void pair_nics(Peer& peer);
  void pair_anew(Peer& peer);
  void open_paths(Peer& peer);
  void reopen_paths(Peer& peer, std::uint32_t known_news);
  void doubt_unbound(Peer& peer, std::size_t nic, bool ours);
  void release_path(Peer& peer, Path& path);
  [[nodiscard]] bool is_away(Peer& peer, const Path& path);
  [[nodiscard]] Path* bind_next(Peer& peer, bool proven_only);
  void bind_for_bulk(Peer& peer, std::uint32_t fragments);
  [[nodiscard]] std::uint64_t crowd_bytes(const Peer& peer, std::uint64_t want_bytes) const;
  [[nodiscard]] Path* bind_beside(Peer& peer, const Path* chosen, std::uint64_t want_bytes);
  [[nodiscard]] bool all_bound(const Peer& peer) const;
  [[nodiscard]] std::optional<Time> tend(Peer& peer);

  // ---- life_cycle.cpp
  [[nodiscard]] bool has_way(Peer& peer, Path& path);
  void path_down(Peer& peer, Path& path, Reason reason);
  void bridge(Peer& peer, std::uint8_t local, std::uint8_t remote_nic, bool is_first);
  void meet(Peer& peer, std::size_t local, std::uint8_t remote_nic);
  void on_nic_state(Peer& peer, const wire::NicStateBlock& state);
  void expire(Peer& peer);
  [[nodiscard]] Time next_timer(const Peer& peer);
  // Something changed for the worse: the verdicts are to be judged anew.
  void want_verdicts();

  // ---- loss_detector.cpp
  void judge_acks();

  // ---- path_acks.cpp
  [[nodiscard]] bool has_numbers(Path& path);
  // Reserves numbers for up to `count` packets with data; returns how many.
  [[nodiscard]] std::uint64_t places_for_data(Path& path, std::uint64_t count);
  // Forgets records for which no acknowledgement is expected any more.
  void trim_overdue(Path& path);
  void on_ack_info(Peer& peer, const wire::AckInfoBlock& info);
  void on_path_marks(Peer& peer, const wire::PathMarksBlock& block);
  void on_path_ack(Peer& peer, const wire::PathAckView& ack);

  // ---- probe.cpp, probe_timeouts.cpp
  // False: nothing was sent, as there is no way, no number, or no room in the NIC.
  bool send_probe(Peer& peer, Path& path, bool full);
  void arm_pto(Path& path);
  void arm_all_prompt(Peer& peer);

 private:
  // ---- binding.cpp
  [[nodiscard]] std::uint32_t slot_in_order(const Peer& peer, std::uint32_t place) const;
  Path* bind_slot(Peer& peer, std::uint32_t slot, bool told);
  Path* bind_bridge(Peer& peer, std::uint8_t local, std::uint8_t remote_nic, std::uint32_t at);
  Path* bind_path(Peer& peer, std::uint32_t slot, std::uint8_t local, std::uint8_t remote_nic);
  [[nodiscard]] CongestionController fresh_window(const Peer& peer, std::size_t local) const;
  [[nodiscard]] Path* bind_for_data(Peer& peer);
  void bind_for_repair(Peer& peer, bool proven_only);
  [[nodiscard]] std::uint32_t count_answering(Peer& peer);
  [[nodiscard]] bool release_idle(Peer& peer, Time since, std::uint32_t answering);

  // ---- life_cycle.cpp
  [[nodiscard]] Path* next_usable_path(Peer& peer, const Path& path);
  void ask_elsewhere(Peer& peer, const Path& path);
  void suspect(Peer& peer, Path& path, Reason reason);
  [[nodiscard]] Time next_probe(Path& path);
  void path_heard(Peer& peer, Path& path, bool full_probe);
  void path_up(Peer& peer, Path& path, Reason reason);
  void drop_bridges(Peer& peer, const Path& works, bool proven_too);
  void move_bridge(Peer& peer, Path& path);
  void seek(Peer& peer);
  [[nodiscard]] bool any_path_works(Peer& peer);
  void call_witness(Peer& peer, const Path& path);
  void expire_probe(Peer& peer, Path& path);
  [[nodiscard]] bool was_in_vain(const Peer& peer, Path& path);
  void ask_the_way(Peer& peer, Path& path);

  // ---- loss_detector.cpp
  void settle(Path& path, SentPacket& record, SentPacket::State state, bool overtaken);
  void lose_packet(Peer& peer, Path& path, std::uint64_t number, SentPacket& packet,
                   TraceLoss layer);
  [[nodiscard]] bool is_large(const Peer& peer, const SentPacket& packet) const;
  [[nodiscard]] Time several_due(Path& path);
  [[nodiscard]] bool passes_small_only(Peer& peer, const Path& path);
  void find_gaps(Peer& peer, Path& path);
  void note_unheard(Peer& peer, Path& path);
  void evacuate(Peer& peer, Path& path);
  void lose_oldest(Peer& peer, Path& path);
  void find_silence(Peer& peer);

  // ---- path_acks.cpp
  void trim(Path& path, Time forget_before);
  [[nodiscard]] std::uint64_t reserve_records(Path& path, std::uint64_t count);
  void sample_newest(Peer& peer, Path& path, const SentPacket& record, Time sent_before,
                     Duration residence, CongestionAck& window_ack);
  void sample_response(Peer& peer, Path& path, Duration rtt, Duration residence, bool prompt);
  static void note_largest(Path& path, std::uint64_t largest);
  void acknowledge_packet(Peer& peer, Path& path, std::uint64_t number, SentPacket& packet);

  // ---- probe_timeouts.cpp
  [[nodiscard]] Duration pto_base(const Path& path) const;
  [[nodiscard]] Duration pto_interval(const Path& path) const;
  [[nodiscard]] Time early_probe_at(Path& path);
  void send_early_probe(Peer& peer, Path& path);
  void make_room_for_probe(Peer& peer, Path& path);
  [[nodiscard]] bool awaits_data(Path& path);
  void expire_pto(Peer& peer, Path& path);

  Turn& turn_;
  PeerTable& peers_;
  PacketSender& sender_;
  const std::span<LocalNic> nics_;  // the sender's
  Reporter& reporter_;
  Senders& senders_;
  TouchedPeers& touched_;
  StandingVerdicts& verdicts_;
  PacketOwner& packets_;
  PathUser& user_;
  const std::uint64_t endpoint_id_;

  Slab<Path> paths_;
  SentBlockPool records_;
  std::uint32_t in_flight_ = 0;     // sequenced packets
  std::uint32_t written_off_ = 0;   // of in_flight_, on paths that are `written_off`
  std::uint64_t bulk_paths_ = 0;    // bound because of bulk
  std::uint32_t reclaimed_to_ = 0;  // up to this path, paths have given back old records
  Time reclaimed_at_{};
};

}  // namespace hawser::proto
