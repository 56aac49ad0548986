// SPDX-License-Identifier: Apache-2.0
// This file declares packets lost. Every loss goes through lose_packet, which find_gaps and
// evacuate call. Each loss has one of three reasons (docs/internals/protocol.md §9 and §10):
//
//   gap         A later packet of the same path arrived, and this one is reorder_packets numbers
//               behind it, or too old. With several lanes: it departed too long before one that
//               arrived.
//   request     Nothing overtook it, but the receiver requests it, and it is older than an answer
//               takes.
//   evacuation  The path failed, left a probe unanswered, answers again, is released, or ran out of
//               numbers.
//
// On a path with several lanes overtaking alone means nothing. There the time between departures
// decides, and age. Order within a lane would mean something, but a lane has only one or two
// packets in flight in a round trip. The policy, loss_rule.hpp, gives the verdict on each packet.
// How far packets of a NIC overtake each other is in reordering.hpp, and what the receiver requests
// in message/expect.cpp.
//
// A path fails here in three ways. Silence: none of its packets arrived, though later ones on other
// paths did, and none lay in a ring of the peer. Requests: round after round, the receiver misses
// packets that nothing has overtaken. Size: only small packets pass. Four more ways are elsewhere.
// A NIC here or the peer reports a failure (session/nic_news.cpp, life_cycle.cpp). A NIC has moved
// (session/nic_news.cpp, session/addresses.cpp). A path leaves probe timeouts (probe_timeouts.cpp)
// or probes (life_cycle.cpp) unanswered. Its driver finds no way (life_cycle.cpp).
//
// Layers 1 and 2 are judged after each turn that brought acknowledgements or requests. Timer of a
// path: `gap_at`, armed while a packet that was overtaken or requested still has time. Layer 3, the
// probe timeout, makes the peer answer (probe_timeouts.cpp). It declares packets lost only if the
// path has no number left for a probe.
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/path/gap_rule.hpp"
#include "proto/path/loss_rule.hpp"
#include "proto/path/path_set.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint8_t kMostLargeLost = 15;  // of large packets lost in a row
constexpr std::uint8_t kPatientRounds = 3;   // rounds without an ack before other paths are tried
// The limits of large packets lost in a row, and of their rounds, while small ones arrive.
constexpr std::uint32_t kLargeLost = 8;
constexpr std::uint32_t kLargeRounds = 3;
constexpr std::uint64_t kSeveral = 4;  // packets that are silent together

bool loses_what_is_large(const Path& path) {
  return path.counts.large_lost >= kLargeLost && path.counts.large_rounds >= kLargeRounds;
}

}  // namespace

// Takes a packet out of flight.
void PathSet::settle(Path& path, SentPacket& record, SentPacket::State state, bool overtaken) {
  HAWSER_ASSERT(record.state == SentPacket::State::in_flight);
  record.state = state;
  HAWSER_ASSERT(path.packets_in_flight > 0 && path.bytes_in_flight >= record.wire_bytes);
  --in_flight_;
  --path.packets_in_flight;
  written_off_ -= path.written_off;
  // A share left behind by settled packets would raise the limit for ever.
  HAWSER_ASSERT(written_off_ <= in_flight_);
  path.bytes_in_flight -= record.wire_bytes;
  const bool arrived = state == SentPacket::State::acknowledged;
  path.lanes.ended(record.lane, arrived, overtaken);
  if (arrived && record.marked) path.lanes.mark(record.lane);
}

void PathSet::lose_packet(Peer& peer, Path& path, std::uint64_t number, SentPacket& packet,
                          TraceLoss layer) {
  if (turn_.tracing()) {
    TraceRecord record = reporter_.traced(TraceKind::packet_lost, peer, path, number, packet);
    record.cause = static_cast<std::uint8_t>(layer);
    turn_.trace(record);
  }
  settle(path, packet, SentPacket::State::lost, false);
  packet.departed = turn_.now();
  packet.lost_by_order = false;
  if (packet.message == kNoIndex) return;  // a probe
  switch (layer) {
    case TraceLoss::gap: ++turn_.counters.lost_by_gap; break;
    case TraceLoss::request: ++turn_.counters.lost_by_request; break;
    case TraceLoss::evacuation: ++turn_.counters.lost_by_evacuation; break;
  }
  ++turn_.counters.packets_lost;
  ++path.traffic.packets_lost;
  ++nics_[path.local_nic].packets_lost;
  if (is_large(peer, packet)) {
    if (path.counts.large_lost < kMostLargeLost) ++path.counts.large_lost;
    // Between two rounds a small packet has arrived; otherwise the path is silent.
    if (path.counts.large_rounds == 0 ||
        (path.large_lost_at < packet.sent && path.large_lost_at < path.heard_at)) {
      if (path.counts.large_rounds < kMostLargeLost) ++path.counts.large_rounds;
      path.large_lost_at = turn_.now();
    }
  }
  packets_.packet_lost(peer, packet);
}

bool PathSet::is_large(const Peer& peer, const SentPacket& packet) const {
  return packet.wire_bytes * 2 > wire_bytes_of_full_packet(peer);
}

// Called once this turn has received everything: an acknowledgement further back in the ring may
// name packets that the first one seems to have passed.
void PathSet::judge_acks() {
  touched_.for_each(peers_, [&](std::uint32_t index) {
    Peer& peer = peers_.at(index);
    if (!peer.silence.acked_in_turn || peer.session.state != SessionState::ready) return;
    peer.silence.acked_in_turn = false;
    // One sample per turn: after one absence several paths would report the same.
    if (peer.silence.fastest != kNoSample) peer.response.sample(peer.silence.fastest);
    peer.silence.fastest = kNoSample;
    for_each(peer.paths, [&](Path& path) {
      if (!path.acked_in_turn) return;
      path.acked_in_turn = false;
      find_gaps(peer, path);
    });
    find_silence(peer);
    senders_.want(peer);
  });
}

// Whether only small packets pass: a smaller MTU on the way, a bad optic. Small packets arrive
// then, and so do the probes of a silent path. Full-size probes must find out when the path is good
// again. The only path that is left stays in use.
bool PathSet::passes_small_only(Peer& peer, const Path& path) {
  if (!loses_what_is_large(path)) return false;
  if (next_usable_path(peer, path) != nullptr) return true;
  // The peer is heard, yet no full fragment will ever reach it.
  if (peer.session.small_only_since == Time{}) peer.session.small_only_since = turn_.now();
  return false;
}

// Layer 1, and the part of layer 2 that waits for its time: packets that nothing has overtaken, but
// that the receiver misses.
void PathSet::find_gaps(Peer& peer, Path& path) {
  path.gap_at = kNever;
  if (!path.any_acked && !path.any_requested) return;
  path.advance_oldest(records_);
  const LocalNic& nic = nics_[path.local_nic];
  const OrderAndTime rule({.response = path.response,
                           .reordering = nic.reordering,
                           .now = turn_.now(),
                           .newest = path.newest_departed(records_),
                           .granularity = turn_.granularity,
                           .reorder_packets = turn_.tunables.reorder_packets,
                           .several_lanes = nic.lanes > 1,
                           .keeps_order = nic.lanes == 1 && !path.reordering_proven});
  const std::uint64_t end = path.any_requested ? path.sent.next() : path.largest_acked;
  std::uint64_t lost = 0;
  bool any = false;
  Time doubted{};  // departure of the newest fragment that too few overtook
  Time unheard{};  // departure of the newest lost packet that none overtook
  path.any_requested = false;
  for (std::uint64_t n = path.oldest; before(n, end); ++n) {
    SentPacket& record = path.sent.at(records_, n);
    if (record.state != SentPacket::State::in_flight) continue;
    const bool overtaken = path.any_acked && before(n, path.largest_acked);
    if (!overtaken && !record.requested) continue;
    const LossVerdict verdict = rule.judge({.sent = record.sent,
                                            .departed = record.departed,
                                            .behind = overtaken ? path.largest_acked - n : 0,
                                            .requested = record.requested});
    if (verdict.lost) {
      lose_packet(peer, path, n, record, overtaken ? TraceLoss::gap : TraceLoss::request);
      record.lost_by_order = verdict.by_order;
      lost += overtaken ? 1 : 0;
      if (!overtaken) unheard = later(unheard, record.sent);
      any = true;
    } else {
      path.gap_at = earlier(path.gap_at, verdict.ask_again);
      if (overtaken && nic.lanes > 1 && path.state == PathState::up && record.message != kNoIndex)
        doubted = later(doubted, record.departed);
      path.any_requested |= record.requested;
    }
  }
  if (senders_.contains(peer)) doubted = Time{};  // data follows, and shows the same
  const Duration window = nic.reordering.window(path.response, turn_.granularity);
  if (doubted != Time{} && path.last_departed <= doubted + window) {
    if (doubted + window < turn_.now()) {
      if (send_probe(peer, path, false)) arm_pto(path);
    } else {
      path.gap_at = earlier(path.gap_at, doubted + window + Duration{1});
    }
  }
  if (!any) return;
  path.lost_lately = true;
  path.window.on_lost(lost);
  path.advance_oldest(records_);
  if (unheard > path.unheard_at) note_unheard(peer, path);
  if (path.state == PathState::up && path.counts.unheard == 0 && passes_small_only(peer, path)) {
    path_down(peer, path, Reason::only_small);
  }
}

// The receiver requested packets of this path that nothing on it has overtaken. Perhaps nothing is
// left in flight for the silence rule to see. Round after round, that is silence too.
void PathSet::note_unheard(Peer& peer, Path& path) {
  if (path.state != PathState::up || peer.silence.behind > 0 ||
      turn_.tunables.recovery_evacuate == 0)
    return;
  path.unheard_at = turn_.now();  // packets sent from here on make the next round
  if (path.counts.unheard < kPatientRounds) ++path.counts.unheard;
  if (path.counts.unheard < kPatientRounds) return;
  if (next_usable_path(peer, path) == nullptr)
    return bridge(peer, path.local_nic, path.remote_nic, true);
  ++turn_.counters.evacuations;
  suspect(peer, path, Reason::requests);
}

void PathSet::evacuate(Peer& peer, Path& path) {
  for (std::uint64_t n = path.oldest; n != path.sent.next(); ++n) {
    SentPacket& record = path.sent.at(records_, n);
    if (record.state == SentPacket::State::in_flight) {
      lose_packet(peer, path, n, record, TraceLoss::evacuation);
    }
  }
  path.advance_oldest(records_);
  path.lost_lately = true;
  path.gap_at = kNever;
  path.pto_timer.stop();
}

// Declares the oldest packets in flight lost: all whose records share a block, because the numbers
// of a block become free together.
void PathSet::lose_oldest(Peer& peer, Path& path) {
  path.advance_oldest(records_);
  std::uint64_t n = path.oldest;
  do {
    SentPacket& record = path.sent.at(records_, n);
    if (record.state == SentPacket::State::in_flight) {
      lose_packet(peer, path, n, record, TraceLoss::evacuation);
    }
    ++n;
  } while (n != path.sent.next() && n % SentBlockPool::kRecords != 0);
  path.advance_oldest(records_);
}

// When several packets in flight on different lanes are overdue, judged by the path's own answer
// times. This counts once the path has delivered a window since it was bound: before that its own
// sender may be the one that fills it. A single packet says little, as its lane may be busy or lose
// it.
Time PathSet::several_due(Path& path) {
  const LocalNic& nic = nics_[path.local_nic];
  if (nic.lanes < kSeveral || path.traffic.delivered_bytes < path.window.bytes()) return kNever;
  std::uint64_t silent = 0;
  for (std::uint64_t n = path.oldest; n != path.sent.next(); ++n) {
    const SentPacket& record = path.sent.at(records_, n);
    if (record.state != SentPacket::State::in_flight || ++silent < kSeveral) continue;
    return record.departed + nic.reordering.several_overdue(path.response);
  }
  return kNever;
}

// The silence rule. A later turn of the peer must confirm what one turn shows. If nothing in flight
// would bring that acknowledgement, a probe on a working path does.
void PathSet::find_silence(Peer& peer) {
  if (turn_.tunables.recovery_evacuate == 0) return;  // nobody would use the answer
  // When the oldest packet of a path is due. Packets that the receiver requested are in flight
  // elsewhere now. But they were the oldest here, and due when they were lost, and nothing of the
  // path has come since. Therefore they count, once the packets in flight are late as well.
  // Otherwise a dead path that always has younger packets to lose would be found only after three
  // rounds of requests.
  const auto due_at = [&](Path& path) {
    const Time sent = path.sent.at(records_, path.oldest).departed;
    const Time due = earlier(sent + pto_base(path), several_due(path));
    if (path.counts.unheard == 0) return due;
    return earlier(due, later(path.unheard_at, sent + gap_patience(path.response)));
  };
  Path* doubted = nullptr;
  for_each(peer.paths, [&](Path& path) {
    if (path.state != PathState::up || path.packets_in_flight == 0) return;
    path.advance_oldest(records_);
    if (path.any_acked && before(path.oldest, path.largest_acked)) return;  // a gap, not silence
    const Time due = due_at(path);
    if (due < peer.silence.settled_sent) {
      ++turn_.counters.evacuations;
      suspect(peer, path, Reason::silence);
    } else if (due < peer.silence.newest_acked_sent) {
      doubted = &path;
    }
  });
  if (doubted != nullptr) ask_elsewhere(peer, *doubted);
}

}  // namespace hawser::proto
