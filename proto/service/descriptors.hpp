// SPDX-License-Identifier: Apache-2.0
// The descriptors of messages without a receive, and the peers whose messages were dropped for want
// of one (docs/internals/protocol.md, M8 to M10).
//
// There are max_receive_messages descriptors for all peers. Each peer has one more in reserve, for
// its lowest unprocessed number. Otherwise messages beyond a gap could keep out the one that fills
// it. A message that a posted receive waits for uses the descriptor of that receive.
//
// A peer whose message was dropped is *starved* until all such messages have been processed. The
// receiver solicits them when a descriptor becomes free, as the sender's own questions become ever
// rarer.
//
// Timers: `due_at` of a starved peer, when to solicit again; and `judge_at`, when receives that a
// full store keeps waiting may have waited long enough.
#pragma once

#include <cstdint>

#include "proto/base/list.hpp"
#include "proto/base/sequence.hpp"
#include "proto/base/time.hpp"
#include "proto/base/timer.hpp"
#include "proto/base/turn.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/outbox.hpp"

namespace hawser::proto {

class Descriptors final : public Solicitor {
 public:
  // All of them outlive it.
  Descriptors(Turn& turn, PeerTable& peers, TouchedPeers& touched, Outbox& outbox,
              ControlRoutes& routes)
      : turn_(turn), peers_(peers), touched_(touched), outbox_(outbox), routes_(routes) {}

  // ---- taking and giving back
  // Whether all are taken, except those in reserve.
  [[nodiscard]] bool all_taken() const {
    return unmatched_ - reserves_used_ >= turn_.tunables.max_receive_messages;
  }
  [[nodiscard]] bool has_reserve(const Peer& peer) const { return !peer.starvation.reserve_used; }
  void take(Peer& peer, bool from_reserve);
  // A message is no longer unmatched: it was matched, or is gone.
  void give_back(Peer& peer, bool from_reserve);
  [[nodiscard]] std::uint32_t unmatched() const { return unmatched_; }

  // ---- starved peers
  [[nodiscard]] bool any_starved() const { return !starved_.empty(); }
  [[nodiscard]] bool is_starved(const Peer& peer) const { return starved_.contains(peer); }
  // The peer's message of that number was dropped.
  void turn_away(Peer& peer, std::uint64_t number);
  // A message of the peer has been processed: next_to_process is beyond it.
  void note_processed(Peer& peer) {
    peer.starvation.backoff = 0;
    if (peer.starvation.timer.is_armed() &&
        !before(peer.receives.next_to_process, peer.starvation.starved_to)) {
      forget(peer);
    }
  }
  // Solicits the message that has become the lowest one, if it was dropped.
  void solicit_lowest(Peer& peer);
  // A receive is posted for messages of that peer, and none is here.
  void note_waiting_receive(PeerId from);
  // The peer is no longer starved, whatever it lacks.
  void forget(Peer& peer);
  [[nodiscard]] Time due_at(const Peer& peer) const { return peer.starvation.timer.at(); }
  void expire(Peer& peer);
  [[nodiscard]] bool write_solicitation(Peer& peer, wire::PacketWriter& writer) override;

  // ---- the full store
  [[nodiscard]] Time judge_at() const { return judge_timer_.at(); }
  // Since when messages are turned away and nothing was matched; 0: not so.
  [[nodiscard]] Time full_since() const { return full_since_; }
  // A message without a receive has left the store.
  void note_store_moves() {
    full_since_ = Time{};
    judge_timer_.stop();
  }
  void judge_by(Time at) { judge_timer_.advance_to(at); }
  // Called when `judge_at` is over. True: the receives that wait are to be judged now.
  [[nodiscard]] bool begin_judgement();

 private:
  void solicit(Peer& peer);
  void ask(Peer& peer);
  void solicit_for_receive(Peer& peer);
  [[nodiscard]] Peer* next_starved();
  [[nodiscard]] Time patience_ends() const {
    return turn_.now() + milliseconds(turn_.tunables.peer_timeout_ms);
  }

  Turn& turn_;
  PeerTable& peers_;
  TouchedPeers& touched_;
  Outbox& outbox_;
  ControlRoutes& routes_;
  IndexList<Peer, &Peer::starved_link> starved_;  // the next one to ask first
  std::uint32_t unmatched_ = 0;                   // messages that no receive has matched
  std::uint32_t reserves_used_ = 0;               // of all peers
  std::uint32_t asked_ = 0;                       // messages, in turn `asked_turn_`
  std::uint32_t asked_turn_ = 0;
  Time full_since_{};
  Timer judge_timer_;
};

}  // namespace hawser::proto
