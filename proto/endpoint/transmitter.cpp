// SPDX-License-Identifier: Apache-2.0
// Sending: which peer, which path and which fragments make the next burst of the driver's size.
//
// The path is chosen for each burst (path_chooser.hpp): an UP path with room in its window. If no
// path is UP, SUSPECT ones serve. Undelivered packets stay in flight, so a degraded NIC gets its
// share, not an equal one. Equal NICs get equal shares, however round trips vary on a busy host.
//
// Peers take turns after each burst. Among equally filled paths the next slot comes first. If only
// one peer sends, nothing of others could go between two bursts. Then as many packets as may go now
// are written at once. Several paths divide them in one step (division.hpp): the shares are the
// same, except that small packets stay together, and each NIC gets its packets as one burst. A
// refused packet that later ones overtook waits in front of what is lost. It does not count as
// retransmitted.
//
// A NIC gets no more than keeps it busy until the next turn, so that retransmissions do not wait
// behind a whole message.
//
// A packet becomes part of the state only when its NIC has accepted it. Refused packets go back to
// where they were picked, in order, and control that was in them is due again. There are two
// exceptions. The lane's turn is used up. Messages that share a packet count as in flight from
// writing until they are taken back.
//
// Timer: `Pace::data_at`, at which a NIC that has enough to send takes more.
#include "proto/endpoint/transmitter.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "proto/base/sequence.hpp"
#include "proto/base/turn.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/path/path_chooser.hpp"
#include "proto/path/path_set.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/region/shared_copy.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/session/sessions.hpp"

namespace hawser::proto {

namespace {

// How much may be in flight on the path. Granted bytes fit the receiver's rings, however many
// others send to it. The peer's advertised allowance caps ungranted bytes in flight.
std::uint64_t window_of(const Peer& peer, const Path& path, bool granted) {
  return granted ? path.window.bytes() : std::min(path.window.bytes(), peer.paths.allowance);
}

// Whether a path may carry data as soon as its driver knows the way.
bool awaits_way(PathSet& paths, const Peer& peer) {
  bool any = false;
  paths.for_each(peer.paths, [&](const Path& path) { any |= path.without_way; });
  return any;
}

}  // namespace

Transmitter::Transmitter(const Parts& parts)
    : turn_(parts.turn),
      peers_(parts.peers),
      sender_(parts.sender),
      nics_(parts.sender.nics()),
      reporter_(parts.reporter),
      senders_(parts.senders),
      touched_(parts.touched),
      outbox_(parts.outbox),
      paths_(parts.paths),
      outgoing_(parts.outgoing),
      sessions_(parts.sessions),
      burst_(nics_.size()) {}

void Transmitter::transmit() {
  std::uint64_t budget = turn_.tunables.send_budget_packets;
  std::size_t refusals = 0;
  while (!senders_.empty() && budget > 0 && refusals <= nics_.size()) {
    const std::uint32_t index = senders_.pop_front(peers_);
    Peer& peer = peers_.at(index);
    const std::uint64_t sent_before = turn_.counters.data_packets_sent;
    const BurstOutcome outcome = transmit_burst(peer, senders_.empty() ? budget : 1);
    const std::uint64_t sent = turn_.counters.data_packets_sent - sent_before;
    budget -= std::min(budget, sent);
    if (sent > 0) {
      turn_.progress();
      touched_.add(peer);
    }
    // A peer that windows or paths block returns to the list when the block ends.
    if (outcome == BurstOutcome::more || outcome == BurstOutcome::refused) {
      if (!senders_.contains(peer)) senders_.push_back(peers_, index);
    }
    if (outcome == BurstOutcome::refused) ++refusals;
  }
}

// Whether nobody answers on the path, and such paths use up the limit that other peers leave.
bool Transmitter::is_over_limit(const Path& path) const {
  return path.written_off && path.packets_in_flight > 0 &&
         paths_.in_flight() >= turn_.tunables.max_in_flight_packets;
}

// Offers the paths in state `wanted` to a policy. `any`: there were some, perhaps without room.
template <class Policy>
Path* Transmitter::best_path(Peer& peer, PathState wanted, std::uint64_t want_bytes, bool& any) {
  const std::uint64_t full = wire_bytes_of_full_packet(peer);
  const bool granted = outgoing_.sends_granted(peer.sends);
  Policy policy;
  for (std::uint32_t left = std::rotr(peer.paths.bound, static_cast<int>(peer.paths.turn_slot));
       left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    Path* path = paths_.of(peer.paths, (i + peer.paths.turn_slot) % kMaxPaths);
    const LocalNic& nic = nics_[path->local_nic];
    if (path->state != wanted || !nic.up) continue;
    if (path->without_way && !paths_.has_way(peer, *path)) continue;
    any = true;
    const std::uint64_t window = window_of(peer, *path, granted);
    // A burst that is cut short costs as much as a full one: wait for room for half the window.
    const std::uint64_t least = std::min(want_bytes, std::max(full, window / 2));
    const bool has_room = (path->bytes_in_flight == 0 || path->bytes_in_flight + least <= window) &&
                          !is_over_limit(*path) && !pace_.has_enough(nic.idle_at, turn_.now()) &&
                          paths_.has_numbers(*path);
    if (policy.offer(
            {path, std::max(window, full), path->bytes_in_flight + want_bytes, has_room})) {
      break;
    }
  }
  return policy.best();
}

// SUSPECT paths serve only where none is UP.
Path* Transmitter::choose_path(Peer& peer, std::uint64_t want_bytes) {
  bool any = false;
  const auto best = [&](PathState wanted) {
    return turn_.tunables.spray_weighted != 0
               ? best_path<LeastFilled>(peer, wanted, want_bytes, any)
               : best_path<EqualShares>(peer, wanted, want_bytes, any);
  };
  Path* path = best(PathState::up);
  if (!any) path = best(PathState::suspect);
  if (path != nullptr) peer.paths.turn_slot = static_cast<std::uint8_t>(path->slot + 1);
  return path;
}

void Transmitter::write_fragment(Peer& peer, Path& path, std::uint64_t number, Pick& pick,
                                 PacketBuffer& buffer, TxPacket& packet) {
  const OutgoingMessage& message = outgoing_.at(pick.message);
  const FragmentExtent extent = extent_of(message, pick.fragment);
  wire::PacketWriter writer(buffer);
  // A fragment that lies in several pieces is copied behind the headers, unless it is too long.
  if (message.gathered && extent.bytes <= Joints::kMostBeside) writer.leave_free(extent.bytes);
  wire::CommonHeader& header =
      writer.begin(Outgoing::packet_type(message), peer.session.remote_index,
                   peer.session.remote_token, to_wire(peer.sends.floor));
  header.slot = static_cast<std::uint8_t>(path.local_nic << 4 | path.slot);
  header.generation = path.generation;
  header.path_number = to_wire(number);
  const std::uint64_t oldest = path.packets_in_flight == 0 ? path.sent.next() : path.oldest;
  header.path_back = static_cast<std::uint16_t>(number - oldest);
  pick.at_end = message.next_fragment == message.fragments;
  if (pick.at_end) header.flags |= wire::kFlagAllSent;
  if (pick.again) header.flags |= wire::kFlagRetransmit;
  const std::uint16_t lanes = nics_[path.local_nic].lanes;
  if (lanes > 1) header.flags |= wire::kFlagSprayed;
  writer.part(wire::FragmentPart{to_wire(message.number),
                                 wire::fragment_field(message.size_class, pick.fragment)});
  if (message.granted) {
    writer.part(wire::ReceiveSlotPart{message.rx_slot, message.rx_generation});
  } else if (message.kind == SendKind::message) {
    writer.part(envelope_of(message));
  } else {
    outgoing_.write_target(message, writer);
  }
  if (extent.bytes + PacketBuffer::kBytes <= peer.session.fragment_bytes)
    pick.carries_control = outbox_.piggyback(peer, writer);
  packet = TxPacket{.buffer = &buffer,
                    .remote = burst_.remote,
                    .entropy = path.lanes.take(lanes, path.lane_turn)};
  if (message.fragments == 1 && outgoing_.pack_others(peer, pick, writer, packet)) return;
  const bool may_copy = message.gathered || message.kind == SendKind::reply;
  const auto payload = may_copy ? copy_beside(message, extent, buffer, writer.room())
                                : std::span{message.data + extent.begin, extent.bytes};
  packet.header_bytes = sender_.finish(writer, payload);
  packet.payload = payload.data();
  packet.payload_bytes = static_cast<std::uint32_t>(payload.size());
  packet.cookie = pick.message;
}

// The bytes of a fragment that may have to be copied behind the headers, where `room` is free.
std::span<const std::byte> Transmitter::copy_beside(const OutgoingMessage& message,
                                                    FragmentExtent extent, PacketBuffer& buffer,
                                                    std::size_t room) {
  std::byte* const end = buffer.bytes + PacketBuffer::kBytes;
  if (message.gathered)
    return outgoing_.payload(message, extent, end - std::min(extent.bytes, Joints::kMostBeside));
  // The program may change the memory that a reply reads. The checksum must be of what leaves, or a
  // word that changes without pause could never be read.
  const std::span<const std::byte> payload = outgoing_.payload(message, extent, end);
  if (payload.empty() || payload.size() > room) return payload;
  std::byte* const copy = end - payload.size();
  copy_shared(copy, payload.data(), payload.size());
  return {copy, payload.size()};
}

void Transmitter::commit_fragment(Peer& peer, Path& path, const Pick& pick,
                                  const TxPacket& packet) {
  const std::uint64_t number = path.sent.next();
  LocalNic& nic = nics_[path.local_nic];
  const std::uint32_t bytes = packet.header_bytes + packet.payload_bytes;
  nic.give(turn_.now(), bytes);
  SentPacket& record = paths_.push(path, packet);
  outgoing_.picked_left(pick, packet, record);
  path.traffic.balance_bytes += bytes;
  ++turn_.counters.data_packets_sent;
  if (pick.again) {
    ++turn_.counters.fragments_retransmitted;
    turn_.counters.bytes_retransmitted += packet.payload_bytes;
    ++nic.retransmits;
  }
  if (turn_.tracing()) {
    turn_.trace(
        reporter_.traced(pick.again ? TraceKind::packet_retransmitted : TraceKind::packet_sent,
                         peer, path, number, record));
  }
}

// How many packets may go on the path now: limited by its window, its numbers, the endpoint's
// limit, and the NIC's burst, or `in_a_row` if that is more.
std::size_t Transmitter::burst_limit(Peer& peer, Path& path, std::uint64_t in_a_row) {
  const std::uint64_t full = wire_bytes_of_full_packet(peer);
  const std::uint64_t window = window_of(peer, path, outgoing_.sends_granted(peer.sends));
  const std::uint64_t room = window - std::min(window, path.bytes_in_flight);
  std::uint64_t limit = std::max<std::uint64_t>(room / full, 1);
  const LocalNic& nic = nics_[path.local_nic];
  if (!std::has_single_bit(peer.paths.bound)) {
    in_a_row = 1;
  } else {
    in_a_row = std::min(in_a_row, pace_.packets_to_enough(nic, turn_.now(), full));
  }
  limit = std::min(limit, std::max<std::uint64_t>(nic.nic->caps().burst, in_a_row));
  limit = std::min<std::uint64_t>(limit, Burst::kMost);
  const std::uint64_t of_limit = paths_.in_flight_beside(path);
  limit =
      std::min(limit, turn_.tunables.max_in_flight_packets -
                          std::min<std::uint64_t>(of_limit, turn_.tunables.max_in_flight_packets));
  if (limit > 1) limit = outgoing_.waiting_fragments(peer.sends, limit);
  paths_.trim_overdue(path);
  return static_cast<std::size_t>(paths_.places_for_data(path, limit));
}

// Begins a division among the paths that are UP. False: there is none, or it could not be the same
// as one choice after the other.
bool Transmitter::begin_division(Peer& peer, std::uint64_t want_bytes) {
  if (turn_.tunables.spray_weighted == 0) return false;
  const bool granted = outgoing_.sends_granted(peer.sends);
  division_.start(wire_bytes_of_full_packet(peer), want_bytes);
  for (Burst::Row& row : burst_.rows) row.count = 0;
  for (LocalNic& nic : nics_) nic.planned_idle_at = nic.idle_at;
  for (std::uint32_t left = std::rotr(peer.paths.bound, static_cast<int>(peer.paths.turn_slot));
       left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    Path& path = *paths_.of(peer.paths, (i + peer.paths.turn_slot) % kMaxPaths);
    const LocalNic& nic = nics_[path.local_nic];
    if (path.state != PathState::up || !nic.up) continue;
    if (path.without_way && !paths_.has_way(peer, path)) continue;
    if (path.written_off) return false;
    division_.add(path, window_of(peer, path, granted), nic.nic->caps().burst, nic.ns_per_byte > 0);
    Share& share = division_.shares().back();
    if (share.filled != Share::kFull &&
        (pace_.has_enough(nic.idle_at, turn_.now()) || !paths_.has_numbers(path))) {
      Division::close(share);
    }
  }
  return !division_.shares().empty();
}

// Prepares a share for about so many packets more. False: the path has no way, or no records.
bool Transmitter::prepare_share(Peer& peer, Share& share, std::size_t more) {
  Path& path = *share.path;
  if (share.packets == 0) {
    share.remote = sender_.remote(peer, pair_of(path));
    if (share.remote == kNoRemote) return false;
    paths_.trim_overdue(path);
  }
  share.places = static_cast<std::uint32_t>(paths_.places_for_data(path, share.packets + more));
  return share.packets < share.places;
}

// Picks up to `most` packets, and writes each for the path whose turn it is. Returns how many they
// are. Packets of one NIC stay in the order in which they were picked: its paths would otherwise
// wait for each other, and their windows would see that as delay.
std::uint32_t Transmitter::write_divided(Peer& peer, std::uint64_t want_bytes, std::size_t most) {
  const bool granted = outgoing_.sends_granted(peer.sends);
  const bool bound = paths_.all_bound(peer);
  const std::uint64_t crowd = paths_.crowd_bytes(peer, want_bytes);
  // A message whose fragments follow each other, as nothing that is lost comes before them.
  const auto bulk_at = [&](std::uint32_t i) -> const OutgoingMessage* {
    if (i == kNoIndex || outgoing_.at(i).fragments == 1) return nullptr;
    return peer.sends.retransmits.empty() ? &outgoing_.at(i) : nullptr;
  };
  std::uint32_t front = peer.sends.to_send.front();
  const OutgoingMessage* bulk = bulk_at(front);
  std::uint32_t size = 0;
  for (; size < most; ++size) {
    // The division ends where a single choice would first bind another path.
    if (bulk == nullptr && peer.sends.to_send.front() != front) {
      front = peer.sends.to_send.front();
      if (outgoing_.sends_granted(peer.sends) != granted) break;
      if (front != kNoIndex && outgoing_.at(front).fragments > 1) {
        if (!bound) break;
        paths_.bind_for_bulk(peer, outgoing_.at(front).fragments);
      }
      bulk = bulk_at(front);
    }
    Share* const share = division_.next();
    if (share == nullptr) break;
    if (share->in_flight >= crowd) {
      if (!bound) break;
      peer.paths.crowded_at = turn_.now();
    }
    if (share->packets == share->places &&
        !prepare_share(peer, *share, (most - size) / division_.shares().size() + 1)) {
      break;
    }
    Path& path = *share->path;
    const std::uint8_t nic = path.local_nic;
    Burst::Row& row = burst_.rows[nic];
    Pick& pick = row.picks[row.count];
    TxPacket& packet = row.packets[row.count];
    if (bulk != nullptr) {
      if (!outgoing_.pick_next_of(peer.sends, front, pick)) bulk = nullptr;
    } else if (!outgoing_.pick(peer.sends, pick)) {
      break;
    }
    ++row.count;
    pick.order = static_cast<std::uint8_t>(size);
    pick.share = share->index;
    burst_.remote = share->remote;
    write_fragment(peer, path, path.sent.next() + share->packets, pick, *burst_.buffers[size],
                   packet);
    const std::uint32_t bytes = packet.header_bytes + packet.payload_bytes;
    division_.give(bytes);
    if (share->paced) pace_shares(nic, bytes);
  }
  return size;
}

// The NIC gets so many bytes. Closes its shares if its own queue will last until the next turn.
void Transmitter::pace_shares(std::size_t nic, std::uint64_t bytes) {
  LocalNic& local = nics_[nic];
  local.planned_idle_at = later(local.planned_idle_at, turn_.now()) + local.time_of(bytes);
  for (Share& share : division_.shares()) {
    if (share.path->local_nic != nic || share.filled == Share::kFull) continue;
    if (pace_.has_enough(local.planned_idle_at, turn_.now())) Division::close(share);
  }
}

// Hands each NIC its packets as one burst. False: some were refused, and wait again.
bool Transmitter::hand_over_rows(Peer& peer) {
  std::array<const Pick*, kMaxPaths> last{};  // of each share
  std::array<std::uint8_t, kMaxNics> accepted;
  bool any_end = false;
  bool all = true;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    const Burst::Row& row = burst_.rows[i];
    if (row.count == 0) continue;
    const auto packets = std::span(row.packets).first(row.count);
    const std::size_t count = sender_.send_burst(i, packets);
    const auto& picks = row.picks;
    for (std::size_t j = 0; j < count;) {
      const std::uint8_t share = picks[j].share;
      Path& path = *division_.shares()[share].path;
      do {
        commit_fragment(peer, path, picks[j], packets[j]);
        any_end |= picks[j].at_end;
      } while (++j < count && picks[j].share == share);
      last[share] = &picks[j - 1];
    }
    accepted[i] = static_cast<std::uint8_t>(count);
    all &= count == packets.size();
  }
  // The last pick goes back first.
  for (std::uint32_t order = burst_.size; !all && order-- > 0;) {
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      Burst::Row& row = burst_.rows[i];
      if (row.count == 0 || row.count == accepted[i]) continue;
      const Pick& pick = row.picks[row.count - 1u];
      if (pick.order != order) continue;
      take_back(peer, *division_.shares()[pick.share].path, pick, row.packets[row.count - 1u]);
      --row.count;
    }
  }
  // A refused packet may be the end of its message, so this looks after it has gone back.
  for (const Share& share : division_.shares()) {
    if (last[share.index] != nullptr) burst_left(peer, *share.path, *last[share.index]);
  }
  if (any_end) paths_.arm_all_prompt(peer);
  return all;
}

// Sends up to `most` packets, over several paths at once. With an empty burst nothing was done.
Transmitter::BurstOutcome Transmitter::transmit_divided(Peer& peer, std::uint64_t want_bytes,
                                                        std::uint64_t most) {
  const std::uint64_t limit = turn_.tunables.max_in_flight_packets;
  const std::uint64_t room =
      limit - std::min<std::uint64_t>(paths_.in_flight_on_answering(), limit);
  most =
      outgoing_.waiting_fragments(peer.sends, std::min<std::uint64_t>({most, room, Burst::kMost}));
  burst_.size = 0;
  if (most < 2 || !outgoing_.can_take_back(most) || !begin_division(peer, want_bytes) ||
      division_.next() == nullptr) {
    return BurstOutcome::more;
  }
  const std::size_t taken = sender_.take_buffers(std::span(burst_.buffers).first(most));
  burst_.size = write_divided(peer, want_bytes, taken);
  sender_.give_buffers(std::span(burst_.buffers).subspan(burst_.size, taken - burst_.size));
  if (burst_.size == 0) return BurstOutcome::more;
  peer.paths.turn_slot = static_cast<std::uint8_t>(division_.last().path->slot + 1);
  return hand_over_rows(peer) ? outcome_of(peer) : note_refusal();
}

// A burst whose last pick this is has left over the path.
void Transmitter::burst_left(Peer& peer, Path& path, const Pick& last) {
  peer.sends.told_floor = peer.sends.floor;
  const OutgoingMessage& message = outgoing_.at(last.message);
  path.prompt = message.next_fragment == message.fragments;
  paths_.arm_pto(path);
}

// The path's NIC did not take that packet of the burst.
void Transmitter::take_back(Peer& peer, Path& path, const Pick& pick, const TxPacket& packet) {
  path.lanes.ended(static_cast<std::uint8_t>(packet.entropy), false, false);
  sender_.give_buffers(std::span(&packet.buffer, 1));
  if (pick.carries_control) outbox_.take_back(peer);
  outgoing_.unpick(peer, pick);
}

Transmitter::BurstOutcome Transmitter::outcome_of(const Peer& peer) {
  return peer.sends.retransmits.empty() && peer.sends.to_send.empty() ? BurstOutcome::all
                                                                      : BurstOutcome::more;
}

Transmitter::BurstOutcome Transmitter::note_refusal() {
  ++turn_.counters.nic_backpressure;
  turn_.refused();
  return BurstOutcome::refused;
}

Transmitter::BurstOutcome Transmitter::transmit_burst(Peer& peer, std::uint64_t in_a_row) {
  if (peer.sends.retransmits.empty() && peer.sends.to_send.empty()) return BurstOutcome::all;
  sessions_.hear_news(peer);
  if (sessions_.doubts_ways(peer.session)) sessions_.follow_ways(peer);
  const std::uint64_t want_bytes = wire_bytes_of_full_packet(peer) * sender_.limits().burst_packets;
  if (!peer.sends.to_send.empty())
    paths_.bind_for_bulk(peer, outgoing_.at(peer.sends.to_send.front()).fragments);
  if (in_a_row > 1 && !std::has_single_bit(peer.paths.bound) && !turn_.was_refused()) {
    const BurstOutcome outcome = transmit_divided(peer, want_bytes, in_a_row);
    if (burst_.size > 0) return outcome;
  }
  const Time others = std::exchange(pace_.data_at, kNever);
  Path* path = choose_path(peer, want_bytes);
  const bool waits = path == nullptr && pace_.data_at != kNever;
  pace_.data_at = earlier(pace_.data_at, others);
  if (waits) return BurstOutcome::refused;
  if (Path* more = paths_.bind_beside(peer, path, want_bytes)) path = more;
  if (path == nullptr) {
    ++turn_.counters.window_limited;
    return awaits_way(paths_, peer) ? BurstOutcome::refused : BurstOutcome::blocked;
  }
  burst_.size = 0;
  burst_.remote = sender_.remote(peer, pair_of(*path));
  if (burst_.remote == kNoRemote) {
    (void)paths_.has_way(peer, *path);
    return BurstOutcome::more;  // over another path
  }
  const std::size_t limit =
      sender_.take_buffers(std::span(burst_.buffers).first(burst_limit(peer, *path, in_a_row)));
  if (limit == 0) return BurstOutcome::refused;
  auto& picks = burst_.rows.front().picks;
  auto& packets = burst_.rows.front().packets;
  while (burst_.size < limit && outgoing_.pick(peer.sends, picks[burst_.size])) {
    write_fragment(peer, *path, path->sent.next() + burst_.size, picks[burst_.size],
                   *burst_.buffers[burst_.size], packets[burst_.size]);
    ++burst_.size;
  }
  const std::size_t accepted =
      burst_.size == 0 ? 0
                       : sender_.send_burst(path->local_nic, std::span(packets).first(burst_.size));
  sender_.give_buffers(std::span(burst_.buffers).subspan(burst_.size, limit - burst_.size));
  for (std::size_t i = 0; i < accepted; ++i) commit_fragment(peer, *path, picks[i], packets[i]);
  for (std::size_t i = burst_.size; i-- > accepted;) take_back(peer, *path, picks[i], packets[i]);
  if (accepted > 0) {
    burst_left(peer, *path, picks[accepted - 1]);
    if (path->prompt) paths_.arm_all_prompt(peer);
  }
  return accepted < burst_.size ? note_refusal() : outcome_of(peer);
}

}  // namespace hawser::proto
