// SPDX-License-Identifier: Apache-2.0
// The control that is due to peers, and how it is sent: path acks, statuses, grants, requests and
// NIC states. It goes in control packets at the end of a turn that has polled every NIC, or in
// front of a small payload.
//
// Timer of a peer: `due_at`, armed at the first unacknowledged packet or status, max_ack_delay
// later. Control that is due *now* leaves with this turn.
//
// Invariant: a peer with anything due is scheduled, unless its session has ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/base/list.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/message/allowance.hpp"
#include "proto/message/incoming_message.hpp"
#include "proto/path/path.hpp"
#include "proto/path/receive_paths.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

// Requests messages of which this end knows only that they were sent.
class Solicitor {
 public:
  // Writes requests into a control packet. False: no room for the rest.
  [[nodiscard]] virtual bool write_solicitation(Peer& peer, wire::PacketWriter& writer) = 0;

 protected:
  ~Solicitor() = default;
};

class Outbox {
 public:
  // It reports of some and works with the others. All of them outlive it.
  struct Parts {
    Turn& turn;
    PeerTable& peers;
    TouchedPeers& touched;
    PacketSender& sender;
    ControlRoutes& routes;
    ReceivePaths& receive_paths;
    Slab<IncomingMessage>& incoming;
    const Allowance& allowance;
    Solicitor& solicitor;
  };
  // `statuses`: how many may be pending at once.
  Outbox(const Parts& parts, std::uint32_t statuses) : parts_(parts), statuses_(statuses) {}

  // ---- acknowledgements
  // A sequenced packet has arrived on the path for the first time. `overtaken`: another one is
  // missing before it, or was overtaken by it.
  void acknowledge(Peer& peer, ReceivePath& path, const wire::CommonHeader& header, bool overtaken);
  // A sequenced packet came again: its acknowledgement may be lost.
  void acknowledge_again(Peer& peer, ReceivePath& path) {
    path.ack_due = true;
    schedule_now(peer);
  }

  // ---- what else becomes due
  // The newest status of a message is the one that counts.
  void add_status(Peer& peer, std::uint64_t number, wire::MessageStatus status);
  void add_grant(Peer& peer, IncomingMessage& message) {
    message.due.grant = true;
    add(peer, message);
  }
  void add_request(Peer& peer, IncomingMessage& message) {
    message.due.request = true;
    add(peer, message);
  }
  void add_solicitation(Peer& peer) {
    peer.due.solicitation = true;
    schedule_now(peer);
  }
  // The caller schedules it.
  void add_nic_state(Peer& peer, std::size_t nic) {
    peer.due.nic_states = static_cast<std::uint16_t>(peer.due.nic_states | 1u << nic);
  }
  // The next packet goes over at least as many pairs of NICs.
  void raise_ways(Peer& peer, Ways least) { peer.due.ways = std::max(peer.due.ways, least); }
  // The next packet answers a question that the peer asked in vain. The answers to its other
  // questions may be lost as well, so the packet has the final statuses again.
  void answer_over(Peer& peer, Ways least) {
    raise_ways(peer, least);
    peer.due.finals = true;
  }

  // ---- when it leaves
  // When it is due, or with what leaves before.
  void schedule(Peer& peer) {
    if (!scheduled_.contains(peer) || !parts_.touched.contains(peer)) enter(peer);
  }
  // With the next turn: a caller's answer to what just completed can carry it.
  void schedule_soon(Peer& peer) {
    arm_soon(peer);
    schedule(peer);
  }
  // With this turn.
  void schedule_now(Peer& peer) {
    peer.due.now = true;
    schedule(peer);
  }

  // ---- what is no longer due
  // No grant, and no request, of a message.
  void withdraw(Peer& peer, IncomingMessage& message);
  void withdraw_messages(Peer& peer);
  void withdraw_solicitation(Peer& peer) { peer.due.solicitation = false; }
  void begin_session(Peer& peer) { peer.due.ways = Ways::one; }
  void end_session(Peer& peer);

  // ---- questions
  [[nodiscard]] bool has_due(const Peer& peer) const;
  [[nodiscard]] bool solicits(const Peer& peer) const { return peer.due.solicitation; }
  [[nodiscard]] bool is_scheduled(const Peer& peer) const { return scheduled_.contains(peer); }
  [[nodiscard]] bool owes_nic_state(const Peer& peer) const { return peer.due.nic_states != 0; }
  // kNever: nothing is due, or only with this turn.
  [[nodiscard]] Time due_at(const Peer& peer) const { return peer.due.at; }

  // ---- sending
  // Sends control packets to all peers that are due, or only to those that are due with this turn.
  // The others stay scheduled; their timer is armed. The next turn, which is due at once, sends
  // those beyond the budget.
  void send_due(bool urgent_only);
  // Puts due control in front of a small payload. False: there was none.
  [[nodiscard]] bool piggyback(Peer& peer, wire::PacketWriter& writer);
  // No NIC took a packet that carried control: it is due again.
  void take_back(Peer& peer);

 private:
  void add(Peer& peer, IncomingMessage& message) {
    const std::uint32_t index = parts_.incoming.index_of(message);
    if (!peer.due.messages.contains(message)) {
      peer.due.messages.push_back(parts_.incoming, index);
    }
    schedule_now(peer);
  }
  void enter(Peer& peer);
  void arm(Peer& peer) {
    if (peer.due.at != kNever) return;
    peer.due.at = parts_.turn.now() + microseconds(parts_.turn.tunables.max_ack_delay_us);
  }
  void arm_soon(Peer& peer) {
    peer.due.at = earlier(peer.due.at, parts_.turn.now());
    peer.due.not_in_turn = parts_.turn.number();
  }
  void unschedule(Peer& peer) { scheduled_.remove(parts_.peers, peer.index); }
  [[nodiscard]] bool send_due(Peer& peer, bool urgent_only);
  [[nodiscard]] bool has_way(Peer& peer);
  [[nodiscard]] bool send_control(Peer& peer);
  [[nodiscard]] std::uint16_t turns_behind() const;
  [[nodiscard]] bool write_acks(Peer& peer, wire::PacketWriter& writer, bool request_follows);
  void write_statuses(Peer& peer, wire::PacketWriter& writer);
  void write_finals(Peer& peer, wire::PacketWriter& writer);
  void write_nic_states(Peer& peer, wire::PacketWriter& writer);
  [[nodiscard]] bool write_messages(Peer& peer, wire::PacketWriter& writer);
  [[nodiscard]] bool write_grant(IncomingMessage& message, wire::PacketWriter& writer);
  [[nodiscard]] bool write_request(Peer& peer, IncomingMessage& message,
                                   wire::PacketWriter& writer);

  const Parts parts_;
  Slab<PendingStatus> statuses_;
  IndexList<Peer, &Peer::ack_link> scheduled_;
};

}  // namespace hawser::proto
