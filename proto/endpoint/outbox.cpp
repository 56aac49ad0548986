// SPDX-License-Identifier: Apache-2.0
// The control that is due to a peer, and how it is sent: path acks, statuses, grants, requests and
// NIC states. It goes in control packets at the end of a turn that has polled every NIC, or in
// front of a small payload.
//
// Timer of a peer: `ack_at`, armed at the first unacknowledged packet (path/path_arrivals.cpp) or
// status, max_ack_delay later; `ack_now` sends with this turn.
#include <algorithm>
#include <array>
#include <utility>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser::proto {

namespace {
constexpr std::uint64_t kFinalsRepeated = 64;
constexpr std::uint32_t kFewStatuses = 4;
constexpr std::uint32_t kMostControl = 128;  // peers that a turn sends control packets to

constexpr std::size_t kRequestBytes = (2 + wire::kMaxBitmapWords) * wire::kWordBytes;

// Where a stopped sender continues: behind the last fragment that is here. Missing ones before it
// are requested.
std::uint32_t goes_on_from(const IncomingMessage& message) {
  const std::uint32_t hole = message.arrived.first_missing();
  return message.no_room ? std::max(hole, std::min(message.arrived.beyond(), message.granted))
                         : hole;
}
}  // namespace

void Endpoint::Core::say_status(Peer& peer, std::uint64_t number, wire::MessageStatus status) {
  // The newest status of a number is the one that counts. A run of questions has one answer.
  const std::uint32_t last = peer.statuses.back();
  if (last != kNoIndex) {
    PendingStatus& run = statuses.at(last);
    if (run.status == status && number - run.number < run.run) return;
    if (run.status == status && number == run.number + run.run && run.run < wire::kMaxStatusRun) {
      ++run.run;
      return;
    }
    if (run.number == number && run.run == 1) {
      run.status = status;
      return;
    }
  }
  SlabId id;
  PendingStatus* entry = statuses.try_allocate(id);
  if (entry == nullptr) return;  // the sender asks again
  entry->number = number;
  entry->status = status;
  peer.statuses.push_back(statuses, id.index);
  if (peer.ack_at == kNever)
    peer.ack_at = turn.now() + microseconds(turn.tunables.max_ack_delay_us);
  owe(peer);
}

void Endpoint::Core::owe(Peer& peer) {
  if (!ackers.contains(peer)) ackers.push_back(peers, index_of(peer));
  touch(peer);  // its timers may be the only ones to bring a turn
}

// Sends it with the next turn: a caller's answer to what just completed can carry it.
void Endpoint::Core::owe_soon(Peer& peer) {
  peer.ack_at = earlier(peer.ack_at, turn.now());
  peer.ack_not_in_turn = turn.number();
  owe(peer);
}

// How many turns ago the newest turn began whose data rings have been drained since.
std::uint16_t Endpoint::Core::turns_behind() const {
  std::uint32_t behind = 0;
  for (const LocalNic& local : nics) behind = std::max(behind, turn.number() - local.drained);
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(behind, wire::kFarBehind));
}

// Sends control packets to all peers that are due. The others stay on the list; their timer is
// armed. The next turn, which is due at once, sends those beyond the budget.
void Endpoint::Core::acknowledge(bool urgent_only) {
  if (allowance.pass(turn.now())) watch_rings();
  std::uint32_t budget = kMostControl;
  std::uint32_t following = kNoIndex;
  for (std::uint32_t i = ackers.front(); i != kNoIndex && budget > 0; i = following) {
    following = ackers.next(peers, i);
    if (acknowledge(peers.at(i), urgent_only)) --budget;
  }
}

// False: nothing is due to the peer yet, or nothing can be sent.
bool Endpoint::Core::acknowledge(Peer& peer, bool urgent_only) {
  if (peer.state != SessionState::ready) {
    ackers.remove(peers, index_of(peer));
    return false;
  }
  if (!peer.ack_now &&
      (urgent_only || turn.now() < peer.ack_at || peer.ack_not_in_turn == turn.number())) {
    return false;
  }
  while (peer.ack_now || turn.now() >= peer.ack_at) {
    if (!send_control(peer)) {  // no buffer, or no room in the NIC: retry soon
      turn.refused();
      return false;
    }
    if (!something_owed(peer)) break;
    peer.ack_now = true;
  }
  turn.progress();
  ackers.remove(peers, index_of(peer));
  touch(peer);
  return true;
}

bool Endpoint::Core::something_owed(const Peer& peer) const {
  if (!peer.statuses.empty() || !peer.to_say.empty() || peer.nic_state_due != 0 ||
      peer.say_solicitation) {
    return true;
  }
  for (const std::uint32_t index : peer.receive_paths) {
    if (index != kNoIndex && receive_paths.at(index).ack_due) return true;
  }
  return false;
}

// Writes ACK_INFO and the PATH_ACKs of the paths that are due. In front of a request it writes
// those of all paths, and leaves room for the request. Acks that are not due then have their
// largest number alone. Acks that don't fit stay due. False if nothing was written.
bool Endpoint::Core::write_acks(Peer& peer, wire::PacketWriter& writer, bool request_follows) {
  const std::size_t reserve = request_follows ? kRequestBytes : 0;
  bool any = false;
  for (const std::uint32_t index : peer.receive_paths) {
    if (index == kNoIndex) continue;
    ReceivePath& path = receive_paths.at(index);
    if (!path.ack_due && !request_follows) continue;
    if (!any) {
      const NicLimits& limits = sender.limits();
      const std::uint32_t kib =
          allowance.share_kib(limits.receive_bytes, limits.fragment_bytes + wire::kDataHeaderBytes);
      if (!writer.ack_info(turn.number(), turns_behind(), kib)) return false;
    }
    any = true;
    std::array<std::uint64_t, PathWindow::kWords> words;
    std::size_t count = path.window.write_ack(path.reach, words);
    if (!path.ack_due) count = 1;
    const std::size_t marks_words = path.marks != 0 ? 2 : 0;
    if (writer.room() < (2 + count + marks_words) * wire::kWordBytes + reserve) return true;
    // Marks come first, as the sender forgets acknowledged packets.
    if (path.marks != 0 &&
        writer.path_marks(path.slot, path.generation, to_wire(path.window.largest()), path.marks)) {
      path.marks = 0;
    }
    const auto residence = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>((turn.now() - path.largest_arrival).ns, 0, 0xffffffff));
    if (!writer.path_ack(path.slot, path.generation, to_wire(path.window.largest()), residence,
                         path.ce_count, std::span(words).first(count))) {
      return true;
    }
    path.ack_due = false;
    path.unacknowledged = 0;
  }
  if (any) {
    peer.unacknowledged = 0;
    peer.ack_now = false;
    peer.ack_at = kNever;
  }
  return any;
}

// A few statuses are repeated in the next control packet, where losses should be repaired within
// round trips. Repeating many would cost more than answering a question.
void Endpoint::Core::write_statuses(Peer& peer, wire::PacketWriter& writer) {
  for (std::uint32_t told = 0; !peer.statuses.empty();) {
    const std::uint32_t index = peer.statuses.front();
    const PendingStatus& next = statuses.at(index);
    if (!writer.status(to_wire(next.number), next.status, next.run)) return;
    told += next.run;
    peer.statuses.pop_front(statuses);
    statuses.free(index);
    peer.finals_again = nics[peer.route.local].lanes > 1 && told <= kFewStatuses;
  }
}

// A waiting peer may have missed the last packet with statuses, and have nothing more to ask with.
void Endpoint::Core::write_finals(Peer& peer, wire::PacketWriter& writer) {
  if (!peer.say_finals) return;
  peer.say_finals = false;
  for (std::uint64_t i = 0; i < kFinalsRepeated; ++i) {
    const std::uint64_t number = peer.remote_floor + i;
    const auto entry = peer.incoming.get(number);
    if (!entry || !is_finished_entry(*entry)) continue;
    if (!writer.status(to_wire(number), status_of_entry(*entry))) return;
  }
}

// Writes grants and requests. False: no room for the rest. The last grant of a message is repeated
// in the next packet, as no other grant follows it. Without room there it is not repeated.
bool Endpoint::Core::write_sayings(Peer& peer, wire::PacketWriter& writer) {
  const std::uint32_t again = std::exchange(peer.granted_all, kNoIndex);
  while (!peer.to_say.empty()) {
    const std::uint32_t index = peer.to_say.front();
    IncomingMessage& message = incoming.at(index);
    const SlabId id = incoming.id_at(index);
    if (message.say_grant) {
      const std::uint32_t from = goes_on_from(message);
      if (!writer.grant(to_wire(message.number), id.index, id.generation, from, message.granted)) {
        return false;
      }
      if (turn.tracing()) {
        trace_receive(TraceKind::grant_given, message, 0, from, message.granted);
      }
      message.say_grant = false;
      if (message.granted == message.fragments) peer.granted_all = index;
    }
    if (message.say_request) {
      std::array<std::uint64_t, wire::kMaxBitmapWords> words;
      const std::uint32_t base = message.arrived.first_missing();
      const std::size_t count = message.arrived.write_missing(base, message.may_come, words);
      if (count > 0) {
        if (!writer.request(to_wire(message.number), base, std::span(words).first(count))) {
          return false;
        }
        ++turn.counters.requests_sent;
        if (turn.tracing()) trace_receive(TraceKind::request_sent, message, 0, base, 0);
      }
      message.say_request = false;
    }
    peer.to_say.pop_front(incoming);
  }
  if (again == kNoIndex || !incoming.is_live(again)) return true;
  const IncomingMessage& message = incoming.at(again);
  if (message.peer == index_of(peer) && message.granted == message.fragments) {
    const SlabId id = incoming.id_at(again);
    (void)writer.grant(to_wire(message.number), id.index, id.generation, goes_on_from(message),
                       message.granted);
  }
  return true;
}

// Puts due control in front of a small payload.
void Endpoint::Core::piggyback(Peer& peer, wire::PacketWriter& writer) {
  if (!ackers.contains(peer) || peer.ways == Ways::all) return;
  (void)write_acks(peer, writer, false);
  write_statuses(peer, writer);
  if (something_owed(peer)) {
    peer.ack_now = true;
  } else {
    peer.ack_at = kNever;
    ackers.remove(peers, index_of(peer));
  }
}

bool Endpoint::Core::send_control(Peer& peer) {
  // Writing a block marks it as sent, so nothing is written before there is a way.
  if (sender.remote(peer, peer.route) == kNoRemote &&
      sender.remote(peer, control_routes.first_of(peer, peer.ways)) == kNoRemote) {
    return false;
  }
  PacketBuffer* const buffer = sender.take_buffer();
  if (buffer == nullptr) return false;
  wire::PacketWriter writer(*buffer, sender.limits().control_bytes);
  writer.begin(wire::PacketType::control, peer.remote_index, peer.remote_token,
               to_wire(peer.floor));
  const std::uint16_t nic_state_due = peer.nic_state_due;
  if (peer.finals_again) peer.say_finals = true;
  peer.finals_again = false;
  bool asks = peer.say_solicitation;
  peer.to_say.for_each(incoming, [&](std::uint32_t i) { asks |= incoming.at(i).say_request; });
  (void)write_acks(peer, writer, asks);
  for (std::size_t nic = 0; nic < nics.size() && peer.nic_state_due != 0; ++nic) {
    if ((peer.nic_state_due >> nic & 1) != 0 &&
        writer.nic_state(static_cast<std::uint8_t>(nic), nics[nic].up, nics[nic].sequence)) {
      peer.nic_state_due = static_cast<std::uint16_t>(peer.nic_state_due & ~(1u << nic));
    }
  }
  if (write_sayings(peer, writer) && write_solicitation(peer, writer)) {
    write_statuses(peer, writer);
    if (peer.statuses.empty()) write_finals(peer, writer);
  }
  peer.ack_now = false;
  peer.ack_at = kNever;
  ++turn.counters.control_packets_sent;
  const Ways ways = peer.ways;
  peer.ways = Ways::one;
  if (!control_routes.send(peer, ways, *buffer, writer)) {
    // Peers ask again for statuses, grants and requests that they miss, but not for states of NICs.
    peer.nic_state_due = nic_state_due;
    peer.ack_now = true;
    for (const std::uint32_t index : peer.receive_paths) {
      if (index != kNoIndex) receive_paths.at(index).ack_due = true;
    }
    return false;
  }
  peer.told_floor = peer.floor;
  return true;
}

}  // namespace hawser::proto
