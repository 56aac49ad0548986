// SPDX-License-Identifier: Apache-2.0
// Receiving: where a packet goes by its type. All NICs' control comes before their data. `parse`
// makes the checks that need no state. The token and the session's state are checked before the
// peer's state is used. The path number decides only whether the message in the packet counts:
// liveness, route, floor and blocks apply to repeats too.
#include "proto/endpoint/receiver.hpp"

#include <algorithm>

#include "proto/base/prefetch.hpp"
#include "proto/base/turn.hpp"
#include "proto/message/allowance.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path_set.hpp"
#include "proto/path/receive_paths.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {

// A ring may hold more than caps() promises: kernels charge packets that came together less.
void note_drained(LocalNic& local, bool seen_empty, std::uint32_t turn) {
  constexpr std::uint64_t kRings = 4;
  const std::uint64_t taken = local.taken_bytes - local.marked_bytes;
  if (!seen_empty && taken / kRings < local.nic->caps().receive_bytes) return;
  local.drained = seen_empty ? turn : local.marked;
  local.marked = turn + 1;  // packets still to come count for the next turn
  local.marked_bytes = local.taken_bytes;
}

// The index of the peer that a packet claims to be from, masked. Later checks decide whether to
// believe it. wire::kNoReceiver: there is none.
std::uint32_t receiver_in(const RxPacket& packet) {
  return packet.bytes < sizeof(wire::CommonHeader) ? wire::kNoReceiver
                                                   : wire::receiver_of(packet.data);
}

}  // namespace

Receiver::Receiver(const Parts& parts)
    : turn_(parts.turn),
      peers_(parts.peers),
      sender_(parts.sender),
      nics_(parts.sender.nics()),
      reporter_(parts.reporter),
      touched_(parts.touched),
      outbox_(parts.outbox),
      routes_(parts.routes),
      allowance_(parts.allowance),
      paths_(parts.paths),
      receive_paths_(parts.receive_paths),
      outgoing_(parts.outgoing),
      incoming_(parts.incoming),
      sessions_(parts.sessions) {}

// Applies the blocks of a packet from a ready peer in their order, except that statuses come first.
void Receiver::apply_blocks(Peer& peer, const wire::BlockRange& blocks) {
  if (blocks.empty()) return;
  struct Visitor {
    PathSet& paths;
    Outgoing& outgoing;
    Peer& peer;
    void operator()(const wire::AckInfoBlock& block) {
      paths.on_ack_info(peer, block);
      peer.silence.acked_in_turn = true;
    }
    void operator()(const wire::PathMarksBlock& block) { paths.on_path_marks(peer, block); }
    void operator()(wire::PathAckView view) { paths.on_path_ack(peer, view); }
    void operator()(wire::RequestView view) { outgoing.on_request(peer, view); }
    void operator()(const wire::GrantBlock& block) { outgoing.on_grant(peer, block); }
    void operator()(const wire::NicStateBlock& block) { paths.on_nic_state(peer, block); }
  };
  // Statuses first: a message that is over needs no further work.
  blocks.visit([&](const wire::StatusView& view) { outgoing_.on_status(peer, view); });
  blocks.visit(Visitor{paths_, outgoing_, peer});
}

// Handles the contents of a packet from a ready peer, blocks excepted.
inline void Receiver::dispatch(Peer& peer, const wire::PacketView& packet) {
  switch (packet.type) {
    case wire::PacketType::data: return incoming_.on_data(peer, packet);
    case wire::PacketType::packed: return incoming_.on_packed(peer, packet);
    case wire::PacketType::granted: return incoming_.on_granted(peer, packet);
    case wire::PacketType::probe: return;
    case wire::PacketType::envelope: return incoming_.on_envelope(peer, packet);
    case wire::PacketType::write: return incoming_.on_write(peer, packet);
    case wire::PacketType::read: return incoming_.on_read(peer, packet);
    case wire::PacketType::atomic: return incoming_.on_atomic(peer, packet);
    default: ++turn_.counters.control_packets_received;
  }
}

// False: drop the sequenced packet.
inline bool Receiver::note_arrival(Peer& peer, std::size_t nic, const wire::PacketView& packet,
                                   bool congestion_experienced) {
  const auto [path, is_new, overtaken] =
      receive_paths_.note(peer, nic, packet, congestion_experienced);
  if (path == nullptr) return false;
  if (!is_new) {
    outbox_.acknowledge_again(peer, *path);
    return false;
  }
  incoming_.count_arrival(packet.payload.size());
  allowance_.count(peer.receives.active_epoch);
  outbox_.acknowledge(peer, *path, *packet.header, overtaken);
  return true;
}

void Receiver::receive_packet(std::size_t nic, const RxPacket& datagram) {
  reporter_.packet_came(nic);
  turn_.packet_arrived(datagram.arrived);
  wire::PacketView packet;
  const auto bad = wire::parse({datagram.data, datagram.bytes}, datagram.queue,
                               nics_[nic].nic->caps().needs_checksum, packet);
  if (bad) return reporter_.drop(*bad);
  const bool apart = datagram.payload != nullptr;
  if (apart && !wire::attach({datagram.payload, datagram.payload_bytes}, packet)) {
    return reporter_.drop(DropReason::bad_field);
  }
  ++nics_[nic].packets_received;
  nics_[nic].bytes_received += datagram.datagram_bytes();
  if (packet.session != nullptr) return sessions_.on_session(nic, packet);

  const std::uint32_t index = packet.header->receiver ^ sessions_.name_mask();
  if (!peers_.is_known(index)) return reporter_.drop(DropReason::unknown_receiver);
  Peer* const awake = peers_.find_awake(index);
  const std::uint64_t token = awake != nullptr ? awake->session.token : peers_.resting(index).token;
  if (token == 0 || packet.header->token != token) return reporter_.drop(DropReason::wrong_token);
  // A resting peer is not calling anyone, so a CHALLENGE must not wake it: it would only repeat its
  // announcement.
  if (awake == nullptr && packet.challenge != nullptr)
    return reporter_.drop(DropReason::stale_session);
  Peer& peer = awake != nullptr ? *awake : sessions_.wake(index);
  reporter_.packet_is_from(index);
  if (packet.challenge != nullptr) return sessions_.on_challenge(nic, peer, packet);
  const std::uint8_t far = packet.header->nic();
  if (far >= peer.session.remote_nics) return reporter_.drop(DropReason::not_connected);
  if (packet.closing != nullptr) return sessions_.on_closing(peer, {nic, far}, packet);
  if (peer.session.state == SessionState::answered)
    sessions_.become_ready(peer);  // it knows our token
  if (peer.session.state == SessionState::failed) {
    peer.session.route = {nic, far};
    sessions_.send_reset(peer);
  }
  if (peer.session.state != SessionState::ready) return reporter_.drop(DropReason::not_connected);

  sessions_.hear_news(peer);
  peer.session.last_heard = turn_.now();
  peer.session.timeout_put_off = false;
  peer.session.route = {nic, far};
  touched_.add(peer);
  const bool sequenced = wire::rule_of(packet.type).sequenced;
  if (peer.session.close_sent && (sequenced || packet.fragment != nullptr)) {
    sessions_.repeat_close(peer);
  } else {
    if (!peer.session.close_sent) incoming_.on_floor(peer, packet.header->floor);
    if (!sequenced || note_arrival(peer, nic, packet, datagram.congestion_experienced)) {
      if ((packet.header->flags & wire::kFlagInsists) != 0) {
        outbox_.answer_over(peer, routes_.ways_of_answer(peer, sequenced));
      }
      dispatch(peer, packet);
    }
  }
  apply_blocks(peer, packet.blocks);
}

// Prefetches before packet `i` of a burst is worked on. It fetches the peers of packets ahead, and
// the paths of a packet less far ahead, whose peer is in the cache by now. Payload that lies in its
// sender's memory may be remote, so all of the next packet's payload is fetched while this one is
// copied.
inline void Receiver::look_ahead(std::span<const RxPacket> burst, std::size_t i) const {
  constexpr std::size_t kPeersAhead = 6;
  constexpr std::size_t kPathsAhead = 3;
  if (i + 1 >= burst.size()) return;
  const RxPacket& next = burst[i + 1];
  prefetch_to_read(next.payload, next.payload + next.payload_bytes);
  if (i == 0) {
    for (const RxPacket& packet : burst.first(std::min(kPeersAhead, burst.size())))
      peers_.fetch(receiver_in(packet) ^ sessions_.name_mask());
  }
  const std::uint32_t here = i > 0 ? receiver_in(burst[i - 1]) : wire::kNoReceiver;
  if (i + kPeersAhead < burst.size()) {
    const std::uint32_t receiver = receiver_in(burst[i + kPeersAhead]);
    if (receiver != here) peers_.fetch(receiver ^ sessions_.name_mask());
  }
  if (i + kPathsAhead < burst.size()) {
    const std::uint32_t receiver = receiver_in(burst[i + kPathsAhead]);
    if (receiver == here) return;
    const Peer* peer = peers_.find_awake(receiver ^ sessions_.name_mask());
    if (peer != nullptr) paths_.fetch(peer->paths);
  }
}

void Receiver::receive_all() {
  for (const Queue queue : {Queue::control, Queue::data}) {
    for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
      const Nic::Outlook outlook = nics_[nic].nic->outlook(queue);
      if (outlook != Nic::Outlook::ask) {
        const bool seen_empty = outlook == Nic::Outlook::empty && queue == Queue::data;
        if (seen_empty) note_drained(nics_[nic], true, turn_.number());
        continue;
      }
      // A late turn drains: as many packets as a ring holds full ones, whatever the budget.
      std::uint64_t budget = turn_.tunables.poll_budget_packets;
      if (turn_.is_late()) {
        const NicLimits& limits = sender_.limits();
        budget = std::max(budget, limits.receive_bytes / limits.fragment_bytes);
      }
      bool lent = false;
      for (std::size_t n = received_.size(); n == received_.size() && budget > 0;) {
        n = nics_[nic].nic->rx_burst(queue, received_);
        for (std::size_t i = 0; i < n; ++i) {
          look_ahead(std::span(received_).first(n), i);
          if (queue == Queue::data) nics_[nic].taken_bytes += received_[i].datagram_bytes();
          lent |= received_[i].payload != nullptr;
          receive_packet(nic, received_[i]);
        }
        budget -= std::min<std::uint64_t>(budget, n);
        if (n > 0) turn_.progress();
        if (queue == Queue::data) note_drained(nics_[nic], n < received_.size(), turn_.number());
      }
      // Give the views back now: nobody knows when the next turn comes.
      if (lent) (void)nics_[nic].nic->rx_burst(queue, {});
    }
  }
}

}  // namespace hawser::proto
