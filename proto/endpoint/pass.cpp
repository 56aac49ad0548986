// SPDX-License-Identifier: Apache-2.0
// One pass of the poll loop, and the timers. Each timer is armed in the file whose head comment
// names it. `rearm` folds those of a peer and its paths into one deadline; messages have heaps of
// their own. expire_timers fires what is due. Four timers of a peer fire elsewhere: `due.at` in
// Outbox::send_due, `close_at` in progress_closing, `rest_at` in consider_rest, and `stall_at` in
// watch_progress.
//
// The first half of a pass reaps, takes NIC events, and receives from every NIC (control before
// data). The second half expires timers, sends urgent acknowledgements, data, and the
// acknowledgements that could not ride on data. Then it re-arms. An acknowledgement therefore
// leaves only after every NIC has been polled.
//
// If nothing is in flight, a one-packet message queued since the last turn goes out before all of
// that. It also carries the acknowledgements that the last turn left. A program that answers a
// message therefore does not wait for NICs that have nothing to read.
//
// Drain before you declare: a turn that comes later than the requested wake-up has `late` set.
// Timers that expired meanwhile are postponed once (put_off), until the rings have been read. A
// host may also stop in the middle of a turn. Then the second half of that turn is late, and so is
// the next turn, which reads what arrived meanwhile.
#include <algorithm>
#include <array>
#include <utility>

#include "proto/base/prefetch.hpp"
#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser::proto {

namespace {
// A NIC that refused packets has room again soon, but raises no event for it.
constexpr Duration kBackpressureRetry = microseconds(50);
// A NIC raises no event either when it releases a send. Mostly another event of the send comes
// sooner.
constexpr Duration kReapRetry = milliseconds(2);

// Timers of each kind that a turn lets expire, as each costs up to a microsecond.
constexpr std::uint32_t kMostExpiries = 128;

// A ring may hold more than caps() promises: kernels charge packets that came together less.
void note_drained(LocalNic& local, bool seen_empty, std::uint32_t turn) {
  constexpr std::uint64_t kRings = 4;
  const std::uint64_t taken = local.taken_bytes - local.marked_bytes;
  if (!seen_empty && taken / kRings < local.nic->caps().receive_bytes) return;
  local.drained = seen_empty ? turn : local.marked;
  local.marked = turn + 1;  // packets still to come count for the next turn
  local.marked_bytes = local.taken_bytes;
}

// The index of the peer that a packet claims to be from. Later checks decide whether to believe it.
template <class Core>
std::uint32_t index_in(const Core& core, const RxPacket& packet) {
  if (packet.bytes < sizeof(wire::CommonHeader)) return kNoIndex;
  return wire::receiver_of(packet.data) ^ core.sessions.name_mask();
}

// Prefetches before packet `i` of a burst is worked on. It fetches the peers of packets ahead, and
// the paths of a packet less far ahead, whose peer is in the cache by now. Payload that lies in its
// sender's memory may be remote, so all of the next packet's payload is fetched while this one is
// copied.
template <class Core>
void look_ahead(Core& core, std::span<const RxPacket> burst, std::size_t i) {
  if (i + 1 < burst.size()) {
    const RxPacket& next = burst[i + 1];
    prefetch_to_read(next.payload, next.payload + next.payload_bytes);
  }
  constexpr std::size_t kPeersAhead = 6;
  constexpr std::size_t kPathsAhead = 3;
  for (std::size_t ahead = i == 0 ? 0 : kPeersAhead; ahead <= kPeersAhead; ++ahead) {
    if (i + ahead >= burst.size()) break;
    const std::uint32_t index = index_in(core, burst[i + ahead]);
    const bool is_here = i > 0 && index == index_in(core, burst[i - 1]);
    if (!is_here) core.peers.fetch(index);
  }
  if (i + kPathsAhead >= burst.size()) return;
  const std::uint32_t index = index_in(core, burst[i + kPathsAhead]);
  if (i > 0 && index == index_in(core, burst[i - 1])) return;
  const Peer* peer = core.peers.find_awake(index);
  if (peer != nullptr) core.paths.fetch(peer->paths);
}
}  // namespace

// A turn stays short, whatever thousands of peers wait for at one moment: the others expire in the
// next turn, which is due at once.
void Endpoint::Core::expire_timers() {
  sessions.expire(kMostExpiries);
  outgoing.expire(kMostExpiries);
  incoming.expire(kMostExpiries);
  if (descriptors.judge_at() <= turn.now()) incoming.judge_full_store();
  sessions.expire_news();
  if (verdicts.at() <= turn.now()) path_judge.judge();
}

// Applies the blocks of a packet from a ready peer in their order, except that statuses come first.
void Endpoint::Core::apply_blocks(Peer& peer, const wire::BlockRange& blocks) {
  if (blocks.empty()) return;
  struct Visitor {
    Core& core;
    Peer& peer;
    void operator()(const wire::AckInfoBlock& block) {
      core.paths.on_ack_info(peer, block);
      peer.silence.acked_in_turn = true;
    }
    void operator()(const wire::PathMarksBlock& block) { core.paths.on_path_marks(peer, block); }
    void operator()(wire::PathAckView view) { core.paths.on_path_ack(peer, view); }
    void operator()(wire::RequestView view) { core.outgoing.on_request(peer, view); }
    void operator()(const wire::GrantBlock& block) { core.outgoing.on_grant(peer, block); }
    void operator()(const wire::NicStateBlock& block) { core.paths.on_nic_state(peer, block); }
  };
  // Statuses first: a message that is over needs no further work.
  blocks.visit([&](const wire::StatusView& view) { outgoing.on_status(peer, view); });
  blocks.visit(Visitor{*this, peer});
}

namespace {
// Handles the contents of a packet from a ready peer, blocks excepted.
template <class Core>
void take(Core& core, Peer& peer, const wire::PacketView& packet) {
  switch (packet.type) {
    case wire::PacketType::data: return core.incoming.on_data(peer, packet);
    case wire::PacketType::packed: return core.incoming.on_packed(peer, packet);
    case wire::PacketType::granted: return core.incoming.on_granted(peer, packet);
    case wire::PacketType::probe: return;
    case wire::PacketType::envelope: return core.incoming.on_envelope(peer, packet);
    default: ++core.turn.counters.control_packets_received;
  }
}
}  // namespace

// False: drop the sequenced packet.
bool Endpoint::Core::arrives(Peer& peer, std::size_t nic, const wire::PacketView& packet,
                             bool congestion_experienced) {
  const auto [path, is_new, overtaken] =
      receive_paths.note(peer, nic, packet, congestion_experienced);
  if (path == nullptr) return false;
  if (!is_new) {
    outbox.acknowledge_again(peer, *path);
    return false;
  }
  incoming.count_arrival(packet.payload.size());
  allowance.count(peer.receives.active_epoch);
  outbox.acknowledge(peer, *path, *packet.header, overtaken);
  return true;
}

void Endpoint::Core::receive_packet(std::size_t nic, const RxPacket& datagram) {
  reporter.packet_came(nic);
  turn.packet_arrived(datagram.arrived);
  wire::PacketView packet;
  const auto bad = wire::parse({datagram.data, datagram.bytes}, datagram.queue,
                               nics[nic].nic->caps().needs_checksum, packet);
  if (bad) return reporter.drop(*bad);
  const bool apart = datagram.payload != nullptr;
  if (apart && !wire::attach({datagram.payload, datagram.payload_bytes}, packet)) {
    return reporter.drop(DropReason::bad_field);
  }
  ++nics[nic].packets_received;
  nics[nic].bytes_received += datagram.datagram_bytes();
  if (packet.session != nullptr) return sessions.on_session(nic, packet);

  const std::uint32_t receiver = packet.header->receiver ^ sessions.name_mask();
  if (!peers.is_known(receiver)) return reporter.drop(DropReason::unknown_receiver);
  Peer* const awake = peers.find_awake(receiver);
  const std::uint64_t token =
      awake != nullptr ? awake->session.token : peers.resting(receiver).token;
  if (token == 0 || packet.header->token != token) return reporter.drop(DropReason::wrong_token);
  // A resting peer is not calling anyone, so a CHALLENGE must not wake it: it would only repeat its
  // announcement.
  if (awake == nullptr && packet.challenge != nullptr)
    return reporter.drop(DropReason::stale_session);
  Peer& peer = awake != nullptr ? *awake : sessions.wake(receiver);
  reporter.packet_is_from(receiver);
  if (packet.challenge != nullptr) return sessions.on_challenge(nic, peer, packet);
  const std::uint8_t far = packet.header->slot >> 4;
  if (far >= peer.session.remote_nics) return reporter.drop(DropReason::not_connected);
  if (packet.closing != nullptr) return sessions.on_closing(peer, {nic, far}, packet);
  if (peer.session.state == SessionState::answered)
    sessions.become_ready(peer);  // it knows our token
  if (peer.session.state == SessionState::failed) {
    peer.session.route = {nic, far};
    sessions.send_reset(peer);
  }
  if (peer.session.state != SessionState::ready) return reporter.drop(DropReason::not_connected);

  sessions.hear_news(peer);
  peer.session.last_heard = turn.now();
  peer.session.timeout_put_off = false;
  peer.session.route = {nic, far};
  touched.add(peer);
  const bool sequenced = wire::rule_of(packet.type).sequenced;
  if (peer.session.close_sent && (sequenced || packet.fragment != nullptr)) {
    sessions.repeat_close(peer);
  } else {
    if (!peer.session.close_sent) incoming.on_floor(peer, packet.header->floor);
    if (!sequenced || arrives(peer, nic, packet, datagram.congestion_experienced)) {
      if ((packet.header->flags & wire::kFlagInsists) != 0) {
        outbox.raise_ways(peer, control_routes.ways_of_answer(peer));
      }
      take(*this, peer, packet);
    }
  }
  apply_blocks(peer, packet.blocks);
}

void Endpoint::Core::receive_all() {
  for (const Queue queue : {Queue::control, Queue::data}) {
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      const Nic::Outlook outlook = nics[nic].nic->outlook(queue);
      if (outlook != Nic::Outlook::ask) {
        const bool seen_empty = outlook == Nic::Outlook::empty && queue == Queue::data;
        if (seen_empty) note_drained(nics[nic], true, turn.number());
        continue;
      }
      // A late turn drains: one ring's worth, whatever the budget.
      std::uint64_t budget = turn.tunables.poll_budget_packets;
      if (turn.is_late()) {
        const NicLimits& limits = sender.limits();
        budget = std::max(budget, limits.receive_bytes / limits.fragment_bytes);
      }
      bool lent = false;
      for (std::size_t n = received.size(); n == received.size() && budget > 0;) {
        n = nics[nic].nic->rx_burst(queue, received);
        for (std::size_t i = 0; i < n; ++i) {
          look_ahead(*this, std::span(received).first(n), i);
          if (queue == Queue::data) nics[nic].taken_bytes += received[i].datagram_bytes();
          lent |= received[i].payload != nullptr;
          receive_packet(nic, received[i]);
        }
        budget -= std::min<std::uint64_t>(budget, n);
        if (n > 0) turn.progress();
        if (queue == Queue::data) note_drained(nics[nic], n < received.size(), turn.number());
      }
      // Give the views back now: nobody knows when the next turn comes.
      if (lent) (void)nics[nic].nic->rx_burst(queue, {});
    }
  }
}

void Endpoint::Core::begin_turn(Time at) {
  pace.late_by = turn.begin(at);
  if (std::exchange(called_to_send, false) && paths.in_flight() == 0 && !turn.is_late() &&
      !sessions.closed()) {
    transmit();
  }
  turn.look_into_rings();

  sender.flush();  // packets sent by calls between turns
  outgoing.reap(nics);
  sessions.take_nic_events();
  if (sessions.closed()) return;  // only buffers that NICs hold are left
  receive_all();
  paths.judge_acks();
}

TurnResult Endpoint::Core::finish_turn(Time at) {
  pace.start(turn.begin_second_half(at));
  const Time reap_at = outgoing.unreleased() > 0 ? turn.now() + kReapRetry : kNever;
  if (sessions.closed()) return {.progressed = turn.has_progressed(), .wake_at = reap_at};
  expire_timers();
  incoming.give_grants();
  if (allowance.pass(turn.now())) incoming.watch_rings();
  outbox.send_due(true);  // senders measure by these, so they must not queue behind data
  transmit();
  outbox.send_due(false);
  sessions.progress_closing();
  while (!touched.empty()) {
    Peer& peer = peers.at(touched.pop_front(peers));
    sessions.watch_liveness(peer);
    if (sessions.consider_rest(peer)) continue;
    if (const auto since = paths.tend(peer)) receive_paths.forget_idle(peer.paths, *since);
    sessions.rearm(peer);
  }
  sender.flush();
  TurnResult result;
  result.progressed = turn.has_progressed();
  result.warns = turn.warns();
  result.wake_at =
      earlier(sessions.next_timer(), earlier(outgoing.next_timer(), incoming.next_timer()));
  result.wake_at = earlier(result.wake_at, descriptors.judge_at());
  result.wake_at = earlier(result.wake_at, earlier(verdicts.at(), reap_at));
  if (!senders.empty()) result.wake_at = earlier(result.wake_at, pace.data_at);
  const Time retry = turn.now() + kBackpressureRetry;
  if (turn.was_refused() || (!senders.empty() && !turn.has_progressed())) {
    result.wake_at = earlier(result.wake_at, retry);
  }
  // Work that is due and was refused waits for the retry too.
  if (turn.was_refused() && !turn.has_progressed()) result.wake_at = later(result.wake_at, retry);
  turn.end(result.wake_at);
  return result;
}

}  // namespace hawser::proto
