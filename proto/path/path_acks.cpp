// SPDX-License-Identifier: Apache-2.0
// Acknowledgements of paths at the sender: which packets arrived, and how long their answers took.
// loss_detector.cpp says which packets are lost. Path acks release nothing: messages complete by
// statuses.
//
// Invariants: packets_in_flight and bytes_in_flight count the records in state in_flight. `oldest`
// has a record or is the next number, and is never beyond the oldest packet in flight.
// largest_acked < sent.next().
#include <algorithm>
#include <bit>

#include "proto/base/sequence.hpp"
#include "proto/path/path_set.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint8_t kOrderedAgain = 4;       // order_epochs
constexpr std::uint32_t kMostReclaimed = 1024;  // paths looked at when records are short
constexpr Duration kForgetTurns = milliseconds(60'000);
constexpr std::int64_t kFirstSample = 128;  // the first sample counts up to patience / this
constexpr std::int64_t kNotDelayed = 8;     // below max_ack_delay / this, an ack was not delayed

// The new marks in a running count. Either end may have begun to count anew after a rest.
std::uint32_t newly_marked(Path& path, std::uint32_t ce_count) {
  if (path.resumed || ce_count < path.ce_count) path.ce_count = ce_count;
  path.resumed = false;
  const std::uint32_t marked = ce_count - path.ce_count;
  path.ce_count = ce_count;
  return marked;
}

}  // namespace

// Forgets records that are settled for good. `oldest` stays a number with a record, or the next
// one.
void PathSet::trim(Path& path, Time forget_before) {
  path.sent.trim(records_, forget_before);
  if (before(path.oldest, path.sent.base())) path.oldest = path.sent.base();
}

void PathSet::trim_overdue(Path& path) {
  trim(path, turn_.now() - path.response.overdue(turn_.granularity) * 2);
}

// Whether data may have a number of the path. Lost packets keep theirs for a late acknowledgement,
// but not if the path would stand idle for want of numbers.
bool PathSet::has_numbers(Path& path) {
  if (path.sent.room() > kKeptForProbes) return true;
  trim(path, turn_.now());
  return path.sent.room() > kKeptForProbes;
}

// Reserves places for the path's next numbers; returns how many there are. Records of lost packets
// wait for late acknowledgements, even on idle paths. When records are short, each turn takes them
// back from some paths.
std::uint64_t PathSet::reserve_records(Path& path, std::uint64_t count) {
  const std::uint64_t places = path.sent.reserve(records_, count);
  if (places == std::min(count, path.sent.room()) || reclaimed_at_ == turn_.now()) return places;
  reclaimed_at_ = turn_.now();
  for (std::uint32_t looks = std::min(kMostReclaimed, paths_.capacity()); looks > 0; --looks) {
    if (++reclaimed_to_ >= paths_.capacity()) reclaimed_to_ = 0;
    if (!paths_.is_live(reclaimed_to_)) continue;
    Path& other = paths_.at(reclaimed_to_);
    trim_overdue(other);
  }
  return path.sent.reserve(records_, count);
}

std::uint64_t PathSet::places_for_data(Path& path, std::uint64_t count) {
  const std::uint64_t places = reserve_records(path, count + kKeptForProbes);
  return places - std::min(places, kKeptForProbes);
}

void PathSet::on_ack_info(Peer& peer, const wire::AckInfoBlock& info) {
  // After so long, the peer's turn counter may have gone half round.
  if (turn_.now() - peer.silence.ack_info_at > kForgetTurns) peer.silence.any_turn = false;
  const auto ahead = static_cast<std::int32_t>(info.turn - peer.silence.ack_turn);
  if (peer.silence.any_turn && ahead <= 0) return;
  peer.silence.ack_info_at = turn_.now();
  peer.paths.allowance = std::uint64_t{info.allowance_kib} * 1024;
  peer.silence.behind = info.behind;
  // Everything that lay in the peer's rings when turn `drained` began has been taken.
  const std::uint32_t drained = info.turn - info.behind;
  const auto covers = [&](std::uint32_t its_turn) {
    return peer.silence.any_turn && info.behind != wire::kFarBehind &&
           static_cast<std::int32_t>(drained - its_turn) > 0;
  };
  if (covers(peer.silence.doubt_turn)) {
    peer.silence.settled_sent = later(peer.silence.settled_sent, peer.silence.doubt_sent);
    peer.silence.doubt_turn = peer.silence.ack_turn;
    peer.silence.doubt_sent = peer.silence.newest_acked_sent;
    if (covers(peer.silence.ack_turn))
      peer.silence.settled_sent = later(peer.silence.settled_sent, peer.silence.doubt_sent);
  }
  if (!peer.silence.any_turn) peer.silence.doubt_turn = info.turn;
  peer.silence.any_turn = true;
  peer.silence.ack_turn = info.turn;
}

void PathSet::acknowledge_packet(Peer& peer, Path& path, std::uint64_t number, SentPacket& packet) {
  if (turn_.tracing()) {
    const bool late_one = packet.state == SentPacket::State::lost;
    TraceRecord record =
        reporter_.traced(late_one ? TraceKind::packet_late : TraceKind::packet_acknowledged, peer,
                         path, number, packet);
    record.detail = static_cast<std::uint32_t>((turn_.now() - packet.sent).ns / 1000);
    turn_.trace(record);
  }
  if (is_large(peer, packet)) {
    path.counts.large_lost = path.counts.large_rounds = 0;
    peer.session.small_only_since = Time{};
  }
  if (packet.state == SentPacket::State::lost) {
    packet.state = SentPacket::State::acknowledged;
    packet.departed = packet.sent;  // the earliest possible time
    if (packet.message != kNoIndex) packets_.packet_came_late(peer, packet);
    if (packet.lost_by_order) {
      path.reordering_proven = true;
      path.proven_epoch = order_epoch(number);
    }
    return;
  }
  // Not overtaken if no later packet had arrived when the previous acknowledgement was written.
  const bool overtaken = path.any_acked && before(number, path.largest_acked);
  settle(path, packet, SentPacket::State::acknowledged, overtaken);
  packet.departed = earlier(packet.departed, turn_.now());  // the link is faster than it says
  path.traffic.delivered_bytes += packet.wire_bytes;
  if (packet.message != kNoIndex) packets_.packet_arrived(peer, packet);
}

// Takes samples from the newest packet that an acknowledgement names. They come even from a packet
// declared lost, as they show that the timeout was too short. `sent_before` is the departure of the
// newest earlier packet that the acknowledgement newly names.
void PathSet::sample_newest(Peer& peer, Path& path, const SentPacket& record, Time sent_before,
                            Duration residence, CongestionAck& window_ack) {
  const Time now = turn_.now();
  Time sent = record.sent;
  // A busy peer takes both packets at once, so only the older packet shows how long it took.
  if (record.is_early_probe() && sent_before != Time{}) sent = sent_before;
  sample_response(peer, path, now - sent, residence, record.at_end);
  window_ack.has_delay = true;
  window_ack.is_large = is_large(peer, record);
  window_ack.host_delay = residence + (now - later(turn_.arrived(), record.sent));
  window_ack.fabric_delay = now - record.sent - window_ack.host_delay;
}

// `prompt`: the peer acknowledges such a packet at once, however long the answer took.
void PathSet::sample_response(Peer& peer, Path& path, Duration rtt, Duration residence,
                              bool prompt) {
  const Duration delay = microseconds(turn_.tunables.max_ack_delay_us);
  if (prompt || residence < delay / kNotDelayed) path.prompt_time.sample(rtt);
  // Even if the first sample includes an absence, the timers still fit into patience many times.
  const Duration guess = path.response.overdue(turn_.granularity) * 2;
  const Duration first = std::max(guess, patience_with(turn_, peer) / kFirstSample);
  const bool peer_was_away = residence >= microseconds(turn_.tunables.late_wakeup_us);
  if (!path.response.sampled()) {
    path.response.sample_first(rtt, first, turn_.now());
  } else if (peer_was_away || turn_.was_away_since(turn_.now() - rtt)) {
    path.response.sample_absence(rtt, turn_.now());
  } else {
    path.response.sample(rtt);
  }
  // `fastest` measures prompt answers, so a sample with an absence of either host doesn't count.
  if (turn_.is_late() || peer_was_away) return;
  peer.silence.fastest = std::min(peer.silence.fastest, rtt);
}

// The block precedes the PATH_ACK of the same packets, so they still have records.
void PathSet::on_path_marks(Peer& peer, const wire::PathMarksBlock& block) {
  Path* path = of(peer.paths, block.slot);
  if (path == nullptr || path->generation != block.generation) return;  // its PATH_ACK is counted
  const std::uint64_t largest = expand(block.largest, path->sent.next());
  for (std::uint64_t marks = block.marks; marks != 0; marks &= marks - 1) {
    const std::uint64_t n = largest - static_cast<std::uint64_t>(std::countr_zero(marks));
    if (path->sent.contains(n)) path->sent.at(records_, n).marked = true;
  }
}

void PathSet::note_largest(Path& path, std::uint64_t largest) {
  if (path.any_acked && !before(path.largest_acked, largest)) return;
  path.largest_acked = largest;
  path.any_acked = true;
  // A way that has kept the order for so long is believed to keep it again.
  const auto kept = static_cast<std::uint8_t>(order_epoch(largest) - path.proven_epoch);
  if (kept >= kOrderedAgain) path.reordering_proven = false;
}

void PathSet::on_path_ack(Peer& peer, const wire::PathAckView& ack) {
  Path* path = of(peer.paths, ack.slot);
  const bool is_gone = path == nullptr || path->generation != ack.generation;
  if (is_gone) return static_cast<void>(++turn_.counters.late_acknowledgements);
  const std::uint64_t largest = expand(ack.largest, path->sent.next());
  if (!before(largest, path->sent.next())) return reporter_.drop(DropReason::bad_field);
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
  const Time newest = path->newest_departed(records_);
  for (std::uint64_t n = from; !before(largest, n); ++n) {
    const std::uint64_t back = largest - n;
    if (back >= reach || ((ack.bitmap[back / 64] >> (back % 64)) & 1) == 0) continue;
    SentPacket& record = path->sent.at(records_, n);
    if (record.state == SentPacket::State::acknowledged) continue;
    nics_[path->local_nic].reordering.note(newest - record.left());
    full_probe |= record.full_probe;
    newest_sent = later(newest_sent, earlier(record.left(), turn_.now()));
    if (record.state == SentPacket::State::in_flight) {
      window_ack.acked_bytes += record.wire_bytes;
      ++window_ack.acked_packets;
    }
    if (n == largest) {
      const Duration residence = nanoseconds(ack.residence_ns);
      sample_newest(peer, *path, record, sent_before, residence, window_ack);
    }
    sent_before = record.sent;
    acknowledge_packet(peer, *path, n, record);
  }
  if (newest_sent != Time{}) {
    peer.silence.newest_acked_sent = later(peer.silence.newest_acked_sent, newest_sent);
    note_largest(*path, largest);
    path->counts.early = 0;
    window_ack.now = turn_.now();
    window_ack.round = path->response.smoothed();
    window_ack.marked_packets = newly_marked(*path, ack.ce_count);
    path->window.on_ack(window_ack);
    // A packet that left before the path went DOWN shows nothing about the path now.
    if (path->state != PathState::down || path->down_at <= newest_sent) {
      path_heard(peer, *path, full_probe);
    }
    path->acked_in_turn = true;
    path->advance_oldest(records_);
    trim_overdue(*path);
    if (path->oldest == path->sent.base()) path->lost_lately = false;
    arm_pto(*path);
    senders_.want(peer);
  }
}

}  // namespace hawser::proto
