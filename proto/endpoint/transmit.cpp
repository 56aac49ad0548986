// SPDX-License-Identifier: Apache-2.0
// Sending: which peer, which path and which fragments make the next burst of the driver's size.
//
// The path is chosen for each burst (path_chooser.hpp): an UP path with room in its window. If no
// path is UP, SUSPECT ones serve. Undelivered packets stay in flight, so a degraded NIC gets its
// share, not an equal one. Equal NICs get equal shares, however round trips vary on a busy host.
//
// Peers take turns after each burst, and so do the paths of a peer. If only one peer sends, nothing
// of others could go between two bursts. Then as many packets as may go now are written at once.
// Several paths divide them in one step (division.hpp): the choices are the same, and each NIC gets
// its packets as one burst. If a NIC refuses some, later fragments may have left over other NICs.
// The refused ones then wait in front of what is lost, and a retransmission is not counted.
//
// A NIC gets no more than keeps it busy until the next turn, so that retransmissions do not wait
// behind a whole message.
//
// A packet becomes part of the state only when its NIC has accepted it. Refused packets go back to
// where they were picked, in order, and control that was in them is due again. (Only the lane's
// turn is lost: the next packet takes another lane. Messages that share a packet count as in flight
// once it is written, while all of them are at hand.)
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"
#include "proto/path/path_chooser.hpp"

namespace hawser::proto {

namespace {

// How much may be in flight on the path. Granted bytes fit the receiver's rings, however many
// others send to it. The peer's advertised allowance caps ungranted bytes in flight.
std::uint64_t window_of(const Peer& peer, const Path& path, bool granted) {
  return granted ? path.window.bytes() : std::min(path.window.bytes(), peer.paths.allowance);
}

// Whether nobody answers on the path, and such paths use up the limit that other peers leave.
template <class Core>
bool is_over_limit(const Core& core, const Path& path) {
  return path.written_off && path.packets_in_flight > 0 &&
         core.paths.in_flight() >= core.turn.tunables.max_in_flight_packets;
}

// Whether a path may carry data as soon as its driver knows the way.
template <class Core>
bool awaits_way(Core& core, Peer& peer) {
  bool any = false;
  core.paths.for_each(peer.paths, [&](const Path& path) { any |= path.without_way; });
  return any;
}

}  // namespace

void Endpoint::Core::transmit() {
  std::uint64_t budget = turn.tunables.send_budget_packets;
  std::size_t refusals = 0;
  while (!senders.empty() && budget > 0 && refusals <= nics.size()) {
    const std::uint32_t index = senders.pop_front(peers);
    Peer& peer = peers.at(index);
    const std::uint64_t sent_before = turn.counters.data_packets_sent;
    const Sent outcome = transmit_burst(peer, senders.empty() ? budget : 1);
    const std::uint64_t sent = turn.counters.data_packets_sent - sent_before;
    budget -= std::min(budget, sent);
    if (sent > 0) {
      turn.progress();
      touched.add(peer);
    }
    // A peer that windows or paths block returns to the list when the block ends.
    if (outcome == Sent::more || outcome == Sent::refused) {
      if (!senders.contains(peer)) senders.push_back(peers, index);
    }
    if (outcome == Sent::refused) ++refusals;
  }
}

namespace {

// Offers the paths in state `wanted` to a policy. `any`: there were some, perhaps without room.
template <class Policy, class Core>
Path* best_path(Core& core, Peer& peer, PathState wanted, std::uint64_t want_bytes, bool& any) {
  const std::uint64_t full = wire_bytes_of_full_packet(peer);
  const bool granted = core.outgoing.sends_granted(peer.sends);
  Policy policy;
  for (std::uint32_t left = std::rotr(peer.paths.bound, static_cast<int>(peer.paths.turn_slot));
       left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    Path* path = core.paths.of(peer.paths, (i + peer.paths.turn_slot) % kMaxPaths);
    const LocalNic& nic = core.nics[path->local_nic];
    if (path->state != wanted || !nic.up) continue;
    if (path->without_way && !core.paths.has_way(peer, *path)) continue;
    any = true;
    const std::uint64_t window = window_of(peer, *path, granted);
    // A burst that is cut short costs as much as a full one: wait for room for half the window.
    const std::uint64_t least = std::min(want_bytes, std::max(full, window / 2));
    const bool has_room = (path->bytes_in_flight == 0 || path->bytes_in_flight + least <= window) &&
                          !is_over_limit(core, *path) &&
                          !core.pace.has_enough(nic.idle_at, core.turn.now()) &&
                          core.paths.has_numbers(*path);
    if (policy.offer(
            {path, std::max(window, full), path->bytes_in_flight + want_bytes, has_room})) {
      break;
    }
  }
  return policy.best();
}

}  // namespace

// SUSPECT paths serve only where none is UP.
Path* Endpoint::Core::choose_path(Peer& peer, std::uint64_t want_bytes) {
  bool any = false;
  const auto best = [&](PathState wanted) {
    return turn.tunables.spray_weighted != 0
               ? best_path<LeastFilled>(*this, peer, wanted, want_bytes, any)
               : best_path<EqualShares>(*this, peer, wanted, want_bytes, any);
  };
  Path* path = best(PathState::up);
  if (!any) path = best(PathState::suspect);
  if (path != nullptr) peer.paths.turn_slot = static_cast<std::uint8_t>(path->slot + 1);
  return path;
}

void Endpoint::Core::write_fragment(Peer& peer, Path& path, std::uint64_t number, Pick& pick,
                                    PacketBuffer& buffer, TxPacket& packet) {
  const OutgoingMessage& message = outgoing.at(pick.message);
  const auto payload = payload_of(peer, message, pick.fragment);
  wire::PacketWriter writer(buffer);
  wire::CommonHeader& header =
      writer.begin(message.granted ? wire::PacketType::granted : wire::PacketType::data,
                   peer.session.remote_index, peer.session.remote_token, to_wire(peer.sends.floor));
  header.slot = static_cast<std::uint8_t>(path.local_nic << 4 | path.slot);
  header.generation = path.generation;
  header.path_number = to_wire(number);
  const std::uint64_t oldest = path.packets_in_flight == 0 ? path.sent.next() : path.oldest;
  header.path_back = static_cast<std::uint16_t>(number - oldest);
  pick.at_end = message.next_fragment == message.fragments;
  if (pick.at_end) header.flags |= wire::kFlagAllSent;
  if (pick.again) header.flags |= wire::kFlagRetransmit;
  if (nics[path.local_nic].lanes > 1) header.flags |= wire::kFlagSprayed;
  writer.part(wire::FragmentPart{to_wire(message.number), pick.fragment});
  if (message.granted) {
    writer.part(wire::ReceiveSlotPart{message.rx_slot, message.rx_generation});
  } else {
    writer.part(envelope_of(message));
  }
  if (payload.size() + PacketBuffer::kBytes <= peer.session.fragment_bytes)
    pick.carries_control = outbox.piggyback(peer, writer);
  packet = TxPacket{};
  packet.buffer = &buffer;
  packet.remote = burst.remote;
  packet.queue = Queue::data;
  packet.entropy = path.lanes.take(nics[path.local_nic].lanes, path.lane_turn);
  if (message.fragments == 1 && outgoing.pack_others(peer, pick, writer, packet)) return;
  packet.header_bytes = sender.finish(writer, payload);
  packet.payload = payload.data();
  packet.payload_bytes = static_cast<std::uint32_t>(payload.size());
  packet.cookie = pick.message;
}

void Endpoint::Core::commit_fragment(Peer& peer, Path& path, const Pick& pick,
                                     const TxPacket& packet) {
  const std::uint64_t number = path.sent.next();
  LocalNic& nic = nics[path.local_nic];
  nic.give(turn.now(), packet.header_bytes + packet.payload_bytes);
  SentPacket& record = paths.push(path, packet);
  outgoing.picked_left(pick, packet, record);
  path.balance_bytes += record.wire_bytes;
  ++turn.counters.data_packets_sent;
  if (pick.again) {
    ++turn.counters.fragments_retransmitted;
    turn.counters.bytes_retransmitted += packet.payload_bytes;
    ++nic.retransmits;
  }
  if (turn.tracing()) {
    turn.trace(
        reporter.traced(pick.again ? TraceKind::packet_retransmitted : TraceKind::packet_sent, peer,
                        path, number, record));
  }
}

// How many packets may go on the path now: limited by its window, its numbers, the endpoint's
// limit, and the NIC's burst, or `in_a_row` if that is more.
std::size_t Endpoint::Core::burst_limit(Peer& peer, Path& path, std::uint64_t in_a_row) {
  const std::uint64_t full = wire_bytes_of_full_packet(peer);
  const std::uint64_t window = window_of(peer, path, outgoing.sends_granted(peer.sends));
  const std::uint64_t room = window - std::min(window, path.bytes_in_flight);
  std::uint64_t limit = std::max<std::uint64_t>(room / full, 1);
  const LocalNic& nic = nics[path.local_nic];
  if (!std::has_single_bit(peer.paths.bound)) {
    in_a_row = 1;
  } else {
    in_a_row = std::min(in_a_row, pace.packets_to_enough(nic, turn.now(), full));
  }
  limit = std::min(limit, std::max<std::uint64_t>(nic.nic->caps().burst, in_a_row));
  limit = std::min<std::uint64_t>(limit, Burst::kMost);
  const std::uint64_t of_limit = paths.in_flight_beside(path);
  limit =
      std::min(limit, turn.tunables.max_in_flight_packets -
                          std::min<std::uint64_t>(of_limit, turn.tunables.max_in_flight_packets));
  if (limit > 1) limit = outgoing.waiting_fragments(peer.sends, limit);
  paths.trim_overdue(path);
  return static_cast<std::size_t>(paths.places_for_data(path, limit));
}

// Begins a division among the paths that are UP. False: there is none, or it could not be the same
// as one choice after the other.
bool Endpoint::Core::begin_division(Peer& peer, std::uint64_t want_bytes) {
  if (turn.tunables.spray_weighted == 0) return false;
  const bool granted = outgoing.sends_granted(peer.sends);
  division.start(wire_bytes_of_full_packet(peer), want_bytes);
  for (Burst::Row& row : burst.rows) row.count = 0;
  for (LocalNic& nic : nics) nic.planned_idle_at = nic.idle_at;
  for (std::uint32_t left = std::rotr(peer.paths.bound, static_cast<int>(peer.paths.turn_slot));
       left != 0; left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    Path& path = *paths.of(peer.paths, (i + peer.paths.turn_slot) % kMaxPaths);
    const LocalNic& nic = nics[path.local_nic];
    if (path.state != PathState::up || !nic.up) continue;
    if (path.without_way && !paths.has_way(peer, path)) continue;
    if (path.written_off) return false;
    division.add(path, window_of(peer, path, granted), nic.nic->caps().burst, nic.ns_per_byte > 0);
    Share& share = division.shares().back();
    if (share.filled != Share::kFull &&
        (pace.has_enough(nic.idle_at, turn.now()) || !paths.has_numbers(path))) {
      Division::close(share);
    }
  }
  return !division.shares().empty();
}

// Prepares a share for about so many packets more. False: the path has no way, or no records.
bool Endpoint::Core::prepare_share(Peer& peer, Share& share, std::size_t more) {
  Path& path = *share.path;
  if (share.packets == 0) {
    share.remote = sender.remote(peer, pair_of(path));
    if (share.remote == kNoRemote) return false;
    paths.trim_overdue(path);
  }
  share.places = static_cast<std::uint32_t>(paths.places_for_data(path, share.packets + more));
  return share.packets < share.places;
}

// Picks up to `most` packets, and writes each for the path whose turn it is. Returns how many they
// are. Packets of one NIC stay in the order in which they were picked: its paths would otherwise
// wait for each other, and their windows would see that as delay.
std::uint32_t Endpoint::Core::write_divided(Peer& peer, std::uint64_t want_bytes,
                                            std::size_t most) {
  const bool granted = outgoing.sends_granted(peer.sends);
  const bool bound = paths.all_bound(peer);
  const std::uint64_t crowd = paths.crowd_bytes(peer, want_bytes);
  // A message whose fragments follow each other, as nothing that is lost comes before them.
  const auto bulk_at = [&](std::uint32_t i) -> const OutgoingMessage* {
    if (i == kNoIndex || outgoing.at(i).fragments == 1) return nullptr;
    return peer.sends.retransmits.empty() ? &outgoing.at(i) : nullptr;
  };
  std::uint32_t front = peer.sends.to_send.front();
  const OutgoingMessage* bulk = bulk_at(front);
  std::uint32_t size = 0;
  for (; size < most; ++size) {
    // The division ends where a single choice would first bind another path.
    if (bulk == nullptr && peer.sends.to_send.front() != front) {
      front = peer.sends.to_send.front();
      if (outgoing.sends_granted(peer.sends) != granted) break;
      if (front != kNoIndex && outgoing.at(front).fragments > 1) {
        if (!bound) break;
        paths.bind_for_bulk(peer, outgoing.at(front).fragments);
      }
      bulk = bulk_at(front);
    }
    Share* const share = division.next();
    if (share == nullptr) break;
    if (share->in_flight >= crowd) {
      if (!bound) break;
      peer.paths.crowded_at = turn.now();
    }
    if (share->packets == share->places &&
        !prepare_share(peer, *share, (most - size) / division.shares().size() + 1)) {
      break;
    }
    Path& path = *share->path;
    const std::uint8_t nic = path.local_nic;
    Burst::Row& row = burst.rows[nic];
    Pick& pick = row.picks[row.count];
    TxPacket& packet = row.packets[row.count];
    if (bulk != nullptr) {
      if (!outgoing.pick_next_of(peer.sends, front, pick)) bulk = nullptr;
    } else if (!outgoing.pick(peer.sends, pick)) {
      break;
    }
    ++row.count;
    pick.order = static_cast<std::uint8_t>(size);
    pick.share = share->index;
    burst.remote = share->remote;
    write_fragment(peer, path, path.sent.next() + share->packets, pick, *burst.buffers[size],
                   packet);
    const std::uint32_t bytes = packet.header_bytes + packet.payload_bytes;
    division.give(bytes);
    if (share->paced) pace_shares(nic, bytes);
  }
  return size;
}

// The NIC gets so many bytes. Closes its shares if its own queue will last until the next turn.
void Endpoint::Core::pace_shares(std::size_t nic, std::uint64_t bytes) {
  LocalNic& local = nics[nic];
  local.planned_idle_at = later(local.planned_idle_at, turn.now()) + local.time_of(bytes);
  for (Share& share : division.shares()) {
    if (share.path->local_nic != nic || share.filled == Share::kFull) continue;
    if (pace.has_enough(local.planned_idle_at, turn.now())) Division::close(share);
  }
}

// Hands each NIC its packets as one burst. False: some were refused, and wait again.
bool Endpoint::Core::hand_over_rows(Peer& peer) {
  std::array<const Pick*, kMaxPaths> last{};  // of each share
  std::array<std::uint8_t, kMaxNics> accepted;
  bool any_end = false;
  bool all = true;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    const Burst::Row& row = burst.rows[i];
    if (row.count == 0) continue;
    const auto packets = std::span(row.packets).first(row.count);
    const std::size_t count = sender.send_burst(i, packets);
    const auto& picks = row.picks;
    for (std::size_t j = 0; j < count;) {
      const std::uint8_t share = picks[j].share;
      Path& path = *division.shares()[share].path;
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
  for (std::uint32_t order = burst.size; !all && order-- > 0;) {
    for (std::size_t i = 0; i < nics.size(); ++i) {
      Burst::Row& row = burst.rows[i];
      if (row.count == 0 || row.count == accepted[i]) continue;
      const Pick& pick = row.picks[row.count - 1u];
      if (pick.order != order) continue;
      take_back(peer, *division.shares()[pick.share].path, pick, row.packets[row.count - 1u]);
      --row.count;
    }
  }
  // A refused packet may be the end of its message, so this looks after it has gone back.
  for (const Share& share : division.shares()) {
    if (last[share.index] != nullptr) burst_left(peer, *share.path, *last[share.index]);
  }
  if (any_end) paths.arm_all_prompt(peer);
  return all;
}

// Sends up to `most` packets, over several paths at once. With an empty burst nothing was done.
Endpoint::Core::Sent Endpoint::Core::transmit_divided(Peer& peer, std::uint64_t want_bytes,
                                                      std::uint64_t most) {
  const std::uint64_t limit = turn.tunables.max_in_flight_packets;
  const std::uint64_t room = limit - std::min<std::uint64_t>(paths.in_flight_on_answering(), limit);
  most =
      outgoing.waiting_fragments(peer.sends, std::min<std::uint64_t>({most, room, Burst::kMost}));
  burst.size = 0;
  if (most < 2 || !outgoing.can_take_back(most) || !begin_division(peer, want_bytes) ||
      division.next() == nullptr) {
    return Sent::more;
  }
  const std::size_t taken = sender.take_buffers(std::span(burst.buffers).first(most));
  burst.size = write_divided(peer, want_bytes, taken);
  sender.give_buffers(std::span(burst.buffers).subspan(burst.size, taken - burst.size));
  if (burst.size == 0) return Sent::more;
  peer.paths.turn_slot = static_cast<std::uint8_t>(division.last().path->slot + 1);
  return hand_over_rows(peer) ? sent(peer) : refuse();
}

// A burst whose last pick this is has left over the path.
void Endpoint::Core::burst_left(Peer& peer, Path& path, const Pick& last) {
  peer.sends.told_floor = peer.sends.floor;
  const OutgoingMessage& message = outgoing.at(last.message);
  path.prompt = message.next_fragment == message.fragments;
  paths.arm_pto(path);
}

// The path's NIC did not take that packet of the burst.
void Endpoint::Core::take_back(Peer& peer, Path& path, const Pick& pick, const TxPacket& packet) {
  path.lanes.ended(static_cast<std::uint8_t>(packet.entropy), false, false);
  sender.give_buffers(std::span(&packet.buffer, 1));
  if (pick.carries_control) outbox.take_back(peer);
  outgoing.unpick(peer, pick);
}

Endpoint::Core::Sent Endpoint::Core::refuse() {
  ++turn.counters.nic_backpressure;
  turn.refused();
  return Sent::refused;
}

Endpoint::Core::Sent Endpoint::Core::transmit_burst(Peer& peer, std::uint64_t in_a_row) {
  if (peer.sends.retransmits.empty() && peer.sends.to_send.empty()) return Sent::all;
  sessions.hear_news(peer);
  const std::uint64_t want_bytes = wire_bytes_of_full_packet(peer) * sender.limits().burst_packets;
  if (!peer.sends.to_send.empty())
    paths.bind_for_bulk(peer, outgoing.at(peer.sends.to_send.front()).fragments);
  if (in_a_row > 1 && !std::has_single_bit(peer.paths.bound) && !turn.was_refused()) {
    const Sent outcome = transmit_divided(peer, want_bytes, in_a_row);
    if (burst.size > 0) return outcome;
  }
  const Time others = std::exchange(pace.data_at, kNever);
  Path* path = choose_path(peer, want_bytes);
  const bool waits = path == nullptr && pace.data_at != kNever;
  pace.data_at = earlier(pace.data_at, others);
  if (waits) return Sent::refused;
  if (Path* more = paths.bind_beside(peer, path, want_bytes)) path = more;
  if (path == nullptr) {
    ++turn.counters.window_limited;
    return awaits_way(*this, peer) ? Sent::refused : Sent::blocked;
  }
  burst.size = 0;
  burst.remote = sender.remote(peer, pair_of(*path));
  if (burst.remote == kNoRemote) {
    (void)paths.has_way(peer, *path);
    return Sent::more;  // over another path
  }
  const std::size_t limit =
      sender.take_buffers(std::span(burst.buffers).first(burst_limit(peer, *path, in_a_row)));
  if (limit == 0) return Sent::refused;
  auto& picks = burst.rows.front().picks;
  auto& packets = burst.rows.front().packets;
  while (burst.size < limit && outgoing.pick(peer.sends, picks[burst.size])) {
    write_fragment(peer, *path, path->sent.next() + burst.size, picks[burst.size],
                   *burst.buffers[burst.size], packets[burst.size]);
    ++burst.size;
  }
  const std::size_t accepted =
      burst.size == 0 ? 0
                      : sender.send_burst(path->local_nic, std::span(packets).first(burst.size));
  sender.give_buffers(std::span(burst.buffers).subspan(burst.size, limit - burst.size));
  for (std::size_t i = 0; i < accepted; ++i) commit_fragment(peer, *path, picks[i], packets[i]);
  for (std::size_t i = burst.size; i-- > accepted;) take_back(peer, *path, picks[i], packets[i]);
  if (accepted > 0) {
    burst_left(peer, *path, picks[accepted - 1]);
    if (path->prompt) paths.arm_all_prompt(peer);
  }
  return accepted < burst.size ? refuse() : sent(peer);
}

}  // namespace hawser::proto
