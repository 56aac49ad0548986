// SPDX-License-Identifier: Apache-2.0
// Rest: a quiet peer gives its Peer back and leaves a record (RestingPeer). It wakes when anything
// concerns it, and continues where it was. Neither side asks or tells the other
// (docs/internals/protocol.md §6).
//
// Timer of a peer: `rest_at`, armed while nothing is pending. It fires rest_after_ms after the last
// packet from the peer and the last call on it. If a NIC of this end changes, nic_news.cpp wakes
// the peers at rest that must hear of it.
//
// Invariants: at rest a peer has no state outside its record: no message, path, timer, list entry
// or handle of a driver names it. Waking needs no memory that others may have taken: its table
// blocks are withheld.
#include <algorithm>
#include <array>

#include "proto/base/sequence.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/path/receive_paths.hpp"
#include "proto/peer/patience.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {

// Each of both tables withholds one. The others are for final statuses that lie in two blocks, with
// the directory that names the second.
constexpr std::uint32_t kBlocksToWake = 5;
static_assert(RestingPeer::kMostFinals <= 64);
static_assert(RestingPeer::kMostNics <= std::tuple_size_v<decltype(Peer::identity.nics)>);

constexpr std::array kFinals{wire::MessageStatus::delivered, wire::MessageStatus::truncated,
                             wire::MessageStatus::cancelled};

std::uint32_t capped_ns(Duration duration) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(duration.ns, 1, 0xffffffff));
}

bool fits(const NicAddress& address) {
  return std::all_of(address.bytes.begin() + RestingPeer::kAddressBytes, address.bytes.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

// Whether an UP path has awaited an answer in vain since `since`. Its timer may never show that:
// packets sent there for the sake of other paths restart it, and these paths may be quicker.
bool was_tried_in_vain(PathSet& paths, Path& path, Time since) {
  if (path.unanswered >= kTriedInVain) return true;
  for (std::uint64_t n = path.oldest; n != path.sent.next(); ++n) {
    const SentPacket& record = paths.record(path, n);
    if (record.state == SentPacket::State::in_flight) return record.sent <= since;
  }
  return false;
}

}  // namespace

// Packs the final statuses that the peer may still ask for, if all its messages are finished and
// they fit.
bool Sessions::pack_finals(const Peer& peer, RestingPeer& record) const {
  record.finals = 0;
  record.final_count = 0;
  if (!peer.receives.table.is_open()) return true;
  const std::uint64_t count = peer.receives.next_to_process - peer.receives.remote_floor;
  if (count > RestingPeer::kMostFinals || peer.receives.table.size() != count) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto entry = peer.receives.table.get(peer.receives.remote_floor + i);
    if (!entry || !is_finished_entry(*entry)) return false;
    const auto found = std::ranges::find(kFinals, status_of_entry(*entry));
    if (found == kFinals.end()) return false;  // consider_rest asks for a floor beyond it
    record.finals |= static_cast<std::uint64_t>(found - kFinals.begin()) << (2 * i);
  }
  record.final_count = static_cast<std::uint8_t>(count);
  return true;
}

// Whether one of these is of a one-sided operation that failed. The record has no room for that.
bool Sessions::keeps_failure(const Peer& peer) {
  for (std::uint64_t n = peer.receives.remote_floor; n != peer.receives.next_to_process; ++n) {
    const auto entry = peer.receives.table.get(n);
    if (entry && is_finished_entry(*entry) &&
        std::ranges::find(kFinals, status_of_entry(*entry)) == kFinals.end()) {
      return true;
    }
  }
  return false;
}

// Whether the peer has answered nothing for its whole patience: no probes, announcements, or
// requests of dropped messages. Then there is nobody to go on for. A later call on the peer
// continues from there.
bool Sessions::is_out_of_reach(Peer& peer) {
  if (peer.session.state != SessionState::ready ||
      turn_.now() - peer.session.last_heard < patience_with(turn_, peer))
    return false;
  bool any_works = false;
  const Time since = turn_.now() - patience_with(turn_, peer);
  paths_.for_each(peer.paths, [&](Path& path) {
    any_works |= path.state == PathState::up && !was_tried_in_vain(paths_, path, since);
  });
  return peer.session.announcing || !any_works;
}

// Whether the path carries data and has nothing in flight. Or it waits for a NIC that is away by
// its own report, which a probe has confirmed. (An answer under way would wake the peer, which
// would probe again.)
bool Sessions::path_may_go(Peer& peer, const Path& path) {
  if (path.state == PathState::up) return path.packets_in_flight == 0;
  return paths_.is_away(peer, path) && (path.unanswered > 0 || path.packets_in_flight == 0);
}

namespace {

// The incarnation named last by an address or a session packet was never READY here, but an older
// one was. The record has no room for both.
bool has_two_incarnations(const Peer& peer) {
  return peer.session.met && (peer.identity.verified_epoch != peer.identity.remote_epoch ||
                              peer.identity.verified_counter != peer.identity.remote_counter);
}

}  // namespace

// Whether a record can replace the peer, with nothing pending, so that nobody could tell the
// difference.
bool Sessions::is_settled(Peer& peer) {
  const std::uint32_t index = peer.index;
  if (peer.messages > 0 || turn_.now() < peer.handshake.answer_at) return false;
  if (peer.sends.one_sided != kNoIndex) return false;  // a failure that no flush has told
  const bool out_of_reach = is_out_of_reach(peer);
  if (peer.session.call_at != kNever && !out_of_reach) return false;
  if (senders_.contains(peers_, index) || touched_.contains(peers_, index)) return false;
  // Dropped messages are solicited, while there is a peer to ask.
  if (descriptors_.is_starved(peer) && !out_of_reach) return false;
  if (!peer.sends.retransmits.empty()) return false;
  // Control that is due waits for a peer that answers. A peer that is heard again asks for it.
  if ((outbox_.is_scheduled(peer) || outbox_.has_due(peer)) && !out_of_reach) return false;
  if (peer.session.remote_nics == 0 || peer.session.remote_nics > RestingPeer::kMostNics)
    return false;
  for (std::uint32_t i = 0; i < peer.session.remote_nics; ++i) {
    if (!fits(peer.identity.nics[i].address)) return false;
  }
  if (has_two_incarnations(peer)) return false;
  if (peer.session.state == SessionState::failed) return true;
  // The peer's present evidence may contradict a standing verdict, so one more judgement comes
  // first.
  if (!verdicts_.empty() && verdicts_.judged_at() < peer.session.last_heard) return false;
  // A CLOSE that has begun to arrive continues.
  if ((peer.session.announcing && !out_of_reach) || peer.session.close_sent ||
      peer.silence.acked_in_turn ||
      std::ranges::any_of(peer.handshake.close_parts,
                          [](std::uint64_t word) { return word != 0; })) {
    return false;
  }
  for (const std::uint32_t path : peer.paths.indices) {
    if (path != kNoIndex && !out_of_reach && !path_may_go(peer, paths_.at(path))) return false;
  }
  return true;
}

// Called at the end of a turn. True: the peer rests, and is gone.
bool Sessions::consider_rest(Peer& peer) {
  peer.session.rest_at = kNever;
  const bool ended =
      peer.session.state == SessionState::ready || peer.session.state == SessionState::failed;
  if (!ended || closing_ || is_pending(peer)) return false;
  // Packets on their way would only wake it.
  const Duration quiet = std::max(milliseconds(turn_.tunables.rest_after_ms),
                                  peer.response.overdue(turn_.granularity));
  const Time due = later(peer.session.last_heard, peer.session.used_at) + quiet;
  if (turn_.now() < due) {
    peer.session.rest_at = due;
    return false;
  }
  peer.session.rest_at = turn_.now() + std::max(quiet / 4, milliseconds(1));
  RestingPeer record;
  if (!is_settled(peer)) {
    if (peer.session.state == SessionState::ready &&
        turn_.now() - peer.session.last_heard >= patience_with(turn_, peer)) {
      probe_best_path(peer);  // is it only that nobody has asked?
    }
    // Only a call changes that.
    if (peer.session.state == SessionState::failed && has_two_incarnations(peer))
      peer.session.rest_at = kNever;
    return false;
  }
  if (peer.session.state == SessionState::ready) {
    if (peer.sends.floor - peer.sends.told_floor > RestingPeer::kMostFinals) {
      outbox_.schedule_now(peer);  // a packet with the floor lets the other side rest too
      return false;
    }
    if (peer.receives.next_to_process - peer.receives.remote_floor > RestingPeer::kMostFinals ||
        keeps_failure(peer)) {
      // No packet has brought the peer's floor. A probe's answer does, if the peer lives. Nobody
      // may have asked it before, so it has its whole patience from now on (watch_liveness).
      peer.session.floor_awaited = true;
      peer.session.keepalive_at = turn_.now() + patience_with(turn_, peer) / 8;
      touched_.add(peer);
      probe_best_path(peer);
      return false;
    }
  }
  if (!pack_finals(peer, record)) return false;
  if (!put_to_rest(peer, record)) return false;
  ++turn_.counters.peers_rested;
  return true;
}

namespace {

void describe(const Peer& peer, RestingPeer& record) {
  record.remote_id = peer.identity.remote_id;
  record.remote_epoch = peer.identity.remote_epoch;
  record.remote_token = peer.session.remote_token;
  record.token = peer.session.token;
  record.remote_counter = peer.identity.remote_counter;
  record.remote_sequence = peer.identity.remote_sequence;
  record.remote_index = peer.session.remote_index;
  record.counter = peer.identity.counter;
  record.absence_ms =
      static_cast<std::uint16_t>(peer.session.remote_absence.ns / milliseconds(1).ns);
  record.session_bytes = peer.session.session_bytes;
  record.remote_unscheduled = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(peer.identity.remote_unscheduled, 0xffffffff));
  record.next_number = peer.sends.next_number;
  record.first_remote_number = peer.slots.first_remote_number;
  record.next_to_process = peer.receives.next_to_process;
  record.path_start = peer.slots.path_start;
  record.unproven = peer.paths.unproven;
  record.generations = peer.slots.generations;
  record.last_heard = peer.session.last_heard;
  record.smoothed_ns = capped_ns(peer.response.smoothed());
  record.variance_ns = capped_ns(peer.response.variance());
  record.allowance_kib = static_cast<std::uint32_t>(
      std::min<std::uint64_t>((peer.paths.allowance + 1023) / 1024, 0xffffffff));
  record.state = peer.session.state;
  record.failure = peer.session.failure;
  record.failure_reason = peer.session.failure_reason;
  record.verified = peer.session.met;
  record.wanted = peer.session.wanted;
  record.one_sided = peer.handshake.one_sided;
  record.size_classes = peer.handshake.size_classes;
  record.patience_eighths = static_cast<std::uint8_t>(peer.receives.patience_eighths);
  record.route = peer.session.route;
  record.nic_count = peer.session.remote_nics;
  for (std::uint32_t i = 0; i < peer.session.remote_nics; ++i) {
    if (peer.identity.nics[i].state != 0)
      record.nics_up = static_cast<std::uint8_t>(record.nics_up | 1u << i);
    if (takes_full_packets(peer, peer.identity.nics[i]))
      record.nics_fit = static_cast<std::uint8_t>(record.nics_fit | 1u << i);
    record.nic_sequences[i] = peer.identity.remote_nic_sequences[i];
    std::copy_n(peer.identity.nics[i].address.bytes.begin(), RestingPeer::kAddressBytes,
                record.addresses[i].begin());
  }
}

void restore(const RestingPeer& record, Peer& peer) {
  peer.session.state = record.state;
  peer.session.failure = record.failure;
  peer.session.failure_reason = record.failure_reason;
  peer.session.wanted = record.wanted;
  peer.handshake.one_sided = record.one_sided;
  peer.handshake.size_classes = record.size_classes;
  peer.identity.remote_epoch = record.remote_epoch;
  peer.identity.remote_counter = record.remote_counter;
  peer.session.met = record.verified;
  if (record.verified) {
    peer.identity.verified_epoch = record.remote_epoch;
    peer.identity.verified_counter = record.remote_counter;
  }
  peer.session.remote_token = record.remote_token;
  peer.session.token = record.token;
  peer.identity.remote_sequence = record.remote_sequence;
  peer.session.remote_index = record.remote_index;
  peer.identity.counter = record.counter;
  peer.session.remote_absence = milliseconds(record.absence_ms);
  peer.handshake.offered_bytes = record.session_bytes;
  set_session_bytes(peer.session, record.session_bytes);
  peer.identity.remote_unscheduled = record.remote_unscheduled;
  peer.sends.next_number = peer.sends.floor = peer.sends.told_floor = record.next_number;
  peer.slots.first_remote_number = record.first_remote_number;
  peer.receives.next_to_process = record.next_to_process;
  peer.receives.remote_floor = record.next_to_process - record.final_count;
  peer.slots.path_start = record.path_start;
  peer.paths.unproven = record.unproven;
  peer.slots.generations = record.generations;
  peer.slots.epochs.fill(epoch_of(record.path_start));
  peer.session.last_heard = record.last_heard;
  peer.response = ResponseTime(nanoseconds(record.smoothed_ns), nanoseconds(record.variance_ns));
  peer.paths.allowance = std::uint64_t{record.allowance_kib} * 1024;
  peer.receives.patience_eighths = record.patience_eighths;
  peer.session.route = record.route;
  peer.session.remote_nics = record.nic_count;
  for (std::uint32_t i = 0; i < record.nic_count; ++i) {
    wire::NicRecord& nic = peer.identity.nics[i];
    std::ranges::copy(record.addresses[i], nic.address.bytes.begin());
    nic.index = static_cast<std::uint8_t>(i);
    nic.state = static_cast<std::uint8_t>(record.nics_up >> i & 1);
    if ((record.nics_fit >> i & 1) != 0) nic.max_datagram = words_of_full_packet(peer);
    peer.identity.remote_nic_sequences[i] = record.nic_sequences[i];
  }
}

}  // namespace

// `record` has the final statuses. False: the blocks for waking could not be withheld; nothing
// changed.
bool Sessions::put_to_rest(Peer& peer, RestingPeer& record) {
  const std::uint32_t index = peer.index;
  if (peer.session.state == SessionState::ready) {
    if (numbers_.available() < kBlocksToWake) return false;
    numbers_.withhold(kBlocksToWake);
    descriptors_.forget(peer);
    for (const std::uint32_t path : std::array(peer.paths.indices)) {
      if (path != kNoIndex) paths_.release_path(peer, paths_.at(path));
    }
    for (std::uint32_t slot = 0; slot < kMaxPaths; ++slot) begin_epoch(peer, slot);
    receive_paths_.forget_all(peer.paths);
    peer.sends.table.close();
    peer.receives.table.close();
  }
  describe(peer, record);
  const bool is_untold = peer.session.announcing || outbox_.owes_nic_state(peer);
  record.nic_news = news_.known_to(peer.paths.nic_news) - (is_untold ? 1 : 0);  // told on waking
  outbox_.end_session(peer);
  for (std::size_t i = 0; i < peer.session.remote_nics; ++i) sender_.close_remotes(peer, i);
  timers_.remove(index);
  peers_.put_to_rest(index, record);
  return true;
}

// Restores the peer as it was, with its first paths.
Peer& Sessions::wake(std::uint32_t index) {
  RestingPeer record;
  Peer& peer = peers_.wake(index, record);
  start_peer(peer);
  restore(record, peer);
  peer.session.ways_known = ways_.before_newest();
  ++turn_.counters.peers_woken;
  touched_.add(peer);
  if (peer.session.state == SessionState::failed) return peer;
  if (!verdicts_.empty()) paths_.want_verdicts();
  numbers_.release(kBlocksToWake);
  bool opened = peer.sends.table.open(numbers_, peer.sends.next_number) &&
                peer.receives.table.open(numbers_, peer.receives.remote_floor);
  for (std::uint32_t i = 0; opened && i < record.final_count; ++i) {
    const auto status = kFinals[record.finals >> (2 * i) & 3];
    opened = peer.receives.table.set(peer.receives.remote_floor + i,
                                     kFinishedEntry | static_cast<std::uint32_t>(status));
  }
  HAWSER_ASSERT(opened);  // these blocks were withheld
  const bool has_news = record.nic_news != news_.count;
  paths_.pair_nics(peer);
  paths_.reopen_paths(peer, record.nic_news);
  if (has_news) tell_news(peer);
  return peer;
}

// For the endpoint's end, of which all peers must hear.
void Sessions::wake_all() {
  for (std::uint32_t i = 0; i < peers_.used(); ++i) {
    if (!peers_.is_known(i) || peers_.is_awake(i)) continue;
    if (peers_.resting(i).state == SessionState::ready) (void)wake(i);
  }
}

}  // namespace hawser::proto
