// SPDX-License-Identifier: Apache-2.0
// What peers ask of this end's memory, and what they answer to this end's fetches
// (docs/internals/one_sided.md).
//
// A one-sided number matches nothing. An operation of one packet is checked, done, and its number
// has its final status at once. A longer write, and a longer reply, has a descriptor that is
// matched from the start: arrivals.cpp, expect.cpp and grants.cpp treat it as a message whose
// receive was posted. It differs in what is checked before each fragment, and in its end.
//
// Exactly once: an operation is done only if its number had no entry, after the entry was made. A
// number without an entry is at or above the floor, so its sender has not heard of its end.
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/one_sided_send.hpp"
#include "proto/message/unscheduled.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/region/regions.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {

using wire::MessageStatus;

WordOperation operation_of(const wire::OperandsPart& operands) {
  return {operands.operation, operands.width, operands.operand, operands.compare};
}
WordOperation operation_of(const wire::SignalPart& signal) {
  return {signal.operation, signal.width, signal.value, 0};
}

// Whether the packet has all bytes of a write.
bool is_whole(const wire::PacketView& packet) {
  return packet.fragment->index() == 0 && packet.payload.size() == packet.target->length();
}

}  // namespace

// Whether a one-sided packet's number has no entry yet. Else it has been answered, or `message` is
// its descriptor.
bool Incoming::is_fresh(Peer& peer, const wire::PacketView& packet, std::uint64_t number,
                        IncomingMessage*& message) {
  message = nullptr;
  if (before(number, peer.receives.remote_floor)) {
    reporter_.drop(DropReason::below_floor);
    return false;
  }
  if (!peer.receives.table.in_window(number)) {
    reporter_.drop(DropReason::beyond_window);
    return false;
  }
  const auto entry = peer.receives.table.get(number);
  if (!entry) return true;
  if (is_finished_entry(*entry)) {
    outbox_.add_status(peer, number, status_of_entry(*entry));
    outbox_.schedule_soon(peer);
    ++turn_.counters.duplicate_fragments;
    ++turn_.counters.one_sided_repeats;
    reporter_.drop(DropReason::duplicate_fragment);
  } else if (messages_.at(*entry).one_sided != OneSided::none &&
             packet.type == wire::PacketType::write) {
    message = &messages_.at(*entry);
  } else {
    reporter_.drop(DropReason::bad_field);  // the number is another operation's
  }
  return false;
}

// Whether the number can get a final status, whatever it will be.
bool Incoming::may_settle(Peer& peer, std::uint64_t number) {
  if (may_enter(peer, number) && peer.receives.table.prepare(number)) return true;
  reporter_.drop(DropReason::no_descriptor);  // the sender repeats it
  return false;
}

void Incoming::settle(Peer& peer, std::uint64_t number, MessageStatus status) {
  const bool was_set =
      peer.receives.table.set(number, kFinishedEntry | static_cast<std::uint32_t>(status));
  HAWSER_ASSERT(was_set);
  if (status != MessageStatus::delivered) ++turn_.counters.one_sided_refused;
  outbox_.add_status(peer, number, status);
  outbox_.schedule_soon(peer);
  turn_.progress();
  if (number == peer.receives.next_to_process) process_in_order(peer);
}

void Incoming::on_write(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  IncomingMessage* message = nullptr;
  const bool is_withdrawn = (packet.target->flags & wire::kTargetWithdrawn) != 0;
  if (!is_fresh(peer, packet, number, message)) {
    if (message == nullptr) return;
    if (is_withdrawn && message->one_sided == OneSided::reply)
      return reply_is_withdrawn(peer, *message);
    return take_fragment(peer, *message, packet);
  }
  const bool is_reply = (packet.target->flags & wire::kTargetReply) != 0;
  const std::uint16_t size = size_in(peer, packet);
  if (size == 0 || !wire::fits_in_fragments(packet.target->length(), size))
    return reporter_.drop(DropReason::bad_field);
  if (is_reply) return begin_reply(peer, number, packet);
  const bool is_long = packet.target->length() > size;
  if (!is_long && !is_whole(packet)) return reporter_.drop(DropReason::bad_field);
  if (!is_long && !has_place_for_notice(*packet.target)) return reporter_.drop(DropReason::no_room);
  if (!may_settle(peer, number)) return;
  Reach reach = regions_.check(claimed_by(*packet.target), RegionAccess::write);
  if (packet.signal != nullptr && reach.is_granted()) {
    const Reach word = regions_.check_word(claimed_by(*packet.signal));
    if (!word.is_granted()) reach = {.denial = word.denial};
  }
  if (!reach.is_granted()) return settle(peer, number, reach.denial);
  if (is_long) return begin_long(peer, number, packet, OneSided::write, reach.at);
  reach.placement->place(reach.at, packet.payload.data(), packet.payload.size());
  turn_.counters.data_bytes_received += packet.payload.size();
  settle(peer, number, finish_write(peer, *packet.target, reach, packet.signal));
}

// All bytes are placed: what follows them. Returns the write's final status.
MessageStatus Incoming::finish_write(Peer& peer, const wire::TargetPart& target, const Reach& reach,
                                     const wire::SignalPart* signal) {
  reach.placement->make_visible();
  MessageStatus status = MessageStatus::delivered;
  if (signal != nullptr) {
    // The signal's region may have been withdrawn since the first fragment.
    const Reach word = regions_.check_word(claimed_by(*signal));
    std::uint64_t before = 0;
    if (!word.is_granted()) {
      status = MessageStatus::region_withdrawn;
    } else if (!word.placement->execute(word.at, operation_of(*signal), before)) {
      status = MessageStatus::unsupported;
    } else {
      ++turn_.counters.atomics_executed;
    }
  }
  ++turn_.counters.writes_placed;
  if ((target.flags & wire::kTargetNotifies) != 0 && status == MessageStatus::delivered)
    notify(peer, target, Status::ok);
  return status;
}

void Incoming::on_read(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  IncomingMessage* message = nullptr;
  if (!is_fresh(peer, packet, number, message)) return;
  if (!wire::fits_in_fragments(packet.target->length(), peer.session.session_bytes))
    return reporter_.drop(DropReason::bad_field);
  if (!sends_.may_reply(peer)) return reporter_.drop(DropReason::no_descriptor);
  if (!may_settle(peer, number)) return;
  const Reach reach = regions_.check(claimed_by(*packet.target), RegionAccess::read);
  if (!reach.is_granted()) return settle(peer, number, reach.denial);
  ++turn_.counters.reads_answered;
  OneSidedSend& reply = sends_.make_reply(peer, packet.target->note, packet.target->length());
  settle(peer, number, MessageStatus::delivered);
  sends_.start_reply(peer, reply, reach.at, reach.region);
}

void Incoming::on_atomic(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  IncomingMessage* message = nullptr;
  if (!is_fresh(peer, packet, number, message)) return;
  const bool fetches = (packet.target->flags & wire::kTargetFetches) != 0;
  if (fetches && !sends_.may_reply(peer)) return reporter_.drop(DropReason::no_descriptor);
  if (!may_settle(peer, number)) return;
  const Reach reach = regions_.check_word(claimed_by(*packet.target));
  if (!reach.is_granted()) return settle(peer, number, reach.denial);
  std::uint64_t before = 0;
  reach.placement->make_visible();  // writes that were placed before
  const bool done = reach.placement->execute(reach.at, operation_of(*packet.operands), before);
  if (done) ++turn_.counters.atomics_executed;
  settle(peer, number, done ? MessageStatus::delivered : MessageStatus::unsupported);
  if (!fetches || !done) return;
  OneSidedSend& reply = sends_.make_reply(peer, packet.target->note, packet.operands->width);
  reply.word = before;
  sends_.start_reply(peer, reply, reinterpret_cast<const std::byte*>(&reply.word), kNoSlabId);
}

// A reply's first packet. Its fetch may have ended: then the reply only ends as well.
void Incoming::begin_reply(Peer& peer, std::uint64_t number, const wire::PacketView& packet) {
  OneSidedSend* const fetch = sends_.fetch_named(peer, packet.target->note);
  const std::uint64_t bytes = packet.target->length();
  const bool is_long = bytes > size_in(peer, packet);
  const bool is_withdrawn = (packet.target->flags & wire::kTargetWithdrawn) != 0;
  if ((fetch != nullptr && bytes != fetch->target.length()) ||
      (!is_withdrawn && !is_long && !is_whole(packet))) {
    return reporter_.drop(DropReason::bad_field);
  }
  if (!may_settle(peer, number)) return;
  if (fetch == nullptr) return settle(peer, number, MessageStatus::delivered);
  if (is_withdrawn) {
    sends_.end_fetch(*fetch, Status::region_withdrawn);
    return settle(peer, number, MessageStatus::delivered);
  }
  std::byte* const into =
      fetch->into != nullptr ? fetch->into : reinterpret_cast<std::byte*>(&fetch->word);
  if (is_long) return begin_long(peer, number, packet, OneSided::reply, into);
  host_.place(into, packet.payload.data(), packet.payload.size());
  turn_.counters.data_bytes_received += packet.payload.size();
  sends_.end_fetch(*fetch, Status::ok);
  settle(peer, number, MessageStatus::delivered);
}

// A write or reply of several fragments gets a descriptor.
void Incoming::begin_long(Peer& peer, std::uint64_t number, const wire::PacketView& packet,
                          OneSided kind, std::byte* into) {
  SlabId aside;
  // One peer gets half of what the others have left.
  const bool has_place = long_writes_of_[peer.index] < long_writes_.available();
  LongWrite* const write = has_place ? long_writes_.try_allocate(aside) : nullptr;
  if (write == nullptr) return reporter_.drop(DropReason::no_descriptor);
  ++long_writes_of_[peer.index];
  write->target = *packet.target;
  if (packet.signal != nullptr) write->signal = *packet.signal;
  SlabId id;
  IncomingMessage& message = messages_.allocate(id);  // there is one for each long write
  message.long_write = aside.index;
  message.peer = peer.index;
  message.number = number;
  message.one_sided = kind;
  message.moved = coarse(turn_.now());
  message.bytes = packet.target->length();
  message.channel = packet.target->channel;
  message.matched = message.processed = true;
  message.place.buffer = into;
  message.place.bytes = message.bytes;
  message.size_class = packet.fragment->size_class();
  message.fragment_bytes = size_in(peer, packet);
  message.fragments = count_fragments(message.bytes, message.fragment_bytes);
  message.may_come =
      std::max(unscheduled_fragments(message.bytes, message.fragments, message.fragment_bytes,
                                     peer.identity.remote_unscheduled, message.hint),
               1u);
  ++peer.messages;
  ++peer.receives.half_messages;
  ++peer.receives.open;
  if (!message.arrived.start(bitmap_blocks_, message.fragments)) {
    --peer.receives.open;
    free_incoming(message);
    return reporter_.drop(DropReason::no_descriptor);
  }
  const bool was_set = peer.receives.table.set(number, id.index);
  HAWSER_ASSERT(was_set);  // it was prepared
  if (number == peer.receives.next_to_process) process_in_order(peer);
  start_grants(message);
  take_fragment(peer, message, packet);
}

// The region that the reply was read from is gone, and the rest will not come.
void Incoming::reply_is_withdrawn(Peer& peer, IncomingMessage& message) {
  OneSidedSend* const fetch =
      sends_.fetch_named(peer, long_writes_.at(message.long_write).target.note);
  if (fetch != nullptr) sends_.end_fetch(*fetch, Status::region_withdrawn);
  end_long(message, MessageStatus::delivered);
}

// Before a fragment of a long write or reply is claimed. False: nothing more is to be done with it.
bool Incoming::may_place(Peer& peer, IncomingMessage& message) {
  const LongWrite& write = long_writes_.at(message.long_write);
  if (message.one_sided == OneSided::reply) {
    if (sends_.fetch_named(peer, write.target.note) != nullptr) return true;
    end_long(message, MessageStatus::delivered);  // nobody awaits it any more
    return false;
  }
  if (regions_.still_granted({write.target.region, write.target.generation}) == nullptr) {
    end_long(message, MessageStatus::region_withdrawn);
    return false;
  }
  // The last fragment waits for a place for the notice.
  if (message.arrived.claimed() + 1 < message.fragments || has_place_for_notice(write.target))
    return true;
  reporter_.drop(DropReason::no_room);
  return false;
}

void Incoming::place_long(const IncomingMessage& message, std::uint64_t begin,
                          std::span<const std::byte> bytes) {
  const LongWrite& write = long_writes_.at(message.long_write);
  Placement* const placement =
      message.one_sided == OneSided::reply
          ? &host_
          : regions_.still_granted({write.target.region, write.target.generation});
  placement->place(message.place.buffer + begin, bytes.data(), bytes.size());
}

// Every fragment is placed.
void Incoming::long_is_whole(IncomingMessage& message) {
  Peer& peer = peers_.at(message.peer);
  const LongWrite& write = long_writes_.at(message.long_write);
  if (message.one_sided == OneSided::reply) {
    OneSidedSend* const fetch = sends_.fetch_named(peer, write.target.note);
    if (fetch != nullptr) sends_.end_fetch(*fetch, Status::ok);
    return end_long(message, MessageStatus::delivered);
  }
  const bool signals = (write.target.flags & wire::kTargetSignals) != 0;
  const Reach reach{
      .region = {write.target.region, write.target.generation},
      .at = message.place.buffer,
      .placement = regions_.still_granted({write.target.region, write.target.generation})};
  end_long(message, finish_write(peer, write.target, reach, signals ? &write.signal : nullptr));
}

void Incoming::end_long(IncomingMessage& message, MessageStatus status) {
  Peer& peer = peers_.at(message.peer);
  const std::uint64_t number = message.number;
  --peer.receives.open;
  free_incoming(message);
  settle(peer, number, status);
}

// ---- notices of writes, for the program

bool Incoming::has_place_for_notice(const wire::TargetPart& target) const {
  return (target.flags & wire::kTargetNotifies) == 0 || !notices_.full();
}

void Incoming::notify(const Peer& peer, const wire::TargetPart& target, Status status) {
  const Region* const region = regions_.find({target.region, target.generation});
  Completion notice;
  notice.kind = OperationKind::notice;
  notice.status = status;
  notice.outcome_unknown = status != Status::ok;
  notice.user_data = region == nullptr ? 0 : region->user_data;  // withdrawn by now
  notice.peer = peers_.id_of(peer);
  notice.channel = target.channel;
  notice.tag = target.offset;
  notice.bytes = notice.message_bytes = target.length();
  notice.immediate = target.note;
  notices_.put(notice);
  turn_.progress();
}

// The session of a long write has ended. Its region keeps that for certain; the notice needs room.
void Incoming::leave_unfinished(const IncomingMessage& message, Status status) {
  const wire::TargetPart& target = long_writes_.at(message.long_write).target;
  const SlabId region{target.region, target.generation};
  if (regions_.still_granted(region) == nullptr) return;
  regions_.note_unfinished(region, target.offset, target.length());
  if (!notices_.full()) notify(peers_.at(message.peer), target, status);
}

std::size_t Incoming::poll_notices(std::span<Completion> notices) {
  std::size_t n = 0;
  while (n < notices.size() && !notices_.empty()) notices[n++] = notices_.pop();
  return n;
}

}  // namespace hawser::proto
