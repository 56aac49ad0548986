// SPDX-License-Identifier: Apache-2.0
// Which packets of a path are lost: layer 1 of loss detection (docs/internals/protocol.md §9).
//
// If a path's packets go over several lanes, overtaking alone means nothing: the time between
// departures decides, and age. Order within a lane would mean something, but a lane has only one
// or two packets in flight in a round trip.
//
// Timer of a path: `gap_at`, armed while a packet that was overtaken still has time.
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"
#include "proto/path/gap_rule.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint8_t kPatientRounds = 3;  // rounds without an ack before other paths are tried
// The limits of large packets lost in a row, and of their rounds, while small ones arrive.
constexpr std::uint32_t kLargeLost = 8;
constexpr std::uint32_t kLargeRounds = 3;

bool loses_what_is_large(const Path& path) {
  return path.large_lost >= kLargeLost && path.large_rounds >= kLargeRounds;
}

}  // namespace

// Whether only small packets pass: a smaller MTU on the way, a bad optic. Small packets arrive
// then, and so do the probes of a silent path. Full-size probes must find out when the path is good
// again. The only path that is left stays in use.
bool Endpoint::Core::passes_small_only(Peer& peer, const Path& path) {
  if (!loses_what_is_large(path)) return false;
  if (next_usable_path(peer, path) != nullptr) return true;
  // The peer is heard, yet no full fragment will ever reach it.
  if (peer.small_only_since == Time{}) peer.small_only_since = turn.now();
  return false;
}

// Layer 1, and the part of layer 2 that waits for its time: packets that nothing has overtaken, but
// that the receiver misses.
void Endpoint::Core::find_gaps(Peer& peer, Path& path) {
  path.gap_at = kNever;
  if (!path.any_acked && !path.any_requested) return;
  path.advance_oldest(sent_blocks);
  const Duration patience = gap_patience(path.response);
  const Duration unordered = unordered_patience(path.response, turn.granularity);
  const LocalNic& nic = nics[path.local_nic];
  const Duration window = nic.reordering.window(path.response, turn.granularity);
  const bool ordered = nic.lanes == 1 && !path.reordering_proven;
  const Time newest = path.newest_departed(sent_blocks);
  const std::uint64_t end = path.any_requested ? path.sent.next() : path.largest_acked;
  std::uint64_t lost = 0;
  bool any = false;
  Time doubted{};  // departure of the newest fragment that too few overtook
  Time unheard{};  // departure of the newest lost packet that none overtook
  path.any_requested = false;
  for (std::uint64_t n = path.oldest; before(n, end); ++n) {
    SentPacket& record = path.sent.at(sent_blocks, n);
    if (record.state != SentPacket::State::in_flight) continue;
    const bool overtaken = path.any_acked && before(n, path.largest_acked);
    if (!overtaken && !record.requested) continue;
    const std::uint64_t needed = record.requested ? 1 : turn.tunables.reorder_packets;
    const bool by_order = overtaken && ordered;
    const GapVerdict verdict =
        by_order ? judge_gap(path.largest_acked - n, needed, record.sent, turn.now(), patience)
        : overtaken && nic.lanes > 1 && record.requested
            ? judge_age(record.departed, turn.now(), nic.reordering.asked(path.response))
        : overtaken && nic.lanes > 1
            ? judge_departure(record.departed, newest, turn.now(), window, unordered)
            : judge_age(record.sent, turn.now(), unordered);
    if (verdict.lost) {
      lose_packet(peer, path, n, record, overtaken ? TraceLoss::gap : TraceLoss::request);
      record.lost_by_order = by_order;
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
  if (senders.contains(peer)) doubted = Time{};  // data follows, and shows the same
  if (doubted != Time{} && path.last_departed <= doubted + window) {
    if (doubted + window < turn.now()) {
      if (send_probe(peer, path, false)) arm_pto(path);
    } else {
      path.gap_at = earlier(path.gap_at, doubted + window + Duration{1});
    }
  }
  if (!any) return;
  path.lost_lately = true;
  path.window.on_lost(lost);
  path.advance_oldest(sent_blocks);
  if (unheard > path.unheard_at) note_unheard(peer, path);
  if (path.state == PathState::up && path.unheard == 0 && passes_small_only(peer, path)) {
    path_down(peer, path, Reason::only_small);
  }
}

// The receiver requested packets of this path that nothing on it has overtaken. Perhaps nothing is
// left in flight for the silence rule to see. Round after round, that is silence too.
void Endpoint::Core::note_unheard(Peer& peer, Path& path) {
  if (path.state != PathState::up || peer.behind > 0 || turn.tunables.recovery_evacuate == 0)
    return;
  path.unheard_at = turn.now();  // packets sent from here on make the next round
  if (path.unheard < kPatientRounds) ++path.unheard;
  if (path.unheard < kPatientRounds) return;
  if (next_usable_path(peer, path) == nullptr)
    return bridge(peer, path.local_nic, path.remote_nic, true);
  ++turn.counters.evacuations;
  suspect(peer, path, Reason::requests);
}

}  // namespace hawser::proto
