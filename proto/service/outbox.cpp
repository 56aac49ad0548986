// SPDX-License-Identifier: Apache-2.0
#include "proto/service/outbox.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "proto/base/sequence.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {
constexpr std::uint64_t kFinalsRepeated = 64;
constexpr std::uint32_t kFewStatuses = 4;
constexpr std::uint32_t kMostControl = 128;  // peers that a turn sends control packets to

constexpr std::size_t kRequestBytes = (2 + wire::kMaxBitmapWords) * wire::kWordBytes;

// A sender has about its window in flight. With few acknowledgements in a round trip it sends in
// bursts, and learns late.
constexpr std::uint64_t kAcksInAWindow = 4;
constexpr std::uint64_t kFewest = 2;
constexpr std::uint8_t kMostCounted = 255;
std::uint64_t packets_per_ack(std::uint64_t under_way) {
  return std::max(under_way / kAcksInAWindow, kFewest);
}

// Where a stopped sender continues: behind the last fragment that is here. Missing ones before it
// are requested.
std::uint32_t goes_on_from(const IncomingMessage& message) {
  const std::uint32_t hole = message.arrived.first_missing();
  return message.no_room ? std::max(hole, std::min(message.arrived.beyond(), message.granted))
                         : hole;
}
}  // namespace

void Outbox::enter(Peer& peer) {
  if (!scheduled_.contains(peer)) scheduled_.push_back(parts_.peers, peer.index);
  parts_.touched.add(peer);  // its timers may be the only ones to bring a turn
}

// A packet that was overtaken is reported at once too, before its sender takes it for lost. On
// paths with several lanes overtaking means nothing.
void Outbox::acknowledge(Peer& peer, ReceivePath& path, const wire::CommonHeader& header,
                         bool overtaken) {
  path.ack_due = true;
  const bool in_order = (header.flags & wire::kFlagSprayed) == 0;
  if (path.unacknowledged < kMostCounted) ++path.unacknowledged;
  if (++peer.due.unacknowledged >= parts_.turn.tunables.ack_every_packets ||
      (in_order ? overtaken : path.unacknowledged >= packets_per_ack(header.path_back)) ||
      (header.flags & wire::kFlagAckNow) != 0) {
    peer.due.now = true;
  }
  if ((header.flags & wire::kFlagAllSent) != 0) arm_soon(peer);
  if ((header.flags & wire::kFlagAckNow) != 0) {
    raise_ways(peer, Ways::two);
    peer.due.finals = true;
  }
  arm(peer);
  schedule(peer);
}

// A run of questions has one answer.
void Outbox::add_status(Peer& peer, std::uint64_t number, wire::MessageStatus status) {
  const std::uint32_t last = peer.due.statuses.back();
  if (last != kNoIndex) {
    PendingStatus& run = statuses_.at(last);
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
  // A peer whose statuses can't be told leaves half of the places to others.
  if (last != kNoIndex && statuses_.available() <= statuses_.capacity() / 2) return;
  SlabId id;
  PendingStatus* entry = statuses_.try_allocate(id);
  if (entry == nullptr) return;  // the sender asks again
  entry->number = number;
  entry->status = status;
  peer.due.statuses.push_back(statuses_, id.index);
  arm(peer);
  schedule(peer);
}

void Outbox::withdraw(Peer& peer, IncomingMessage& message) {
  if (!peer.due.messages.contains(message)) return;
  peer.due.messages.remove(parts_.incoming, parts_.incoming.index_of(message));
}

void Outbox::withdraw_messages(Peer& peer) {
  while (!peer.due.messages.empty()) (void)peer.due.messages.pop_front(parts_.incoming);
}

void Outbox::end_session(Peer& peer) {
  while (!peer.due.statuses.empty()) statuses_.free(peer.due.statuses.pop_front(statuses_));
  peer.due.at = kNever;
  peer.due.unacknowledged = 0;
  peer.due.nic_states = 0;
  peer.due.now = false;
  if (is_scheduled(peer)) unschedule(peer);
}

bool Outbox::has_due(const Peer& peer) const {
  if (!peer.due.statuses.empty() || !peer.due.messages.empty() || peer.due.nic_states != 0 ||
      peer.due.solicitation) {
    return true;
  }
  for (const std::uint32_t index : peer.paths.receiving) {
    if (index != kNoIndex && parts_.receive_paths.at(index).ack_due) return true;
  }
  return false;
}

// How many turns ago the newest turn began whose data rings have been drained since.
std::uint16_t Outbox::turns_behind() const {
  std::uint32_t behind = 0;
  for (const LocalNic& local : parts_.sender.nics()) {
    behind = std::max(behind, parts_.turn.number() - local.drained);
  }
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(behind, wire::kFarBehind));
}

void Outbox::send_due(bool urgent_only) {
  std::uint32_t budget = kMostControl;
  std::uint32_t following = kNoIndex;
  for (std::uint32_t i = scheduled_.front(); i != kNoIndex && budget > 0; i = following) {
    following = scheduled_.next(parts_.peers, i);
    if (send_due(parts_.peers.at(i), urgent_only)) --budget;
  }
}

// False: nothing is due to the peer yet, or nothing can be sent.
bool Outbox::send_due(Peer& peer, bool urgent_only) {
  if (peer.session.state != SessionState::ready) {
    unschedule(peer);
    return false;
  }
  Turn& turn = parts_.turn;
  if (!peer.due.now &&
      (urgent_only || turn.now() < peer.due.at || peer.due.not_in_turn == turn.number())) {
    return false;
  }
  if (!has_way(peer)) {
    // Nothing that this end does brings a way sooner, and turns in vain would delay other peers.
    peer.due.now = false;
    peer.due.at = turn.now() + microseconds(turn.tunables.path_probe_min_us);
    parts_.touched.add(peer);
    return false;
  }
  while (peer.due.now || turn.now() >= peer.due.at) {
    if (!send_control(peer)) {  // no buffer, or no room in the NIC: retry soon
      turn.refused();
      return false;
    }
    if (!has_due(peer)) break;
    peer.due.now = true;
  }
  turn.progress();
  unschedule(peer);
  parts_.touched.add(peer);
  return true;
}

// Writes ACK_INFO and the PATH_ACKs of the paths that are due. In front of a request it writes
// those of all paths that fit, and leaves room for the request. Each names all that has arrived, as
// earlier acks may be lost. Acks that don't fit stay due. False if nothing was written.
bool Outbox::write_acks(Peer& peer, wire::PacketWriter& writer, bool request_follows) {
  const std::size_t reserve = request_follows ? kRequestBytes : 0;
  bool any = false;
  for (const std::uint32_t index : peer.paths.receiving) {
    if (index == kNoIndex) continue;
    ReceivePath& path = parts_.receive_paths.at(index);
    if (!path.ack_due && !request_follows) continue;
    if (!any) {
      const NicLimits& limits = parts_.sender.limits();
      const std::uint32_t kib = parts_.allowance.share_kib(
          limits.receive_bytes, limits.fragment_bytes + wire::kDataHeaderBytes);
      if (!writer.ack_info(parts_.turn.number(), turns_behind(), kib)) return false;
    }
    any = true;
    std::array<std::uint64_t, PathWindow::kWords> words;
    const std::size_t count = path.window.write_ack(path.reach, words);
    const std::size_t marks_words = path.marks != 0 ? 2 : 0;
    if (writer.room() < (2 + count + marks_words) * wire::kWordBytes + reserve) {
      if (!path.ack_due) continue;
      return true;
    }
    // Marks come first, as the sender forgets acknowledged packets.
    if (path.marks != 0 &&
        writer.path_marks(path.slot, path.generation, to_wire(path.window.largest()), path.marks)) {
      path.marks = 0;
    }
    const auto residence = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>((parts_.turn.now() - path.largest_arrival).ns, 0, 0xffffffff));
    if (!writer.path_ack(path.slot, path.generation, to_wire(path.window.largest()), residence,
                         path.ce_count, std::span(words).first(count))) {
      return true;
    }
    path.ack_due = false;
    path.unacknowledged = 0;
  }
  if (any) {
    peer.due.unacknowledged = 0;
    peer.due.now = false;
    peer.due.at = kNever;
  }
  return any;
}

// A few statuses are repeated in the next control packet, where losses should be repaired within
// round trips. Repeating many would cost more than answering a question.
void Outbox::write_statuses(Peer& peer, wire::PacketWriter& writer) {
  for (std::uint32_t told = 0; !peer.due.statuses.empty();) {
    const std::uint32_t index = peer.due.statuses.front();
    const PendingStatus& next = statuses_.at(index);
    if (!writer.status(to_wire(next.number), next.status, next.run)) return;
    told += next.run;
    peer.due.statuses.pop_front(statuses_);
    statuses_.free(index);
    const LocalNic& local = parts_.sender.nics()[peer.session.route.local];
    peer.due.finals_again = local.lanes > 1 && told <= kFewStatuses;
  }
}

// A waiting peer may have missed the last packet with statuses, and have nothing more to ask with.
void Outbox::write_finals(Peer& peer, wire::PacketWriter& writer) {
  if (!peer.due.finals) return;
  peer.due.finals = false;
  for (std::uint64_t i = 0; i < kFinalsRepeated; ++i) {
    const std::uint64_t number = peer.receives.remote_floor + i;
    const auto entry = peer.receives.table.get(number);
    if (!entry || !is_finished_entry(*entry)) continue;
    if (!writer.status(to_wire(number), status_of_entry(*entry))) return;
  }
}

void Outbox::write_nic_states(Peer& peer, wire::PacketWriter& writer) {
  const std::span<const LocalNic> nics = parts_.sender.nics();
  for (std::size_t nic = 0; nic < nics.size() && peer.due.nic_states != 0; ++nic) {
    if ((peer.due.nic_states >> nic & 1) != 0 &&
        writer.nic_state(static_cast<std::uint8_t>(nic), nics[nic].up, nics[nic].sequence)) {
      peer.due.nic_states = static_cast<std::uint16_t>(peer.due.nic_states & ~(1u << nic));
    }
  }
}

bool Outbox::write_grant(IncomingMessage& message, wire::PacketWriter& writer) {
  const SlabId id = parts_.incoming.id_of(message);
  return writer.grant(to_wire(message.number), id.index, id.generation, goes_on_from(message),
                      message.granted);
}

// False: no room. A message that lacks nothing any more needs no request.
bool Outbox::write_request(Peer& peer, IncomingMessage& message, wire::PacketWriter& writer) {
  std::array<std::uint64_t, wire::kMaxBitmapWords> words;
  const std::uint32_t base = message.arrived.first_missing();
  const std::size_t count = message.arrived.write_missing(base, message.may_come, words);
  if (count == 0) return true;
  if (!writer.request(to_wire(message.number), base, std::span(words).first(count))) return false;
  ++parts_.turn.counters.requests_sent;
  if (parts_.turn.tracing()) {
    parts_.turn.trace(record_of(TraceKind::request_sent, peer, message, base));
  }
  return true;
}

// Writes grants and requests. False: no room for the rest. The last grant of a message is repeated
// in the next packet, as no other grant follows it. Without room there it is not repeated.
bool Outbox::write_messages(Peer& peer, wire::PacketWriter& writer) {
  const std::uint32_t again = std::exchange(peer.due.granted_all, kNoIndex);
  while (!peer.due.messages.empty()) {
    const std::uint32_t index = peer.due.messages.front();
    IncomingMessage& message = parts_.incoming.at(index);
    if (message.due.grant) {
      if (!write_grant(message, writer)) return false;
      if (parts_.turn.tracing()) {
        TraceRecord record =
            record_of(TraceKind::grant_given, peer, message, goes_on_from(message));
        record.detail = message.granted;
        parts_.turn.trace(record);
      }
      message.due.grant = false;
      if (message.granted == message.fragments) peer.due.granted_all = index;
    }
    if (message.due.request) {
      if (!write_request(peer, message, writer)) return false;
      message.due.request = false;
    }
    peer.due.messages.pop_front(parts_.incoming);
  }
  if (again == kNoIndex || !parts_.incoming.is_live(again)) return true;
  IncomingMessage& message = parts_.incoming.at(again);
  if (message.peer == peer.index && message.granted == message.fragments) {
    (void)write_grant(message, writer);
  }
  return true;
}

bool Outbox::piggyback(Peer& peer, wire::PacketWriter& writer) {
  if (!is_scheduled(peer) || peer.due.ways == Ways::all) return false;
  (void)write_acks(peer, writer, false);
  write_statuses(peer, writer);
  if (has_due(peer)) {
    peer.due.now = true;
  } else {
    peer.due.at = kNever;
    unschedule(peer);
  }
  return true;
}

// The packet's blocks are not kept. Acknowledgements are written anew, of all paths, and so are the
// last final statuses. Peers ask again for other statuses, for grants and for requests that they
// miss.
void Outbox::take_back(Peer& peer) {
  for (const std::uint32_t index : peer.paths.receiving) {
    if (index != kNoIndex) parts_.receive_paths.at(index).ack_due = true;
  }
  peer.due.finals = true;
  schedule_now(peer);
}

// Writing a block marks it as sent, so nothing is written before there is a way.
bool Outbox::has_way(Peer& peer) {
  PacketSender& sender = parts_.sender;
  return sender.remote(peer, peer.session.route) != kNoRemote ||
         sender.remote(peer, parts_.routes.first_of(peer, peer.due.ways)) != kNoRemote;
}

bool Outbox::send_control(Peer& peer) {
  PacketSender& sender = parts_.sender;
  PacketBuffer* const buffer = sender.take_buffer();
  if (buffer == nullptr) return false;
  wire::PacketWriter writer(*buffer, sender.limits().control_bytes);
  writer.begin(wire::PacketType::control, peer.session.remote_index, peer.session.remote_token,
               to_wire(peer.sends.floor));
  const std::uint16_t nic_states = peer.due.nic_states;
  if (peer.due.finals_again) peer.due.finals = true;
  peer.due.finals_again = false;
  bool asks = peer.due.solicitation;
  peer.due.messages.for_each(parts_.incoming,
                             [&](std::uint32_t i) { asks |= parts_.incoming.at(i).due.request; });
  (void)write_acks(peer, writer, asks);
  write_nic_states(peer, writer);
  bool fits = write_messages(peer, writer);
  if (fits && peer.due.solicitation) {
    fits = parts_.solicitor.write_solicitation(peer, writer);
    peer.due.solicitation = !fits;
  }
  if (fits) {
    write_statuses(peer, writer);
    if (peer.due.statuses.empty()) write_finals(peer, writer);
  }
  peer.due.now = false;
  peer.due.at = kNever;
  ++parts_.turn.counters.control_packets_sent;
  const Ways ways = peer.due.ways;
  peer.due.ways = Ways::one;
  if (!parts_.routes.send(peer, ways, *buffer, writer)) {
    peer.due.nic_states = nic_states;  // peers don't ask for them
    raise_ways(peer, ways);
    take_back(peer);
    return false;
  }
  peer.sends.told_floor = peer.sends.floor;
  return true;
}

}  // namespace hawser::proto
