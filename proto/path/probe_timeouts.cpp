// SPDX-License-Identifier: Apache-2.0
// The probe timeout, layer 3 of loss detection (docs/internals/protocol.md §9). A probe declares
// nothing lost: it makes the peer answer, and the answer shows what is missing
// (loss_detector.cpp). An early probe asks before the timeout, where the answer to the end of a
// message is late. If no path number is left for a probe, the oldest packets in flight on the path
// are declared lost (make_room_for_probe).
//
// Timer of a path: `pto_timer`, armed while something is in flight. It fires for the next early
// probe or the probe timeout, whichever is first.
#include <algorithm>

#include "proto/path/path_set.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {

constexpr int kEqual = 6;           // PTOs in a row of one length, where a path has several lanes
constexpr int kMostDoublings = 16;  // of its interval
constexpr std::uint8_t kPatientPtos = 3;  // PTOs without an ack before other paths are tried

}  // namespace

// A probe costs little: if an acknowledgement should come at once, its delay is not waited for.
Duration PathSet::pto_base(const Path& path) const {
  const Duration delay = path.prompt ? Duration{} : microseconds(turn_.tunables.max_ack_delay_us);
  return path.response.unanswered(turn_.granularity) + delay;
}

// The time from the last departure to the probe timeout, early probes aside.
Duration PathSet::pto_interval(const Path& path) const {
  const Duration base = pto_base(path);
  const Duration longest = std::max(milliseconds(turn_.tunables.peer_timeout_ms) / 8, base);
  const LocalNic& nic = nics_[path.local_nic];
  // On a DOWN path `unanswered` counts probes, of which there may be many more.
  const int equal = nic.lanes > 1 ? kEqual : 1;
  const int doublings = std::clamp(path.unanswered - equal + 1, 0, kMostDoublings);
  const Duration interval = std::min(base * (std::int64_t{1} << doublings), longest);
  if (path.unanswered == 0 && path.prompt && nic.lanes > 1) {
    return std::min(interval, nic.reordering.overdue(path.response, turn_.granularity));
  }
  return interval;
}

// When the next early probe is due. The end of a message may be lost, and no later packet would
// show it. On a path with several lanes the first timeout itself comes early. kNever: none is due.
Time PathSet::early_probe_at(Path& path) {
  if (!path.prompt || path.counts.early >= kEarlyProbes || path.unanswered > 0) return kNever;
  if (path.state != PathState::up || !path.prompt_time.is_known()) return kNever;
  if (nics_[path.local_nic].lanes > 1 || turn_.tunables.recovery_early == 0) return kNever;
  // If an early probe is the oldest packet in flight, all before it were answered. It was needless,
  // and so is another.
  const SentPacket& oldest = path.sent.at(records_, path.oldest);
  if (oldest.state == SentPacket::State::in_flight && oldest.is_early_probe()) return kNever;
  return path.last_departed +
         path.prompt_time.late_after(turn_.granularity) * (path.counts.early + 1);
}

// An early probe only asks for an answer, as a busy peer's answer is merely late. It therefore
// neither counts as a timeout nor postpones the real one.
void PathSet::send_early_probe(Peer& peer, Path& path) {
  ++path.counts.early;
  const Time last = path.last_departed;
  if (send_probe(peer, path, false)) {
    path.sent.at(records_, path.sent.next() - 1).at_end = true;
  }
  path.last_departed = last;
  arm_pto(path);
}

// The end of a message was sent: when it arrives, the peer acknowledges all paths without delay.
void PathSet::arm_all_prompt(Peer& peer) {
  for_each(peer.paths, [&](Path& path) {
    if (path.prompt || path.packets_in_flight == 0) return;
    path.prompt = true;
    arm_pto(path);
  });
}

void PathSet::arm_pto(Path& path) {
  if (path.packets_in_flight == 0 || turn_.tunables.recovery_pto == 0) {
    path.pto_timer.stop();
    return;
  }
  path.pto_timer.arm(path.last_departed + pto_interval(path));
  // If an early probe is due already, it was sent. Its answer is on its way, or the gap rule takes
  // over.
  const Time early = early_probe_at(path);
  if (turn_.now() < early) path.pto_timer.advance_to(early);
}

// Data leaves a few numbers to probes. If these are in flight too, nothing could probe any more.
// Then the oldest packets are retransmitted under new numbers, only as many as make room. A peer
// that is away would otherwise be sent the whole window again after every few probes.
void PathSet::make_room_for_probe(Peer& peer, Path& path) {
  if (path.sent.room() < 2) trim(path, turn_.now());
  while (reserve_records(path, 1) == 0 && path.packets_in_flight > 0) {
    lose_oldest(peer, path);
    trim(path, turn_.now());
    senders_.want(peer);
  }
}

// Whether a packet other than a probe is in flight.
bool PathSet::awaits_data(Path& path) {
  for (std::uint64_t n = path.oldest; n != path.sent.next(); ++n) {
    const SentPacket& record = path.sent.at(records_, n);
    if (record.state == SentPacket::State::in_flight && record.message != kNoIndex) return true;
  }
  return false;
}

// Layer 3: makes the peer answer. It declares nothing lost, except for want of numbers.
void PathSet::expire_pto(Peer& peer, Path& path) {
  if (path.packets_in_flight == 0 || path.state == PathState::down ||
      path.state == PathState::probing) {
    path.pto_timer.stop();  // nothing awaited, or expire_probe watches over it
    return;
  }
  path.advance_oldest(records_);
  const Duration trip = std::min(path.response.smoothed(), pto_base(path));
  if (turn_.postpones(path.pto_timer, trip)) return;
  const bool is_early = turn_.now() < path.last_departed + pto_interval(path);
  if (is_early && early_probe_at(path) <= turn_.now()) return send_early_probe(peer, path);
  ++turn_.counters.ptos;
  if (path.unanswered < kMostUnanswered) ++path.unanswered;
  if (turn_.tracing()) {
    TraceRecord record = reporter_.traced(TraceKind::pto, peer, path);
    record.detail = path.unanswered;
    turn_.trace(record);
  }
  // Its packets in flight must not use up the limit that all peers share.
  if (path.state == PathState::up && !path.written_off) {
    written_off_ += path.packets_in_flight;
    path.written_off = true;
  }
  // Suspects the path only if the peer has acknowledged later packets elsewhere, with nothing left
  // in its rings. A peer that is silent altogether, or behind, is no better elsewhere. Hearing the
  // peer proves nothing: packets that its NICs had queued go out while it is away.
  const Time oldest = path.sent.at(records_, path.oldest).departed;
  if (path.state == PathState::up && path.unanswered >= kPatientPtos &&
      next_usable_path(peer, path) != nullptr && peer.silence.behind == 0 &&
      oldest + pto_base(path) < peer.silence.newest_acked_sent) {
    return suspect(peer, path, Reason::probe_timeouts);
  }
  // The path does not answer: the peer is away, or the living NICs are not paired.
  if (path.state == PathState::up && path.unanswered >= kPatientPtos) {
    bridge(peer, path.local_nic, path.remote_nic, true);
    seek(peer);
  }
  make_room_for_probe(peer, path);
  if (!send_probe(peer, path, path.unanswered > 2)) path.last_departed = turn_.now();
  arm_pto(path);
  // If the path is dead, the route of the answers may be dead too: the peer answers over the pair
  // last heard. A probe on another path gives it another route, and its ack is evidence of silence.
  // The first timeout of mere probes sends none: if this one were lost, it would be answered by the
  // timeout of its own path. Where one of two packets that arrive together is always lost, two
  // paths would probe each other without end.
  if (path.unanswered <= 1 && !awaits_data(path)) return;
  if (Path* other = next_usable_path(peer, path);
      other != nullptr && send_probe(peer, *other, false)) {
    arm_pto(*other);
  }
}

}  // namespace hawser::proto
