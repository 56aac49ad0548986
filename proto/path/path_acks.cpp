// SPDX-License-Identifier: Apache-2.0
// Acknowledgements of paths at the sender: which packets arrived, and the probe timeout. This is
// layer 3 of loss detection (docs/internals/protocol.md §9). Layer 1 is in gaps.cpp, the silence of
// whole paths in silence.cpp. Path acks release nothing: messages complete by statuses.
//
// Timer of a path: `pto_at`, armed while something is in flight. It fires for the next early probe
// or the probe timeout, whichever is first.
//
// Invariants: packets_in_flight and bytes_in_flight count the records in state in_flight. `oldest`
// has a record or is the next number, and is never beyond the oldest packet in flight.
// largest_acked < sent.next().
#include <algorithm>
#include <bit>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint8_t kMostLargeLost = 255;  // of large packets lost in a row
constexpr int kEqual = 6;           // PTOs in a row of one length, where a path has several lanes
constexpr int kMostDoublings = 16;  // of its interval
constexpr std::uint8_t kPatientPtos = 3;        // PTOs without an ack before other paths are tried
constexpr std::uint32_t kMostReclaimed = 1024;  // paths looked at when records are short
constexpr Duration kForgetTurns = milliseconds(60'000);
constexpr std::int64_t kFirstSample = 128;  // the first sample counts up to patience / this
constexpr std::int64_t kNotDelayed = 8;     // below max_ack_delay / this, an ack was not delayed

template <class Core>
void settle(Core& core, Path& path, SentPacket& record, SentPacket::State state, bool overtaken) {
  HAWSER_ASSERT(record.state == SentPacket::State::in_flight);
  record.state = state;
  HAWSER_ASSERT(path.packets_in_flight > 0 && path.bytes_in_flight >= record.wire_bytes);
  --core.in_flight;
  --path.packets_in_flight;
  core.written_off -= path.written_off;
  // A share left behind by settled packets would raise the limit for ever.
  HAWSER_ASSERT(core.written_off <= core.in_flight);
  path.bytes_in_flight -= record.wire_bytes;
  const bool arrived = state == SentPacket::State::acknowledged;
  path.lanes.ended(record.lane, arrived, overtaken);
  if (arrived && record.marked) path.lanes.mark(record.lane);
}

// The new marks in a running count. Either end may have begun to count anew after a rest.
std::uint32_t newly_marked(Path& path, std::uint32_t ce_count) {
  if (path.resumed || ce_count < path.ce_count) path.ce_count = ce_count;
  path.resumed = false;
  const std::uint32_t marked = ce_count - path.ce_count;
  path.ce_count = ce_count;
  return marked;
}

// The time from the last departure to the probe timeout, early probes aside.
template <class Core>
Duration pto_interval(const Core& core, const Path& path) {
  const Duration base = core.pto_base(path);
  const Duration longest = std::max(milliseconds(core.turn.tunables.peer_timeout_ms) / 8, base);
  const LocalNic& nic = core.nics[path.local_nic];
  // On a DOWN path `unanswered` counts probes, of which there may be many more.
  const int equal = nic.lanes > 1 ? kEqual : 1;
  const int doublings = std::clamp(path.unanswered - equal + 1, 0, kMostDoublings);
  const Duration interval = std::min(base * (std::int64_t{1} << doublings), longest);
  if (path.unanswered == 0 && path.prompt && nic.lanes > 1) {
    return std::min(interval, nic.reordering.overdue(path.response, core.turn.granularity));
  }
  return interval;
}

// When the next early probe is due. The end of a message may be lost, and no later packet would
// show it. On a path with several lanes the first timeout itself comes early. kNever: none is due.
template <class Core>
Time early_probe_at(Core& core, Path& path) {
  if (!path.prompt || path.early >= kEarlyProbes || path.unanswered > 0) return kNever;
  if (path.state != PathState::up || !path.prompt_time.is_known()) return kNever;
  if (core.nics[path.local_nic].lanes > 1 || core.turn.tunables.recovery_early == 0) return kNever;
  // If an early probe is the oldest packet in flight, all before it were answered. It was needless,
  // and so is another.
  const SentPacket& oldest = path.sent.at(core.sent_blocks, path.oldest);
  if (oldest.state == SentPacket::State::in_flight && oldest.is_early_probe()) return kNever;
  return path.last_departed + path.prompt_time.late_after(core.turn.granularity) * (path.early + 1);
}

// Takes samples from the newest packet that an acknowledgement names. They come even from a packet
// declared lost, as they show that the timeout was too short. `sent_before` is the departure of the
// newest earlier packet that the acknowledgement newly names.
template <class Core>
void sample_newest(Core& core, Peer& peer, Path& path, const SentPacket& record, Time sent_before,
                   Duration residence, CongestionAck& window_ack) {
  const Time now = core.turn.now();
  Time sent = record.sent;
  // A busy peer takes both packets at once, so only the older packet shows how long it took.
  if (record.is_early_probe() && sent_before != Time{}) sent = sent_before;
  core.sample_response(peer, path, now - sent, residence, record.at_end);
  window_ack.has_delay = true;
  window_ack.is_large = core.is_large(peer, record);
  window_ack.host_delay = residence + (now - later(core.turn.arrived(), record.sent));
  window_ack.fabric_delay = now - record.sent - window_ack.host_delay;
}

// An early probe only asks for an answer, as a busy peer's answer is merely late. It therefore
// neither counts as a timeout nor postpones the real one.
template <class Core>
void send_early_probe(Core& core, Peer& peer, Path& path) {
  ++path.early;
  const Time last = path.last_departed;
  if (core.send_probe(peer, path, false)) {
    path.sent.at(core.sent_blocks, path.sent.next() - 1).at_end = true;
  }
  path.last_departed = last;
  core.arm_pto(path);
}

}  // namespace

// Forgets records that are settled for good. `oldest` stays a number with a record, or the next
// one.
void Endpoint::Core::trim(Path& path, Time forget_before) {
  path.sent.trim(sent_blocks, forget_before);
  if (before(path.oldest, path.sent.base())) path.oldest = path.sent.base();
}

// Reserves places for the path's next numbers; returns how many there are. Records of lost packets
// wait for late acknowledgements, even on idle paths. When records are short, each turn takes them
// back from some paths.
std::uint64_t Endpoint::Core::reserve_records(Path& path, std::uint64_t count) {
  const std::uint64_t places = path.sent.reserve(sent_blocks, count);
  if (places == std::min(count, path.sent.room()) || reclaimed_at == turn.now()) return places;
  reclaimed_at = turn.now();
  for (std::uint32_t looks = std::min(kMostReclaimed, paths.capacity()); looks > 0; --looks) {
    if (++reclaimed_to >= paths.capacity()) reclaimed_to = 0;
    if (!paths.is_live(reclaimed_to)) continue;
    Path& other = paths.at(reclaimed_to);
    trim(other, turn.now() - other.response.overdue(turn.granularity) * 2);
  }
  return path.sent.reserve(sent_blocks, count);
}

// A probe costs little: if an acknowledgement should come at once, its delay is not waited for.
Duration Endpoint::Core::pto_base(const Path& path) const {
  const Duration delay = path.prompt ? Duration{} : microseconds(turn.tunables.max_ack_delay_us);
  return path.response.unanswered(turn.granularity) + delay;
}

// The end of a message was sent: when it arrives, the peer acknowledges all paths without delay.
void Endpoint::Core::arm_all_prompt(Peer& peer) {
  for_each_path(peer, [&](Path& path) {
    if (path.prompt || path.packets_in_flight == 0) return;
    path.prompt = true;
    arm_pto(path);
  });
}

void Endpoint::Core::arm_pto(Path& path) {
  path.pto_put_off = false;
  if (path.packets_in_flight == 0 || turn.tunables.recovery_pto == 0) {
    path.pto_at = kNever;
    return;
  }
  path.pto_at = path.last_departed + pto_interval(*this, path);
  // If an early probe is due already, it was sent. Its answer is on its way, or the gap rule takes
  // over.
  const Time early = early_probe_at(*this, path);
  if (turn.now() < early) path.pto_at = earlier(path.pto_at, early);
}

void Endpoint::Core::on_ack_info(Peer& peer, const wire::AckInfoBlock& info) {
  // After so long, the peer's turn counter may have gone half round.
  if (turn.now() - peer.ack_info_at > kForgetTurns) peer.any_turn = false;
  const auto ahead = static_cast<std::int32_t>(info.turn - peer.ack_turn);
  if (peer.any_turn && ahead <= 0) return;
  peer.ack_info_at = turn.now();
  peer.allowance = std::uint64_t{info.allowance_kib} * 1024;
  peer.behind = info.behind;
  // Everything that lay in the peer's rings when turn `drained` began has been taken.
  const std::uint32_t drained = info.turn - info.behind;
  const auto covers = [&](std::uint32_t its_turn) {
    return peer.any_turn && info.behind != wire::kFarBehind &&
           static_cast<std::int32_t>(drained - its_turn) > 0;
  };
  if (covers(peer.doubt_turn)) {
    peer.settled_sent = later(peer.settled_sent, peer.doubt_sent);
    peer.doubt_turn = peer.ack_turn;
    peer.doubt_sent = peer.newest_acked_sent;
    if (covers(peer.ack_turn)) peer.settled_sent = later(peer.settled_sent, peer.doubt_sent);
  }
  if (!peer.any_turn) peer.doubt_turn = info.turn;
  peer.any_turn = true;
  peer.ack_turn = info.turn;
}

void Endpoint::Core::acknowledge_packet(Peer& peer, Path& path, std::uint64_t number,
                                        SentPacket& packet) {
  OutgoingMessage* message = packet.message == kNoIndex || packet.packed
                                 ? nullptr
                                 : outgoing.get(SlabId{packet.message, packet.message_generation});
  if (turn.tracing()) {
    const bool late_one = packet.state == SentPacket::State::lost;
    TraceRecord record = traced(late_one ? TraceKind::packet_late : TraceKind::packet_acknowledged,
                                peer, path, number, packet);
    record.detail = static_cast<std::uint32_t>((turn.now() - packet.sent).ns / 1000);
    turn.trace(record);
  }
  if (is_large(peer, packet)) {
    path.large_lost = path.large_rounds = 0;
    peer.small_only_since = Time{};
  }
  if (packet.state == SentPacket::State::lost) {
    const SlabId entry{packet.retransmit, packet.retransmit_generation};
    packet.state = SentPacket::State::acknowledged;
    packet.departed = packet.sent;  // the earliest possible time
    if (packet.packed) {
      packed_is_late(peer, packet);
    } else if (packet.retransmit != kNoIndex && retransmits.get(entry) != nullptr) {
      drop_retransmit(peer, packet.retransmit);  // in time: nothing is sent twice
      if (message != nullptr) consider_asking(*message);
    } else if (packet.message != kNoIndex) {
      ++turn.counters.spurious_retransmits;
    }
    if (packet.lost_by_order) path.reordering_proven = true;
    return;
  }
  // Not overtaken if no later packet had arrived when the previous acknowledgement was written.
  const bool overtaken = path.any_acked && before(number, path.largest_acked);
  settle(*this, path, packet, SentPacket::State::acknowledged, overtaken);
  packet.departed = earlier(packet.departed, turn.now());  // the link is faster than it says
  path.delivered_bytes += packet.wire_bytes;
  const auto arrived_with_it = [&](OutgoingMessage& its) {
    --its.in_flight;
    its.moved = coarse(turn.now());
    consider_asking(its);
  };
  if (message != nullptr) arrived_with_it(*message);
  if (packet.packed) for_each_message_in(peer, packet, arrived_with_it);
}

void Endpoint::Core::lose_packet(Peer& peer, Path& path, std::uint64_t number, SentPacket& packet,
                                 TraceLoss layer) {
  if (turn.tracing()) {
    TraceRecord record = traced(TraceKind::packet_lost, peer, path, number, packet);
    record.cause = static_cast<std::uint8_t>(layer);
    turn.trace(record);
  }
  settle(*this, path, packet, SentPacket::State::lost, false);
  packet.departed = turn.now();
  packet.lost_by_order = false;
  if (packet.message == kNoIndex) return;  // a probe
  switch (layer) {
    case TraceLoss::gap: ++turn.counters.lost_by_gap; break;
    case TraceLoss::request: ++turn.counters.lost_by_request; break;
    case TraceLoss::evacuation: ++turn.counters.lost_by_evacuation; break;
  }
  ++turn.counters.packets_lost;
  ++path.packets_lost;
  ++nics[path.local_nic].packets_lost;
  if (is_large(peer, packet)) {
    if (path.large_lost < kMostLargeLost) ++path.large_lost;
    // Between two rounds a small packet has arrived; otherwise the path is silent.
    if (path.large_rounds == 0 ||
        (path.large_lost_at < packet.sent && path.large_lost_at < path.heard_at)) {
      if (path.large_rounds < kMostLargeLost) ++path.large_rounds;
      path.large_lost_at = turn.now();
    }
  }
  if (packet.packed) return lose_packed(peer, packet);
  const SlabId id{packet.message, packet.message_generation};
  OutgoingMessage* message = outgoing.get(id);
  if (message == nullptr) return;
  --message->in_flight;
  if (message->finished) return;
  queue_retransmit(peer, id, packet.fragment, &packet);
  consider_asking(*message);
}

bool Endpoint::Core::is_large(const Peer& peer, const SentPacket& packet) const {
  return packet.wire_bytes * 2 > wire_bytes_of_full_packet(peer);
}

// `prompt`: the peer acknowledges such a packet at once, however long the answer took.
void Endpoint::Core::sample_response(Peer& peer, Path& path, Duration rtt, Duration residence,
                                     bool prompt) {
  const Duration delay = microseconds(turn.tunables.max_ack_delay_us);
  if (prompt || residence < delay / kNotDelayed) path.prompt_time.sample(rtt);
  // Even if the first sample includes an absence, the timers still fit into patience many times.
  const Duration guess = path.response.overdue(turn.granularity) * 2;
  const Duration first = std::max(guess, patience_with(peer) / kFirstSample);
  path.response.sample(path.response.sampled() ? rtt : std::min(rtt, first));
  // `fastest` measures prompt answers, so a sample with an absence of either host doesn't count.
  if (turn.is_late() || residence >= microseconds(turn.tunables.late_wakeup_us)) return;
  peer.fastest = std::min(peer.fastest, rtt);
}

// The block precedes the PATH_ACK of the same packets, so they still have records.
void Endpoint::Core::on_path_marks(Peer& peer, const wire::PathMarksBlock& block) {
  Path* path = path_of(peer, block.slot);
  if (path == nullptr || path->generation != block.generation) return;  // its PATH_ACK is counted
  const std::uint64_t largest = expand(block.largest, path->sent.next());
  for (std::uint64_t marks = block.marks; marks != 0; marks &= marks - 1) {
    const std::uint64_t n = largest - static_cast<std::uint64_t>(std::countr_zero(marks));
    if (path->sent.contains(n)) path->sent.at(sent_blocks, n).marked = true;
  }
}

void Endpoint::Core::on_path_ack(Peer& peer, const wire::PathAckView& ack) {
  Path* path = path_of(peer, ack.slot);
  const bool is_gone = path == nullptr || path->generation != ack.generation;
  if (is_gone) return static_cast<void>(++turn.counters.late_acknowledgements);
  const std::uint64_t largest = expand(ack.largest, path->sent.next());
  if (!before(largest, path->sent.next())) return drop(DropReason::bad_field);
  if (before(largest, path->sent.base())) return;  // all of it is settled

  CongestionAck window_ack;
  window_ack.in_flight_before = path->bytes_in_flight;
  const std::uint64_t reach = ack.bitmap.size() * 64;
  bool full_probe = false;
  Time newest_sent{};
  Time sent_before{};
  const std::uint64_t from = before(path->sent.base(), path->oldest) && !path->lost_lately
                                 ? path->oldest
                                 : path->sent.base();
  const Time newest = path->newest_departed(sent_blocks);
  for (std::uint64_t n = from; !before(largest, n); ++n) {
    const std::uint64_t back = largest - n;
    if (back >= reach || ((ack.bitmap[back / 64] >> (back % 64)) & 1) == 0) continue;
    SentPacket& record = path->sent.at(sent_blocks, n);
    if (record.state == SentPacket::State::acknowledged) continue;
    nics[path->local_nic].reordering.note(newest - record.left());
    full_probe |= record.full_probe;
    newest_sent = later(newest_sent, earlier(record.left(), turn.now()));
    if (record.state == SentPacket::State::in_flight) {
      window_ack.acked_bytes += record.wire_bytes;
      ++window_ack.acked_packets;
    }
    if (n == largest) {
      const Duration residence = nanoseconds(ack.residence_ns);
      sample_newest(*this, peer, *path, record, sent_before, residence, window_ack);
    }
    sent_before = record.sent;
    acknowledge_packet(peer, *path, n, record);
  }
  if (newest_sent != Time{}) {
    peer.newest_acked_sent = later(peer.newest_acked_sent, newest_sent);
    if (!path->any_acked || before(path->largest_acked, largest)) {
      path->largest_acked = largest;
      path->any_acked = true;
    }
    path->early = 0;
    window_ack.now = turn.now();
    window_ack.round = path->response.smoothed();
    window_ack.marked_packets = newly_marked(*path, ack.ce_count);
    path->window.on_ack(window_ack);
    // A packet that left before the path went DOWN shows nothing about the path now.
    if (path->state != PathState::down || path->down_at <= newest_sent) {
      path_heard(peer, *path, full_probe);
    }
    path->acked_in_turn = true;
    path->advance_oldest(sent_blocks);
    trim(*path, turn.now() - path->response.overdue(turn.granularity) * 2);
    if (path->oldest == path->sent.base()) path->lost_lately = false;
    arm_pto(*path);
    want_to_send_more(peer);
  }
}

// Called once this turn has received everything: an acknowledgement further back in the ring may
// name packets that the first one seems to have passed.
void Endpoint::Core::judge_acks() {
  touched.for_each(peers, [&](std::uint32_t index) {
    Peer& peer = peers.at(index);
    if (!peer.acked_in_turn || peer.state != SessionState::ready) return;
    peer.acked_in_turn = false;
    // One sample per turn: after one absence several paths would report the same.
    if (peer.fastest != kNoSample) peer.response.sample(peer.fastest);
    peer.fastest = kNoSample;
    for_each_path(peer, [&](Path& path) {
      if (!path.acked_in_turn) return;
      path.acked_in_turn = false;
      find_gaps(peer, path);
    });
    find_silence(peer);
    want_to_send_more(peer);
  });
}

void Endpoint::Core::evacuate(Peer& peer, Path& path) {
  for (std::uint64_t n = path.oldest; n != path.sent.next(); ++n) {
    SentPacket& record = path.sent.at(sent_blocks, n);
    if (record.state == SentPacket::State::in_flight) {
      lose_packet(peer, path, n, record, TraceLoss::evacuation);
    }
  }
  path.advance_oldest(sent_blocks);
  path.lost_lately = true;
  path.gap_at = kNever;
  path.pto_at = kNever;
}

// Data leaves a few numbers to probes. If these are in flight too, nothing could probe any more.
// Then everything on the path is retransmitted, under new numbers.
void Endpoint::Core::make_room_for_probe(Peer& peer, Path& path) {
  if (path.sent.room() < 2) trim(path, turn.now());
  if (reserve_records(path, 1) > 0) return;
  evacuate(peer, path);
  trim(path, turn.now());
  want_to_send_more(peer);
}

// Layer 3: makes the peer answer. It declares nothing lost, except for want of numbers.
void Endpoint::Core::expire_pto(Peer& peer, Path& path) {
  if (path.packets_in_flight == 0 || path.state == PathState::down ||
      path.state == PathState::probing) {
    path.pto_at = kNever;  // nothing awaited, or expire_probe watches over it
    return;
  }
  path.advance_oldest(sent_blocks);
  const Duration trip = std::min(path.response.smoothed(), pto_base(path));
  if (turn.put_off(path.pto_at, path.pto_put_off, trip)) return;
  const bool is_early = turn.now() < path.last_departed + pto_interval(*this, path);
  if (is_early && early_probe_at(*this, path) <= turn.now())
    return send_early_probe(*this, peer, path);
  ++turn.counters.ptos;
  if (path.unanswered < kMostUnanswered) ++path.unanswered;
  if (turn.tracing()) {
    TraceRecord record = traced(TraceKind::pto, peer, path);
    record.detail = path.unanswered;
    turn.trace(record);
  }
  // Suspects the path only if the peer has acknowledged later packets elsewhere, with nothing left
  // in its rings. A peer that is silent altogether, or behind, is no better elsewhere. Hearing the
  // peer proves nothing: packets that its NICs had queued go out while it is away.
  const Time oldest = path.sent.at(sent_blocks, path.oldest).departed;
  if (path.state == PathState::up && path.unanswered >= kPatientPtos &&
      next_usable_path(peer, path) != nullptr && peer.behind == 0 &&
      oldest + pto_base(path) < peer.newest_acked_sent) {
    return suspect(peer, path, Reason::probe_timeouts);
  }
  // The path does not answer: the peer is away, or the living NICs are not paired. Its packets in
  // flight must not use up the limit that all peers share.
  if (path.state == PathState::up && path.unanswered >= kPatientPtos) {
    if (!path.written_off) written_off += path.packets_in_flight;
    path.written_off = true;
    bridge(peer, path.local_nic, path.remote_nic, true);
    seek(peer);
  }
  make_room_for_probe(peer, path);
  if (!send_probe(peer, path, path.unanswered > 2)) path.last_departed = turn.now();
  arm_pto(path);
  // If the path is dead, the route of the answers may be dead too: the peer answers over the pair
  // last heard. A probe on another path gives it another route, and its ack is evidence of silence.
  if (Path* other = next_usable_path(peer, path);
      other != nullptr && send_probe(peer, *other, false)) {
    arm_pto(*other);
  }
}

}  // namespace hawser::proto
