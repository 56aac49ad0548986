// SPDX-License-Identifier: Apache-2.0
// Sending: which peer, which path and which fragments make the next burst of
// the driver's size.
//
// The path is chosen for each burst (path_chooser.hpp): an UP path with room in
// its window. If no path is UP, SUSPECT ones serve. Undelivered packets stay in
// flight, so a degraded NIC gets its share, not an equal one. Equal NICs get
// equal shares, however round trips vary on a busy host.
//
// Peers take turns after each burst, and so do the paths of a peer. If there is
// only one of each, nothing could go between two bursts. Then as many packets
// as may go now are handed over at once.
//
// A NIC gets no more than keeps it busy until the next turn, so that
// retransmissions do not wait behind a whole message.
//
// A packet becomes part of the state only when its NIC has accepted it. Refused
// packets go back to where they were picked, in order. (Only the lane's turn is
// lost: the next packet takes another lane. Messages that share a packet count
// as in flight once it is written, while all of them are at hand.)
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"
#include "proto/path/path_chooser.hpp"

namespace hawser::proto {

namespace {

// Path numbers reserved for probes: if data had all of them in flight and lost,
// no probe could ask.
constexpr std::uint64_t kKeptForProbes = 2;

// Whether the receiver has granted the bytes that are sent next.
template <class Core>
bool sends_granted(const Core& core, const Peer& peer) {
  return !peer.to_send.empty() && core.outgoing.at(peer.to_send.front()).granted;
}

// How much may be in flight on the path. Granted bytes fit the receiver's
// rings, however many others send to it. The peer's advertised allowance caps
// ungranted bytes in flight.
std::uint64_t window_of(const Peer& peer, const Path& path, bool granted) {
  return granted ? path.window.bytes() : std::min(path.window.bytes(), peer.allowance);
}

// Whether nobody answers on the path, and such paths use up the limit that
// other peers leave.
template <class Core>
bool is_over_limit(const Core& core, const Path& path) {
  return path.written_off && path.packets_in_flight > 0 &&
         core.in_flight >= core.turn.tunables.max_in_flight_packets;
}

// Whether a path may carry data as soon as its driver knows the way.
template <class Core>
bool awaits_way(Core& core, Peer& peer) {
  bool any = false;
  core.for_each_path(peer, [&](const Path& path) { any |= path.without_way; });
  return any;
}

// Counts waiting fragments, up to `most`: retransmissions, and new ones under
// one window.
template <class Core>
std::uint64_t waiting_fragments(const Core& core, const Peer& peer, std::uint64_t most) {
  std::uint64_t count = 0;
  for (std::uint32_t i = peer.retransmits.front(); i != kNoIndex && count < most; ++count) {
    i = peer.retransmits.next(core.retransmits, i);
  }
  if (peer.to_send.empty()) return count;
  const bool granted = core.outgoing.at(peer.to_send.front()).granted;
  for (std::uint32_t i = peer.to_send.front(); i != kNoIndex && count < most;) {
    const OutgoingMessage& message = core.outgoing.at(i);
    if (message.granted != granted) break;
    count += message.may_send - message.next_fragment;
    i = peer.to_send.next(core.outgoing, i);
  }
  return std::min(count, most);
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
      touch(peer);
    }
    // A peer that windows or paths block returns to the list when the block
    // ends.
    if (outcome == Sent::more || outcome == Sent::refused) {
      if (!senders.contains(peer)) senders.push_back(peers, index);
    }
    if (outcome == Sent::refused) ++refusals;
  }
}

namespace {

// Offers the paths in state `wanted` to a policy. `any`: there were some,
// perhaps without room.
template <class Policy, class Core>
Path* best_path(Core& core, Peer& peer, PathState wanted, std::uint64_t want_bytes, bool& any) {
  const std::uint64_t full = wire_bytes_of_full_packet(peer);
  const bool granted = sends_granted(core, peer);
  Policy policy;
  for (std::uint32_t left = std::rotr(peer.bound, static_cast<int>(peer.turn_slot)); left != 0;
       left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    Path* path = core.path_of(peer, (i + peer.turn_slot) % kMaxPaths);
    const LocalNic& nic = core.nics[path->local_nic];
    if (path->state != wanted || !nic.up) continue;
    if (path->without_way && !core.has_way(peer, *path)) continue;
    any = true;
    const std::uint64_t window = window_of(peer, *path, granted);
    // A burst that is cut short costs as much as a full one: wait for room for
    // half the window.
    const std::uint64_t least = std::min(want_bytes, std::max(full, window / 2));
    const bool has_room = (path->bytes_in_flight == 0 || path->bytes_in_flight + least <= window) &&
                          !is_over_limit(core, *path) &&
                          !core.pace.has_enough(nic.idle_at, core.turn.now());
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
  if (path != nullptr) peer.turn_slot = static_cast<std::uint8_t>(path->slot + 1);
  return path;
}

namespace {

// Takes the next fragment to send. Lost ones come first.
template <class Core>
bool next_pick(Core& core, Peer& peer, Pick& pick) {
  while (!peer.retransmits.empty()) {
    const std::uint32_t entry = peer.retransmits.front();
    const Retransmit retransmit = core.retransmits.at(entry);
    OutgoingMessage& message = core.outgoing.at(retransmit.message.index);
    core.drop_retransmit(peer, entry);
    if (message.stopped) {
      core.consider_asking(message);  // perhaps nothing of it is in flight any more
      continue;
    }
    pick = {retransmit.message.index, retransmit.fragment, 0, retransmit.was_sent};
    return true;
  }
  if (peer.to_send.empty()) return false;
  const std::uint32_t index = peer.to_send.front();
  OutgoingMessage& message = core.outgoing.at(index);
  pick = {index, message.next_fragment++, 0, false};
  if (message.next_fragment >= message.may_send) peer.to_send.remove(core.outgoing, index);
  return true;
}

// Gives back, last first, fragments that no NIC took. A new fragment waits like
// a lost one if a later one of its message has left over another NIC.
template <class Core>
void unpick(Core& core, Peer& peer, const Pick& pick) {
  OutgoingMessage& message = core.outgoing.at(pick.message);
  if (pick.more > 0) return core.unpick_packed(peer, pick);
  if (pick.again || message.next_fragment != pick.fragment + 1) {
    SlabId id;
    if (Retransmit* entry = core.retransmits.try_allocate(id)) {
      entry->message = core.outgoing.id_at(pick.message);
      entry->fragment = pick.fragment;
      entry->was_sent = pick.again;
      peer.retransmits.push_front(core.retransmits, id.index);
      ++message.queued;
    }
    return;
  }
  message.next_fragment = pick.fragment;
  if (!peer.to_send.contains(core.outgoing, pick.message)) {
    peer.to_send.push_front(core.outgoing, pick.message);
  }
}

}  // namespace

void Endpoint::Core::write_fragment(Peer& peer, Path& path, std::uint64_t number, Pick& pick,
                                    PacketBuffer& buffer, TxPacket& packet) {
  const OutgoingMessage& message = outgoing.at(pick.message);
  const auto payload = payload_of(peer, message, pick.fragment);
  wire::PacketWriter writer(buffer);
  wire::CommonHeader& header =
      writer.begin(message.granted ? wire::PacketType::granted : wire::PacketType::data,
                   peer.remote_index, peer.remote_token, to_wire(peer.floor));
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
  if (payload.size() + PacketBuffer::kBytes <= peer.fragment_bytes) piggyback(peer, writer);
  packet = TxPacket{};
  packet.buffer = &buffer;
  packet.remote = burst.remote;
  packet.queue = Queue::data;
  packet.entropy = path.lanes.take(nics[path.local_nic].lanes, path.lane_turn);
  if (message.fragments == 1 && pack_others(peer, pick, writer, packet)) return;
  packet.header_bytes = writer.finish(checksum, payload);
  packet.payload = payload.data();
  packet.payload_bytes = static_cast<std::uint32_t>(payload.size());
  packet.cookie = pick.message;
}

void Endpoint::Core::commit_fragment(Peer& peer, Path& path, const Pick& pick,
                                     const TxPacket& packet) {
  OutgoingMessage& message = outgoing.at(pick.message);
  if (path.packets_in_flight == 0) path.oldest = path.sent.next();
  const std::uint64_t number = path.sent.next();
  SentPacket& record = path.sent.push(sent_blocks);
  LocalNic& nic = nics[path.local_nic];
  nic.give(turn.now(), packet.header_bytes + packet.payload_bytes);
  record.sent = turn.now();
  record.departed = path.last_departed = nic.idle_at;
  record.message = pick.message;
  record.lane = static_cast<std::uint8_t>(packet.entropy);
  record.at_end = pick.at_end;
  record.wire_bytes = static_cast<std::uint16_t>(packet.header_bytes + packet.payload_bytes);
  if (pick.more > 0) {
    record_packed(pick, record);
  } else {
    record.message_generation = outgoing.id_at(pick.message).generation;
    record.fragment = pick.fragment;
    ++message.in_flight;
    ++message.unreaped;
    turn.counters.data_bytes_sent += packet.payload_bytes;
  }
  ++in_flight;
  written_off += path.written_off;
  ++path.packets_in_flight;
  path.bytes_in_flight += record.wire_bytes;
  path.balance_bytes += record.wire_bytes;
  ++path.packets_sent;
  ++nic.data_packets_sent;
  ++turn.counters.data_packets_sent;
  if (pick.again) {
    ++turn.counters.fragments_retransmitted;
    turn.counters.bytes_retransmitted += packet.payload_bytes;
    ++nic.retransmits;
  }
  if (turn.tracing()) {
    turn.trace(traced(pick.again ? TraceKind::packet_retransmitted : TraceKind::packet_sent, peer,
                      path, number, record));
  }
}

// How many packets may go on the path now: limited by its window, its numbers,
// the endpoint's limit, and the NIC's burst, or `in_a_row` if that is more.
std::size_t Endpoint::Core::burst_limit(Peer& peer, Path& path, std::uint64_t in_a_row) {
  const std::uint64_t full = wire_bytes_of_full_packet(peer);
  const std::uint64_t window = window_of(peer, path, sends_granted(*this, peer));
  const std::uint64_t room = window - std::min(window, path.bytes_in_flight);
  std::uint64_t limit = std::max<std::uint64_t>(room / full, 1);
  const LocalNic& nic = nics[path.local_nic];
  if (!std::has_single_bit(peer.bound)) {
    in_a_row = 1;
  } else {
    in_a_row = std::min(in_a_row, pace.packets_to_enough(nic, turn.now(), full));
  }
  limit = std::min(limit, std::max<std::uint64_t>(nic.nic->caps().burst, in_a_row));
  limit = std::min<std::uint64_t>(limit, Burst::kMost);
  const std::uint64_t of_limit = path.written_off ? in_flight : in_flight - written_off;
  limit =
      std::min(limit, turn.tunables.max_in_flight_packets -
                          std::min<std::uint64_t>(of_limit, turn.tunables.max_in_flight_packets));
  if (limit > 1) limit = waiting_fragments(*this, peer, limit);
  trim(path, turn.now() - path.response.overdue(turn.granularity) * 2);
  const std::uint64_t places = reserve_records(path, limit + kKeptForProbes);
  return static_cast<std::size_t>(places - std::min(places, kKeptForProbes));
}

// Begins a division among the paths that are UP. False: it could not be the
// same as one choice after the other.
bool Endpoint::Core::begin_division(Peer& peer, std::uint64_t want_bytes) {
  if (turn.tunables.spray_weighted == 0) return false;
  const bool granted = sends_granted(*this, peer);
  division.start(wire_bytes_of_full_packet(peer), want_bytes);
  for (std::uint32_t left = std::rotr(peer.bound, static_cast<int>(peer.turn_slot)); left != 0;
       left &= left - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(left));
    Path& path = *path_of(peer, (i + peer.turn_slot) % kMaxPaths);
    const LocalNic& nic = nics[path.local_nic];
    if (path.written_off) return false;
    if (path.state != PathState::up || !nic.up) continue;
    if (path.without_way && !has_way(peer, path)) continue;
    division.add(path, window_of(peer, path, granted), nic.nic->caps().burst);
  }
  return division.size() > 0;
}

// Readies a share for its first packet, or one more. False: the path has no way
// or no records.
bool Endpoint::Core::prepare_share(Peer& peer, Share& share) {
  constexpr std::uint32_t kRecords = 8;  // reserved at a time
  Path& path = *share.path;
  if (share.packets == 0) {
    share.remote = remote(peer, path.local_nic, path.remote_nic);
    if (share.remote == kNoRemote) return false;
    trim(path, turn.now() - path.response.overdue(turn.granularity) * 2);
  }
  const std::uint64_t places = reserve_records(path, share.packets + kRecords + kKeptForProbes);
  share.places = static_cast<std::uint32_t>(places - std::min(places, kKeptForProbes));
  return share.packets < share.places;
}

// Picks up to `most` packets, and writes each for the path whose turn it is.
void Endpoint::Core::write_divided(Peer& peer, std::uint64_t want_bytes, std::size_t most) {
  burst.size = 0;
  const bool granted = sends_granted(*this, peer);
  const bool bound = all_bound(peer);
  std::uint32_t front = peer.to_send.front();
  for (LocalNic& nic : nics) nic.planned_idle_at = nic.idle_at;
  pace_shares(nullptr);
  while (burst.size < most) {
    // What a choice of its own would look at first ends the division where it
    // would change a path.
    if (peer.to_send.front() != front) {
      front = peer.to_send.front();
      if (sends_granted(*this, peer) != granted) return;
      if (front != kNoIndex && outgoing.at(front).fragments > 1) {
        if (!bound) return;
        bind_for_bulk(peer, outgoing.at(front).fragments);
      }
    }
    Share* const share = division.next();
    if (share == nullptr || (crowds(peer, share->in_flight, want_bytes) && !bound)) return;
    if (share->packets == share->places && !prepare_share(peer, *share)) return;
    Pick& pick = burst.picks[burst.size];
    TxPacket& packet = burst.packets[burst.size];
    if (!next_pick(*this, peer, pick)) return;
    burst.remote = share->remote;
    write_fragment(peer, *share->path, share->path->sent.next() + share->packets, pick,
                   *burst.buffers[burst.size], packet);
    burst.shares[burst.size++] = static_cast<std::uint8_t>(division.index_of(*share));
    const std::uint32_t bytes = packet.header_bytes + packet.payload_bytes;
    division.give(bytes);
    LocalNic& nic = nics[share->path->local_nic];
    if (nic.ns_per_byte == 0) continue;
    nic.planned_idle_at = later(nic.planned_idle_at, turn.now()) + nic.time_of(bytes);
    pace_shares(&nic);
  }
}

// Closes the shares of a NIC, or of all, whose own queue will last until the
// next turn.
void Endpoint::Core::pace_shares(const LocalNic* only) {
  for (std::size_t i = 0; i < division.size(); ++i) {
    Share& share = division[i];
    const LocalNic& nic = nics[share.path->local_nic];
    if ((only != nullptr && only != &nic) || share.filled == Share::kNoRoom) continue;
    if (pace.has_enough(nic.planned_idle_at, turn.now())) Division::close(share);
  }
}

// Hands each path its packets as one burst. Returns a bit for each pick that no
// NIC took.
std::uint64_t Endpoint::Core::hand_over_shares(Peer& peer) {
  std::array<std::uint8_t, kMaxPaths + 1> end{};  // of each share among the sorted packets
  for (std::size_t i = 0; i < division.size(); ++i) {
    end[i + 1] = static_cast<std::uint8_t>(end[i] + division[i].packets);
  }
  auto next = end;
  std::array<std::uint8_t, Burst::kMost> order;
  for (std::size_t i = 0; i < burst.size; ++i) {
    const std::uint8_t at = next[burst.shares[i]]++;
    burst.sorted[at] = burst.packets[i];
    order[at] = static_cast<std::uint8_t>(i);
  }
  std::uint64_t refused = 0;
  bool any_end = false;
  for (std::size_t i = 0; i < division.size(); ++i) {
    Share& share = division[i];
    if (share.packets == 0) continue;
    const auto packets = std::span<const TxPacket>(burst.sorted).subspan(end[i], share.packets);
    LocalNic& nic = nics[share.path->local_nic];
    const std::size_t accepted = nic.nic->tx_burst(packets);
    for (std::size_t j = 0; j < accepted; ++j) {
      const Pick& pick = burst.picks[order[end[i] + j]];
      commit_fragment(peer, *share.path, pick, packets[j]);
      any_end |= pick.at_end;
    }
    for (std::size_t j = accepted; j < share.packets; ++j) {
      refused |= std::uint64_t{1} << order[end[i] + j];
    }
    share.packets = static_cast<std::uint32_t>(accepted);
    if (accepted > 0) nic.gathers = true;
  }
  if (any_end) arm_all_prompt(peer);
  for (std::size_t i = 0; i < division.size(); ++i) {
    const Share& share = division[i];
    if (share.packets == 0) continue;
    peer.told_floor = peer.floor;
    burst_left(*share.path, burst.picks[order[end[i] + share.packets - 1]]);
  }
  return refused;
}

// The pick is the last one of a burst that has just left over the path.
void Endpoint::Core::burst_left(Path& path, const Pick& pick) {
  const OutgoingMessage& message = outgoing.at(pick.message);
  path.prompt = message.next_fragment == message.fragments;
  arm_pto(path);
}

// Sends up to `most` packets over all paths at once. `more` without a packet:
// nothing was done.
Endpoint::Core::Sent Endpoint::Core::transmit_divided(Peer& peer, std::uint64_t want_bytes,
                                                      std::uint64_t most) {
  const std::uint64_t others = in_flight - written_off;
  const std::uint64_t room = turn.tunables.max_in_flight_packets -
                             std::min<std::uint64_t>(others, turn.tunables.max_in_flight_packets);
  most = waiting_fragments(*this, peer, std::min<std::uint64_t>({most, room, Burst::kMost}));
  burst.size = 0;
  if (most < 2 || retransmits.available() < most || !begin_division(peer, want_bytes)) {
    return Sent::more;
  }
  const std::size_t taken = pool.take(std::span(burst.buffers).first(most));
  write_divided(peer, want_bytes, taken);
  pool.give(std::span(burst.buffers).subspan(burst.size, taken - burst.size));
  if (burst.size == 0) return Sent::more;
  peer.turn_slot = static_cast<std::uint8_t>(division[burst.shares[burst.size - 1]].path->slot + 1);
  const std::uint64_t refused = hand_over_shares(peer);
  if (refused == 0)
    return peer.retransmits.empty() && peer.to_send.empty() ? Sent::all : Sent::more;
  for (std::size_t i = burst.size; i-- > 0;) {
    if ((refused >> i & 1) != 0) take_back(peer, *division[burst.shares[i]].path, i);
  }
  return refuse();
}

Endpoint::Core::Sent Endpoint::Core::transmit_burst(Peer& peer, std::uint64_t in_a_row) {
  if (peer.retransmits.empty() && peer.to_send.empty()) return Sent::all;
  hear_news(peer);
  const std::uint64_t want_bytes = wire_bytes_of_full_packet(peer) * burst_packets;
  if (!peer.to_send.empty()) bind_for_bulk(peer, outgoing.at(peer.to_send.front()).fragments);
  if (in_a_row > 1 && !std::has_single_bit(peer.bound) && !turn.was_refused()) {
    const Sent outcome = transmit_divided(peer, want_bytes, in_a_row);
    if (burst.size > 0) return outcome;
  }
  const Time others = std::exchange(pace.data_at, kNever);
  Path* path = choose_path(peer, want_bytes);
  const bool waits = path == nullptr && pace.data_at != kNever;
  pace.data_at = earlier(pace.data_at, others);
  if (waits) return Sent::refused;
  if (Path* more = bind_beside(peer, path, want_bytes)) path = more;
  if (path == nullptr) {
    ++turn.counters.window_limited;
    return awaits_way(*this, peer) ? Sent::refused : Sent::blocked;
  }
  burst.size = 0;
  burst.remote = remote(peer, path->local_nic, path->remote_nic);
  if (burst.remote == kNoRemote) {
    (void)has_way(peer, *path);
    return Sent::more;  // over another path
  }
  const std::size_t limit =
      pool.take(std::span(burst.buffers).first(burst_limit(peer, *path, in_a_row)));
  if (limit == 0) return Sent::refused;
  while (burst.size < limit && next_pick(*this, peer, burst.picks[burst.size])) {
    write_fragment(peer, *path, path->sent.next() + burst.size, burst.picks[burst.size],
                   *burst.buffers[burst.size], burst.packets[burst.size]);
    ++burst.size;
  }
  const std::size_t accepted =
      burst.size == 0
          ? 0
          : nics[path->local_nic].nic->tx_burst(std::span(burst.packets).first(burst.size));
  pool.give(std::span(burst.buffers).subspan(burst.size, limit - burst.size));
  for (std::size_t i = 0; i < accepted; ++i) {
    commit_fragment(peer, *path, burst.picks[i], burst.packets[i]);
  }
  for (std::size_t i = burst.size; i-- > accepted;) take_back(peer, *path, i);
  if (accepted > 0) {
    nics[path->local_nic].gathers = true;
    peer.told_floor = peer.floor;
    burst_left(*path, burst.picks[accepted - 1]);
    if (path->prompt) arm_all_prompt(peer);
  }
  if (accepted < burst.size) return refuse();
  return peer.retransmits.empty() && peer.to_send.empty() ? Sent::all : Sent::more;
}

// The NIC did not take a packet of the burst.
void Endpoint::Core::take_back(Peer& peer, Path& path, std::size_t i) {
  path.lanes.ended(static_cast<std::uint8_t>(burst.packets[i].entropy), false, false);
  pool.give(std::span(&burst.packets[i].buffer, 1));
  unpick(*this, peer, burst.picks[i]);
}

Endpoint::Core::Sent Endpoint::Core::refuse() {
  ++turn.counters.nic_backpressure;
  turn.refused();
  return Sent::refused;
}

}  // namespace hawser::proto
