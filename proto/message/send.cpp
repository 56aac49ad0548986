// SPDX-License-Identifier: Apache-2.0
// Outgoing messages: how much of a message may be sent, what its statuses, grants and requests
// mean, when it asks for its status, and when it is over.
//
// A message completes by its STATUS alone, never by path acks. Its timer `ask_timer` is armed while
// its final status is missing and nothing of it is in flight, queued or allowed to be sent. It is
// also armed while the caller wants to cancel. The timer sends the envelope, backing off, and the
// answer is absolute state. Therefore, whatever packet is lost, some part of the message is in
// flight (path timers), queued, or asked about.
//
// A message is finished when it has its final status: the floor may pass its number. It is released
// when no NIC reads its bytes any more, and only then forgotten.
//
// Invariants: fragments below next_fragment were sent at least once, or wait with those that are
// lost. next_fragment <= may_send <= fragments. A finished message sends nothing more and is freed
// once no NIC reads from it.
#include <algorithm>
#include <array>
#include <bit>

#include "proto/base/sequence.hpp"
#include "proto/message/outgoing.hpp"
#include "proto/message/requests.hpp"
#include "proto/message/unscheduled.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {

constexpr std::uint8_t kMostAsked = 255;  // the count ends here

}  // namespace

Outgoing::Outgoing(const Parts& parts, const Limits& limits)
    : turn_(parts.turn),
      peers_(parts.peers),
      sender_(parts.sender),
      reporter_(parts.reporter),
      senders_(parts.senders),
      touched_(parts.touched),
      routes_(parts.routes),
      paths_(parts.paths),
      regions_(parts.regions),
      unscheduled_bytes_(unscheduled_of(turn_.tunables, parts.sender.limits().link_bytes_per_s)),
      most_replies_(limits.replies),
      messages_(limits.messages + limits.replies),
      one_sided_(messages_.capacity()),
      peers_one_sided_(static_cast<std::uint32_t>(turn_.tunables.max_peers)),
      order_(one_sided_, messages_.capacity()),
      retransmits_(limits.retransmits),
      timers_(messages_.capacity()),
      joints_(limits.joints, parts.sender.limits().fragment_bytes),
      replies_of_(turn_.tunables.max_peers) {
  messages_.withhold(most_replies_);
  one_sided_.withhold(most_replies_);
}

OutgoingMessage* Outgoing::begin(Peer& peer, const SendRequest& request) {
  OutgoingMessage* const message = messages_.try_allocate();
  if (message == nullptr) return nullptr;
  const std::uint32_t index = messages_.index_of(*message);
  message->peer = peer.index;
  GatherList* const pieces = request.pieces;
  if (pieces == nullptr ? !enter(peer, *message) : !enter_gathered(peer, *message, *pieces)) {
    messages_.free(index);
    return nullptr;
  }
  ++peer.messages;
  ++peer.open_sends;
  message->operation = request.operation;
  if (pieces == nullptr) message->data = request.data;
  message->bytes = request.bytes;
  message->tag = request.tag;
  message->channel = request.channel;
  message->options = request.options;
  message->readable = request.readable;
  turn_.operations.begin(request.operation, OperationKind::send, index, turn_.now());
  if (turn_.tracing()) reporter_.trace_send(TraceKind::message_begun, *message, 0, 0);
  if (peer.session.state == SessionState::ready) start(peer, *message);
  return message;
}

bool Outgoing::enter(Peer& peer, OutgoingMessage& message) {
  const std::uint64_t number = peer.sends.next_number;
  if (!peer.sends.table.set(number, messages_.index_of(message))) return false;
  message.number = number;
  message.moved = coarse(turn_.now());
  ++peer.sends.next_number;
  return true;
}

bool Outgoing::enter_gathered(Peer& peer, OutgoingMessage& message, GatherList& pieces) {
  if (!joints_.take(pieces)) return false;
  if (!enter(peer, message)) {
    joints_.give(pieces);
    return false;
  }
  message.gathered = true;
  message.pieces = &pieces;
  return true;
}

void Outgoing::start(Peer& peer, OutgoingMessage& message) {
  prepare(peer, message);
  want_to_send(peer, message);
  if (message.may_send == 0) consider_asking(message);
}

void Outgoing::begin_session(Peer& peer) {
  peer.sends.table.for_each([&](std::uint64_t, std::uint32_t index) {
    OutgoingMessage& message = messages_.at(index);
    prepare(peer, message);
    want_to_send(peer, message);
    consider_asking(message);
  });
}

void Outgoing::end_session(Peer& peer, Status status) {
  while (!peer.sends.retransmits.empty()) {
    drop_retransmit(peer.sends, peer.sends.retransmits.front());
  }
  end_waiting(peer, status);
  while (peer.sends.table.size() > 0) {
    finish_send(messages_.at(*peer.sends.table.get(peer.sends.table.first(0))), status);
  }
  if (peer.sends.table.is_open()) advance_floor(peer);
  end_fetches(peer, status);
}

// Sets the fields that depend on the session, which are known only once it is ready.
void Outgoing::prepare(const Peer& peer, OutgoingMessage& message) const {
  const PeerSession& session = peer.session;
  message.size_class = 0;
  message.fragment_bytes = session.session_bytes;
  // A write's signal was found to fit behind its bytes into one packet.
  const auto has_signal = [&] {
    return message.kind == SendKind::write &&
           (one_sided_.at(message.one_sided).target.flags & wire::kTargetSignals) != 0;
  };
  if (session.size_class != 0 && !has_signal()) {
    message.size_class =
        wire::class_of_message(message.bytes, session.size_class, session.session_bytes);
    message.fragment_bytes = wire::bytes_of_class(message.size_class, session.session_bytes);
  }
  message.fragments = count_fragments(message.bytes, message.fragment_bytes);
  message.may_send = unscheduled_fragments(message.bytes, message.fragments, message.fragment_bytes,
                                           unscheduled_bytes_, message.options.hint);
  // The first fragment of a one-sided operation is what asks for a grant.
  if (message.kind != SendKind::message) message.may_send = std::max(message.may_send, 1u);
}

void Outgoing::want_to_send(Peer& peer, OutgoingMessage& message) {
  const std::uint32_t index = messages_.index_of(message);
  if (message.next_fragment < message.may_send && !message.stopped && !message.finished &&
      message.cancel != Cancel::asked && !peer.sends.to_send.contains(messages_, index)) {
    // Higher priority first; first come, first served within one.
    std::uint32_t before = peer.sends.to_send.front();
    if (message.options.hint.priority == 0) before = kNoIndex;
    while (before != kNoIndex &&
           messages_.at(before).options.hint.priority >= message.options.hint.priority) {
      before = peer.sends.to_send.next(messages_, before);
    }
    peer.sends.to_send.insert_before(messages_, before, index);
  }
  senders_.want(peer);
}

void Outgoing::advance_floor(Peer& peer) {
  const std::uint64_t floor = peer.sends.table.first(peer.sends.next_number);
  if (floor == peer.sends.floor) return;
  peer.sends.floor = floor;
  peer.sends.table.advance_floor(floor, [](std::uint64_t, std::uint32_t) {});
}

// The receiver has no room: nothing more goes before a grant. If the grant is lost, asking brings
// it.
void Outgoing::stop_sending(Peer& peer, OutgoingMessage& message) {
  const std::uint32_t index = messages_.index_of(message);
  message.stopped = true;
  if (peer.sends.to_send.contains(messages_, index)) peer.sends.to_send.remove(messages_, index);
  consider_asking(message);
}

// Sends nothing new of the message. Its envelope is repeated and asks to cancel. The receiver makes
// a tombstone of the number, or answers that it is too late. This holds even if nothing was ever
// sent: the number is taken, and later ones wait for it.
Status Outgoing::cancel(OutgoingMessage& message) {
  if (message.kind != SendKind::message) return Status::too_late;
  if (message.finished) return Status::unknown_operation;
  if (message.cancel == Cancel::refused) return Status::too_late;
  if (message.cancel == Cancel::asked) return Status::ok;
  Peer& peer = peers_.at(message.peer);
  const std::uint32_t index = messages_.index_of(message);
  message.cancel = Cancel::asked;
  if (peer.sends.to_send.contains(messages_, index)) peer.sends.to_send.remove(messages_, index);
  message.ask_interval = Duration{};
  message.ask_timer.stop();
  consider_asking(message);
  turn_.ask_for_pass();
  return Status::ok;
}

void Outgoing::cancel_refused(Peer& peer, OutgoingMessage& message) {
  if (message.cancel != Cancel::asked) return;
  message.cancel = Cancel::refused;
  message.ask_interval = Duration{};
  message.ask_timer.stop();
  want_to_send(peer, message);
  consider_asking(message);
}

namespace {
// The most numbers that the statuses of one packet may name. Senders ask again about the others.
constexpr std::uint64_t kMostStatuses = 4 * wire::kMaxStatusRun;
}  // namespace

void Outgoing::on_status(Peer& peer, const wire::StatusView& view) {
  apply_statuses(peer, view, kMostStatuses);
}

void Outgoing::on_final_status(Peer& peer, const wire::StatusView& view) {
  apply_statuses(peer, view, ~std::uint64_t{0});
}

// `left`: how many numbers the statuses may name.
void Outgoing::apply_statuses(Peer& peer, const wire::StatusView& view, std::uint64_t left) {
  for (const wire::StatusEntry& entry : view.entries) {
    if (entry.run > left) break;
    left -= entry.run;
    const std::uint64_t first = expand(entry.message, peer.sends.next_number);
    // A status of messages that were never sent: believe nothing of it.
    if (before(peer.sends.next_number, first + entry.run)) {
      reporter_.drop(DropReason::bad_field);
      break;
    }
    for (std::uint64_t number = first; number != first + entry.run; ++number) {
      const auto index = peer.sends.table.get(number);  // none: already final
      if (index) apply_status(peer, messages_.at(*index), entry.status);
    }
  }
  advance_floor(peer);
}

void Outgoing::apply_status(Peer& peer, OutgoingMessage& message, wire::MessageStatus status) {
  if (turn_.tracing()) {
    reporter_.trace_send(TraceKind::message_status, message, static_cast<std::uint8_t>(status), 0);
  }
  message.moved = coarse(turn_.now());
  message.asked = std::min<std::uint8_t>(message.asked, 1);  // not in vain
  if (message.kind != SendKind::message) return apply_one_sided_status(message, status);
  switch (status) {
    case wire::MessageStatus::delivered: return finish_send(message, Status::ok);
    case wire::MessageStatus::truncated:
      return finish_send(
          message, message.options.level == Level::delivered ? Status::truncated : Status::ok);
    case wire::MessageStatus::cancelled:
      if (message.cancel != Cancel::asked) return reporter_.drop(DropReason::bad_field);
      return finish_send(message, Status::cancelled);
    case wire::MessageStatus::matched: return cancel_refused(peer, message);
    case wire::MessageStatus::accepted:
      if (message.options.level == Level::accepted) finish_send(message, Status::ok);
      return;
    case wire::MessageStatus::no_room:
      // A grant names the slot to continue with. A grant that overtook this answer stands.
      if (!message.granted) stop_sending(peer, message);
      return;
    case wire::MessageStatus::pending: return;
    default: return reporter_.drop(DropReason::bad_field);
  }
}

void Outgoing::on_grant(Peer& peer, const wire::GrantBlock& grant) {
  const std::uint64_t number = expand(grant.message, peer.sends.next_number);
  if (turn_.tracing()) {
    TraceRecord record = record_of(TraceKind::grant_received, peer);
    record.message = number;
    record.fragment = grant.from;
    record.detail = grant.up_to;
    turn_.trace(record);
  }
  const auto index = peer.sends.table.get(number);
  if (!index) return;
  OutgoingMessage& message = messages_.at(*index);
  if (grant.up_to > message.fragments || grant.from > grant.up_to) {
    return reporter_.drop(DropReason::bad_field);
  }
  message.moved = coarse(turn_.now());
  message.asked = std::min<std::uint8_t>(message.asked, 1);  // not in vain
  message.rx_slot = grant.rx_slot;
  message.rx_generation = grant.rx_generation;
  message.granted = true;
  if (grant.up_to > message.may_send || message.stopped) message.ask_interval = Duration{};
  if (message.stopped) {
    // The receiver did not keep what was sent before NO_ROOM.
    message.stopped = false;
    message.sent_before = std::max(message.sent_before, message.next_fragment);
    message.next_fragment = grant.from;
  }
  message.may_send = std::max(message.may_send, grant.up_to);
  if (message.cancel != Cancel::asked) message.ask_timer.stop();
  want_to_send(peer, message);
  consider_asking(message);
}

std::uint64_t Outgoing::waiting_fragments(const PeerSends& sends, std::uint64_t most) const {
  std::uint64_t count = 0;
  for (std::uint32_t i = sends.retransmits.front(); i != kNoIndex && count < most; ++count) {
    i = sends.retransmits.next(retransmits_, i);
  }
  if (sends.to_send.empty()) return count;
  const bool granted = messages_.at(sends.to_send.front()).granted;
  for (std::uint32_t i = sends.to_send.front(); i != kNoIndex && count < most;) {
    const OutgoingMessage& message = messages_.at(i);
    if (message.granted != granted) break;
    count += message.may_send - message.next_fragment;
    i = sends.to_send.next(messages_, i);
  }
  return std::min(count, most);
}

// A new fragment waits like a lost one if a later one of its message has left over another NIC.
void Outgoing::unpick(Peer& peer, const Pick& pick) {
  OutgoingMessage& message = messages_.at(pick.message);
  if (pick.more > 0) return unpick_packed(peer, pick);
  if (pick.again || message.next_fragment != pick.fragment + 1) {
    SlabId id;
    if (Retransmit* entry = retransmits_.try_allocate(id)) {
      entry->message = messages_.id_at(pick.message);
      entry->fragment = pick.fragment;
      entry->was_sent = pick.again;
      peer.sends.retransmits.push_front(retransmits_, id.index);
      ++message.queued;
    }
    return;
  }
  message.next_fragment = pick.fragment;
  if (!peer.sends.to_send.contains(messages_, pick.message)) {
    peer.sends.to_send.push_front(messages_, pick.message);
  }
}

void Outgoing::queue_retransmit(Peer& peer, SlabId message, std::uint32_t fragment,
                                SentPacket* record) {
  SlabId id;
  Retransmit* entry = retransmits_.try_allocate(id);
  if (entry == nullptr) return;  // the receiver requests it again
  entry->message = message;
  entry->fragment = fragment;
  if (record != nullptr) {
    record->retransmit = id.index;
    record->retransmit_generation = id.generation;
  }
  peer.sends.retransmits.push_back(retransmits_, id.index);
  OutgoingMessage& owner = messages_.at(message.index);
  ++owner.queued;
  if (owner.cancel != Cancel::asked) owner.ask_timer.stop();
  senders_.want(peer);
}

void Outgoing::packet_arrived(Peer& peer, const SentPacket& packet) {
  const auto arrived_with_it = [&](OutgoingMessage& message) {
    --message.in_flight;
    message.moved = coarse(turn_.now());
    consider_asking(message);
  };
  if (packet.packed) return for_each_message_in(peer.sends, packet, arrived_with_it);
  OutgoingMessage* message = messages_.get(SlabId{packet.message, packet.message_generation});
  if (message != nullptr) arrived_with_it(*message);
}

// If it still waits to be retransmitted, nothing is sent twice.
void Outgoing::packet_came_late(Peer& peer, const SentPacket& packet) {
  if (packet.packed) return packed_is_late(peer, packet);
  const SlabId entry{packet.retransmit, packet.retransmit_generation};
  if (packet.retransmit == kNoIndex || retransmits_.get(entry) == nullptr) {
    ++turn_.counters.spurious_retransmits;
    return;
  }
  drop_retransmit(peer.sends, packet.retransmit);
  OutgoingMessage* message = messages_.get(SlabId{packet.message, packet.message_generation});
  if (message != nullptr) consider_asking(*message);
}

void Outgoing::packet_lost(Peer& peer, SentPacket& packet) {
  if (packet.packed) return lose_packed(peer, packet);
  const SlabId id{packet.message, packet.message_generation};
  OutgoingMessage* message = messages_.get(id);
  if (message == nullptr) return;
  --message->in_flight;
  if (message->finished) return;
  queue_retransmit(peer, id, packet.fragment, &packet);
  consider_asking(*message);
}

// A finished message needs no retransmission. If no path works its entries would wait for one, and
// the peer could not rest.
void Outgoing::drop_retransmits(PeerSends& sends, const OutgoingMessage& message) {
  const std::uint32_t index = messages_.index_of(message);
  for (std::uint32_t entry = sends.retransmits.front(); message.queued > 0;) {
    const std::uint32_t following = sends.retransmits.next(retransmits_, entry);
    if (retransmits_.at(entry).message.index == index) drop_retransmit(sends, entry);
    entry = following;
  }
}

namespace {
bool carries(const SentPacket& record, SlabId message, std::uint64_t number) {
  if (record.packed) return to_wire(number) - record.message_generation <= record.fragment;
  return record.message == message.index && record.message_generation == message.generation;
}

// The fragments of a REQUEST that are not handled yet.
struct Wanted {
  std::array<std::uint64_t, wire::kMaxBitmapWords> words{};
  std::uint32_t base = 0;

  [[nodiscard]] bool take(std::uint32_t fragment) {
    const std::uint32_t offset = fragment - base;
    if (offset >= words.size() * 64) return false;
    const std::uint64_t bit = std::uint64_t{1} << (offset % 64);
    const bool was = (words[offset / 64] & bit) != 0;
    words[offset / 64] &= ~bit;
    return was;
  }
  [[nodiscard]] bool empty() const {
    return std::ranges::all_of(words, [](std::uint64_t w) { return w == 0; });
  }
};
}  // namespace

// Layer 2 at the sender. A requested fragment is retransmitted in three cases. Its path has got
// past its last transmission, that transmission is older than what layer 1 waits for, or the
// fragment is not in flight at all.
void Outgoing::on_request(Peer& peer, const wire::RequestView& request) {
  ++turn_.counters.requests_received;
  const std::uint64_t number = expand(request.message, peer.sends.next_number);
  if (turn_.tracing()) {
    TraceRecord record = record_of(TraceKind::request_received, peer);
    record.message = number;
    record.fragment = request.base;
    turn_.trace(record);
  }
  const auto index = peer.sends.table.get(number);
  if (!index) return;
  OutgoingMessage& message = messages_.at(*index);
  message.moved = coarse(turn_.now());
  message.asked = std::min<std::uint8_t>(message.asked, 1);  // not in vain
  const SlabId id = messages_.id_of(message);
  Wanted wanted;
  wanted.base = request.base;
  std::ranges::copy(request.bitmap, wanted.words.begin());

  std::uint32_t unseen = message.in_flight;
  paths_.for_each_in_flight(peer.paths, [&](Path& path, SentPacket& record) {
    if (unseen == 0 || wanted.empty()) return false;
    if (!carries(record, id, number)) return true;
    --unseen;
    if (wanted.take(record.packed ? 0 : record.fragment)) {
      PathSet::miss(peer.silence, path, record);
    }
    return true;
  });
  if (wanted.empty()) return;
  if (message.next_fragment == 0 && message.ask_timer.is_armed()) {
    // Only its envelope was sent, and the receiver can take it now.
    message.ask_timer.arm(turn_.now());
    timers_.update(*index, turn_.now());
    return;
  }
  peer.sends.retransmits.for_each(retransmits_, [&](std::uint32_t entry) {
    if (retransmits_.at(entry).message == id) (void)wanted.take(retransmits_.at(entry).fragment);
  });
  for (std::size_t w = 0; w < wanted.words.size(); ++w) {
    for (std::uint64_t left = wanted.words[w]; left != 0; left &= left - 1) {
      const std::uint64_t fragment =
          std::uint64_t{request.base} + 64 * w + static_cast<unsigned>(std::countr_zero(left));
      if (fragment >= message.next_fragment) return;  // not sent yet: it will be
      if (retransmits_.available() <= retransmits_.capacity() / 2) return;
      queue_retransmit(peer, id, static_cast<std::uint32_t>(fragment), nullptr);
    }
  }
}

void Outgoing::consider_asking(OutgoingMessage& message) {
  if (message.finished) return;
  Peer& peer = peers_.at(message.peer);
  // A cancelling message asks at once.
  const bool cancels = message.cancel == Cancel::asked;
  const bool busy = !cancels && (message.in_flight > 0 || message.queued > 0 ||
                                 (message.next_fragment < message.may_send && !message.stopped));
  if (busy || peer.session.state != SessionState::ready) {
    message.ask_timer.stop();
    return;
  }
  if (message.ask_timer.is_armed()) return;
  if (message.ask_interval == Duration{}) {
    // If nothing may be sent ungranted, the envelope goes first.
    message.ask_interval = cancels || (message.next_fragment == 0 && !message.stopped)
                               ? Duration{}
                               : peer.response.overdue(turn_.granularity) +
                                     microseconds(turn_.tunables.max_ack_delay_us);
  }
  message.ask_timer.arm(turn_.now() + message.ask_interval);
  message.asked = 0;
  timers_.update(messages_.index_of(message), message.ask_timer.at());
}

// Lets up to `most` timers expire: each costs up to a microsecond.
void Outgoing::expire(std::uint32_t most) {
  if (!unnumbered_.empty()) number_those_that_wait();
  for (std::uint32_t i = 0; i < most && timers_.next() <= turn_.now(); ++i) {
    OutgoingMessage& message = messages_.at(timers_.pop().id);
    if (message.ask_timer.is_armed() &&
        turn_.postpones(message.ask_timer, peers_.at(message.peer).response.smoothed())) {
      timers_.update(messages_.index_of(message), message.ask_timer.at());
      continue;
    }
    ask_status(message);
  }
}

void Outgoing::ask_status(OutgoingMessage& message) {
  Peer& peer = peers_.at(message.peer);
  if (message.finished || !message.ask_timer.is_armed() ||
      peer.session.state != SessionState::ready)
    return;
  if (!message.ask_timer.is_due(turn_.now())) {
    timers_.update(messages_.index_of(message), message.ask_timer.at());
    return;
  }
  const Duration least = peer.response.overdue(turn_.granularity);
  const Duration longest = std::max(milliseconds(turn_.tunables.peer_timeout_ms) / 8, least);
  message.ask_interval = std::clamp(message.ask_interval * 2, least, longest);
  message.ask_timer.arm(turn_.now() + message.ask_interval +
                        turn_.random.jitter(message.ask_interval / 8));
  timers_.update(messages_.index_of(message), message.ask_timer.at());
  if (message.kind == SendKind::message) {
    send_envelope(message);
  } else {
    ++turn_.counters.message_probes_sent;
    if (turn_.tracing()) reporter_.trace_send(TraceKind::message_probe, message, 0, 0);
    queue_retransmit(peer, messages_.id_of(message), 0, nullptr);
  }
  if (message.asked < kMostAsked) ++message.asked;
}

}  // namespace hawser::proto
