// SPDX-License-Identifier: Apache-2.0
// Sessions owns the sessions with all peers. It decides how they begin, live, rest and end
// (docs/internals/protocol.md §6).
//
//   calls.cpp        who is called when
//   handshake.cpp    what a HELLO must prove
//   session.cpp      what is learned when a session begins; liveness
//   stalls.cpp       operations that stand still although their peer is heard
//   addresses.cpp    NICs with another address
//   nic_news.cpp     when each peer hears that a NIC of this end has changed
//   ways.cpp         what the ways to a peer carry, at first and later
//   rest.cpp         when a quiet peer becomes a record, and how it wakes
//   failure.cpp      how a session fails
//   closing.cpp      how it ends on purpose
//   places.cpp       whose place a newcomer gets
//   peer_timers.cpp  the one deadline of each peer
//
// It is the highest of the owners: it tells those of paths and messages that a session has begun or
// ended.
//
// Timers of a peer: `call_at`, `keepalive_at`, `stall_at`, `rest_at`, `close_at`. Timers of the
// endpoint: `news.at`, and `close_wake`, which folds `close_at`. peer_timers.cpp folds the others
// of a peer into one, but for `stall_at`, which is looked at in each turn that touches the peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hawser/events.hpp"
#include "hawser/types.hpp"
#include "proto/base/deadline_heap.hpp"
#include "proto/base/turn.hpp"
#include "proto/message/message_table.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path_set.hpp"
#include "proto/path/response_time.hpp"
#include "proto/session/nic_news.hpp"
#include "proto/session/peer_session.hpp"
#include "proto/session/places.hpp"
#include "proto/session/resting.hpp"
#include "proto/session/session_keys.hpp"
#include "proto/session/way_changes.hpp"
#include "proto/wire/mac.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

class CallQueue;
class ControlRoutes;
class Descriptors;
class HalfOpenStrangers;
class Incoming;
class Outbox;
class Outgoing;
class PacketSender;
class PeerTable;
class ReceivePaths;
class Reporter;
class Senders;
class TouchedPeers;
enum class Ways : std::uint8_t;
struct Peer;

class Sessions final : public PathUser {
 public:
  // The sessions work with these. All of them outlive them.
  struct Parts {
    Turn& turn;
    PeerTable& peers;
    PacketSender& sender;
    Reporter& reporter;
    Senders& senders;
    TouchedPeers& touched;
    Outbox& outbox;
    ControlRoutes& routes;
    Descriptors& descriptors;
    CallQueue& calls;
    HalfOpenStrangers& half_open;
    StandingVerdicts& verdicts;
    PathSet& paths;
    ReceivePaths& receive_paths;
    Outgoing& outgoing;
    Incoming& incoming;
    MessageTablePool& numbers;  // of the peers' tables
  };
  // The facts that this end tells of itself.
  struct Self {
    std::uint64_t endpoint_id = 0;
    std::uint64_t epoch = 0;
    std::span<const std::byte> job_secret;  // it outlives the sessions
    std::uint64_t seed = 0;
  };
  Sessions(const Parts& parts, const Self& self);

  // ---- names
  // The name that the peer puts in packets to us: its index, in a form that strangers can't guess.
  [[nodiscard]] std::uint32_t name_mask() const { return name_mask_; }
  [[nodiscard]] wire::NicRecord nic_record(std::size_t nic) const;
  // The secret of the region that is exposed as number `count`.
  [[nodiscard]] std::uint64_t region_secret(std::uint64_t count) const {
    return keys_.region_secret(count);
  }

  // ---- calls of the program
  // Wakes the peer. Null: nobody of that name is known.
  [[nodiscard]] Peer* find_peer(std::uint64_t remote_id);
  // Null: all places are taken, by peers whose sessions live or of which something is left.
  [[nodiscard]] Peer* make_peer(std::uint64_t remote_id, Asker asker);
  void learn_nics(Peer& peer, std::span<const wire::NicRecord> records);
  void call_elsewhere(Peer& peer, std::span<const wire::NicRecord> records);
  // An operation or connect needs the session.
  void want_session(Peer& peer);
  // Makes a failed peer ready for a new session.
  void forget_failed(Peer& peer);
  // The program says that a process of this epoch is there now; 0: it does not say.
  void name_process(Peer& peer, std::uint64_t epoch);
  void disconnect(Peer& peer);
  // The endpoint closes: all peers hear of it.
  void close();
  [[nodiscard]] bool closing() const { return closing_; }
  [[nodiscard]] bool closed() const { return closed_; }

  // ---- packets
  void on_session(std::size_t nic, const wire::PacketView& packet);
  void on_challenge(std::size_t nic, Peer& peer, const wire::PacketView& packet);
  void on_closing(Peer& peer, NicPair from, const wire::PacketView& packet);
  void become_ready(Peer& peer);
  void send_reset(Peer& peer);
  void repeat_close(Peer& peer);

  // ---- rest
  Peer& wake(std::uint32_t index);
  [[nodiscard]] bool consider_rest(Peer& peer);

  // ---- NICs of this end
  void take_nic_events();
  // NICs have changed since the peer's paths followed their changes.
  [[nodiscard]] bool has_news(const PeerPaths& peer) const {
    return peer.nic_news != news_.newest();
  }
  // The peer's paths follow what its NICs' newest changes say.
  void hear_news(Peer& peer);
  // True if the ways to a peer may carry more or less than its size class says.
  [[nodiscard]] bool doubts_ways(const PeerSession& session) const {
    return session.ways_known != ways_.newest() ||
           (session.size_class != 0 && turn_.now() >= ways_.look_at);
  }
  // The messages that begin from now on follow what the ways to the peer carry.
  void follow_ways(Peer& peer);

  // ---- timers, once a turn
  void watch_liveness(Peer& peer);
  void rearm(Peer& peer);
  // Lets up to `most` peers' timers expire.
  void expire(std::uint32_t most);
  void expire_news();
  void progress_closing();
  // The earliest of all timers here.
  [[nodiscard]] Time next_timer() const {
    return earlier(timers_.next(), earlier(news_.at, close_wake_));
  }

  // ---- PathUser
  void announce(Peer& peer) override;
  void timers_changed(Peer& peer) override { rearm(peer); }

 private:
  // Each of these is known to one file alone.
  struct Handshake;
  struct PlaceKeeper;
  struct Failure;
  struct Beginning;

  // ---- places.cpp
  [[nodiscard]] bool is_crowded() const;
  void give_back(Peer& peer);
  void enter_half_open(Peer& peer, bool is_proven);

  // ---- session.cpp
  [[nodiscard]] std::uint32_t name_of(const Peer& peer) const;
  [[nodiscard]] ResponseTime first_guess(Duration handshake) const;
  void start_peer(Peer& peer);
  void draw_token(Peer& peer);
  void draw_offer(Peer& peer);
  [[nodiscard]] bool begin_session(Peer& peer);
  [[nodiscard]] bool learn_session(Peer& peer, const wire::SessionPart& hello,
                                   std::span<const wire::NicRecord> records);
  [[nodiscard]] Time gives_up_at(const Peer& peer) const;
  bool probe_best_path(Peer& peer, bool again = false);

  // ---- calls.cpp
  void begin_calling(Peer& peer, Time at);
  [[nodiscard]] Duration longest_interval() const;
  void end_calling(Peer& peer);
  void say_hello(Peer& peer);
  void call_again(Peer& peer);

  // ---- handshake.cpp
  void send_session(Peer& peer, wire::PacketType type, NicPair over, std::uint64_t cookie);
  [[nodiscard]] bool echoes_us(const Peer& peer, const wire::SessionPart& said) const;
  [[nodiscard]] Peer* caller(std::size_t nic, const wire::PacketView& packet);
  [[nodiscard]] Peer* admit(std::size_t nic, const wire::PacketView& packet, Peer* peer);
  void send_challenge(std::size_t nic, const wire::SessionPart& hello, const NicAddress& address);
  void send_refusal(std::size_t nic, const wire::SessionPart& hello, const NicAddress& address);

  // ---- addresses.cpp
  void learn_addresses(Peer& peer, std::span<const wire::NicRecord> records);

  // ---- nic_news.cpp
  void tell_news(Peer& peer);
  void local_nic_changed(std::size_t nic, bool up);
  void notice_address(std::size_t nic);
  void begin_news();
  void tell_awake();
  void spread_news();

  // ---- ways.cpp
  [[nodiscard]] std::uint32_t ask_ways(Peer& peer);

  // ---- rest.cpp
  [[nodiscard]] bool pack_finals(const Peer& peer, RestingPeer& record) const;
  [[nodiscard]] static bool keeps_failure(const Peer& peer);
  [[nodiscard]] bool is_out_of_reach(Peer& peer);
  [[nodiscard]] bool path_may_go(Peer& peer, const Path& path);
  [[nodiscard]] bool is_settled(Peer& peer);
  [[nodiscard]] bool put_to_rest(Peer& peer, RestingPeer& record);
  void wake_all();

  // ---- failure.cpp
  // `of_timeout`: the reason of a peer_timeout, if the evidence here doesn't give it.
  void fail_peer(Peer& peer, Status status, Reason of_timeout = Reason::none);

  // ---- closing.cpp
  [[nodiscard]] wire::ClosingPart& begin_closing(const Peer& peer, wire::PacketType type,
                                                 wire::PacketWriter& writer);
  void send_closing(Peer& peer, wire::PacketType type, std::uint8_t flags, Ways ways);
  void send_close(Peer& peer);
  [[nodiscard]] static std::uint8_t flags_of_end(const Peer& peer);
  void on_close(Peer& peer, const wire::PacketView& packet);

  // ---- stalls.cpp
  void watch_progress(Peer& peer);

  // ---- peer_timers.cpp
  void expire(Peer& peer);

  Turn& turn_;
  PeerTable& peers_;
  PacketSender& sender_;
  const std::span<LocalNic> nics_;  // the sender's
  Reporter& reporter_;
  Senders& senders_;
  TouchedPeers& touched_;
  Outbox& outbox_;
  ControlRoutes& routes_;
  Descriptors& descriptors_;
  CallQueue& call_queue_;
  HalfOpenStrangers& half_open_;
  StandingVerdicts& verdicts_;
  PathSet& paths_;
  ReceivePaths& receive_paths_;
  Outgoing& outgoing_;
  Incoming& incoming_;
  MessageTablePool& numbers_;

  const std::uint64_t endpoint_id_;
  const std::uint64_t epoch_;
  const std::span<const std::byte> job_secret_;
  SessionKeys keys_;
  const std::uint32_t name_mask_;
  std::uint32_t handshake_counter_ = 0;
  std::uint32_t session_sequence_ = 0;
  NicNews news_;
  WayChanges ways_;
  Places places_;
  DeadlineHeap timers_;  // a deadline for each peer: the earliest of its timers
  bool closing_ = false;
  bool closed_ = false;
  Time closing_since_{};
  Time close_wake_{kNever};
};

}  // namespace hawser::proto
