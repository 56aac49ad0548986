// SPDX-License-Identifier: Apache-2.0
// Incoming messages: a fragment's way from the packet to its place, and the floor. Duplicates are
// dropped at three levels. ReceivePaths::note (path/receive_paths.cpp) recognizes a path number
// that was seen. Receiver then drops the datagram's message, but applies its floor and blocks.
// take_fragment drops a fragment whose bit is claimed. incoming_for and on_granted drop a packet of
// a message that is finished, or below the floor.
//
// A number's entry in peer.receives.table is a descriptor's index. Once the message is finished or
// cancelled the entry is its final status (kFinishedEntry | status), until the sender's floor
// passes it. A descriptor outlives its entry when the floor passes a message that is accepted and
// still unmatched.
//
// Invariants: numbers below next_to_process were processed, in order. A fragment's bit is claimed
// before its bytes are written. A receive buffer is written only between match and completion.
// Only unmatched messages hold chunks.
#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/prefetch.hpp"
#include "proto/base/sequence.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/message/incoming.hpp"
#include "proto/message/unscheduled.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"
#include "proto/wire/packed.hpp"

namespace hawser::proto {

namespace {

std::size_t fragment_length(const IncomingMessage& message, std::uint32_t fragment) {
  const std::uint64_t begin = std::uint64_t{fragment} * message.fragment_bytes;
  return begin >= message.bytes ? 0
                                : static_cast<std::size_t>(std::min<std::uint64_t>(
                                      message.fragment_bytes, message.bytes - begin));
}

// Copies what has room into the one buffer of a receive.
inline void copy_in(IncomingMessage& message, std::uint64_t begin, const std::byte* bytes,
                    std::size_t count) {
  if (begin >= message.place.bytes) return;
  const auto room =
      static_cast<std::size_t>(std::min<std::uint64_t>(count, message.place.bytes - begin));
  if (room > 0) std::memcpy(message.place.buffer + begin, bytes, room);
  // Most likely the next fragment comes next; prefetch its place.
  const std::byte* const next = message.place.buffer + begin + room;
  prefetch(next, next + std::min<std::uint64_t>(room, message.place.bytes - begin - room));
}

}  // namespace

// A sender's floor may pass only messages that have their final status: whole ones.
void Incoming::on_floor(Peer& peer, std::uint32_t wire_floor) {
  const std::uint64_t floor = expand(wire_floor, peer.receives.remote_floor);
  if (!before(peer.receives.remote_floor, floor)) return;
  if (before(peer.receives.next_to_process, floor)) return reporter_.drop(DropReason::bad_field);
  const auto may_pass = [&](std::uint64_t number) {
    const auto entry = peer.receives.table.get(number);
    return !entry || is_finished_entry(*entry) || messages_.at(*entry).arrived.complete();
  };
  // The number that refused the last floor most likely refuses this one. Without it, one packet
  // after the other could cost a walk over all numbers.
  std::uint64_t& refused = peer.receives.refused_floor;
  if (!before(refused, peer.receives.remote_floor) && before(refused, floor) &&
      !may_pass(refused)) {
    return reporter_.drop(DropReason::bad_field);
  }
  for (std::uint64_t n = peer.receives.remote_floor; n != floor; ++n) {
    if (may_pass(n)) continue;
    refused = n;
    return reporter_.drop(DropReason::bad_field);
  }
  peer.receives.remote_floor = floor;
  peer.receives.table.advance_floor(floor, [](std::uint64_t, std::uint32_t) {});
}

// Null: the number is that of a WRITE.
IncomingMessage* Incoming::message_at(std::uint32_t entry) {
  IncomingMessage& message = messages_.at(entry);
  if (message.one_sided == OneSided::none) return &message;
  reporter_.drop(DropReason::bad_field);
  return nullptr;
}

// The descriptor of a DATA or ENVELOPE packet's message, made if this is its first packet. Null:
// nothing more is to be done with the packet.
IncomingMessage* Incoming::incoming_for(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  if (before(number, peer.receives.remote_floor)) {
    reporter_.drop(DropReason::below_floor);
    return nullptr;
  }
  if (!peer.receives.table.in_window(number)) {
    reporter_.drop(DropReason::beyond_window);
    return nullptr;
  }
  if (const auto entry = peer.receives.table.get(number)) {
    if (!is_finished_entry(*entry)) return message_at(*entry);
    outbox_.add_status(peer, number, status_of_entry(*entry));
    if (packet.type == wire::PacketType::data) {
      ++turn_.counters.duplicate_fragments;
      reporter_.drop(DropReason::duplicate_fragment);
    }
    return nullptr;
  }
  return make_incoming(peer, number, packet);
}

// A matched message uses its receive's own descriptor. A message that a receive waits for therefore
// always finds one, even if others flood this endpoint with unexpected messages.
bool Incoming::take_descriptor(Peer& peer, std::uint64_t number, const wire::EnvelopePart& envelope,
                               SlabId& id) {
  const bool lowest = number == peer.receives.next_to_process;
  bool in_reserve = false;
  if (descriptors_.all_taken()) {
    const UnexpectedEntry entry{.peer = peers_.id_of(peer),
                                .number = number,
                                .channel = envelope.channel,
                                .tag = envelope.tag,
                                .bytes = envelope.length(),
                                .immediate = envelope.immediate};
    in_reserve = lowest && descriptors_.has_reserve(peer);
    if (!in_reserve && !(lowest && matching_.is_wanted(entry))) return false;
  }
  IncomingMessage* message = messages_.try_allocate(id);
  HAWSER_ASSERT(message != nullptr);  // there are enough for all of these together
  message->peer = peer.index;
  message->number = number;
  message->in_reserve = in_reserve;
  descriptors_.take(peer, in_reserve);
  ++peer.messages;
  ++peer.receives.half_messages;
  return true;
}

// A message is no longer unmatched: it was matched, or is gone.
void Incoming::give_back_unmatched(IncomingMessage& message) {
  descriptors_.give_back(peers_.at(message.peer), std::exchange(message.in_reserve, false));
}

// Numbers far apart take a block each. A peer that sends such numbers leaves half of the blocks to
// the others: to their sends, and to new sessions. Blocks withheld for peers at rest don't count.
// The floor's block has one of its own, so each number is entered in its turn.
bool Incoming::may_enter(const Peer& peer, std::uint64_t number) const {
  return !peer.receives.table.needs_block(number) || numbers_.available() > numbers_.size();
}

// The bytes of the fragments of a message whose first packet this is. 0: the session has no such
// class.
std::uint16_t Incoming::size_in(const Peer& peer, const wire::PacketView& packet) {
  const std::uint8_t size_class = packet.fragment->size_class();
  if (!wire::is_class_of(size_class, peer.session.session_bytes)) return 0;
  return wire::bytes_of_class(size_class, peer.session.session_bytes);
}

IncomingMessage* Incoming::make_incoming(Peer& peer, std::uint64_t number,
                                         const wire::PacketView& packet) {
  const wire::EnvelopePart& envelope = *packet.envelope;
  const std::uint16_t size = size_in(peer, packet);
  if (size == 0 || !wire::fits_in_fragments(envelope.length(), size)) {
    reporter_.drop(DropReason::bad_field);
    return nullptr;
  }
  SlabId id;
  if (!take_descriptor(peer, number, envelope, id)) {
    descriptors_.turn_away(peer, number);
    reporter_.drop(DropReason::no_descriptor);
    return nullptr;
  }
  IncomingMessage* message = &messages_.at(id.index);
  message->moved = coarse(turn_.now());
  message->tag = envelope.tag;
  message->immediate = envelope.immediate;
  message->bytes = envelope.length();
  message->channel = envelope.channel;
  message->delivered_level = (envelope.eflags & wire::kEnvelopeDelivered) != 0;
  message->hint = {.group = envelope.group,
                   .members = envelope.members,
                   .step = envelope.step,
                   .steps = envelope.steps,
                   .collective = static_cast<Collective>(envelope.collective),
                   .priority = envelope.priority};
  message->size_class = packet.fragment->size_class();
  message->fragment_bytes = size;
  message->fragments = count_fragments(message->bytes, size);
  message->may_come = unscheduled_fragments(message->bytes, message->fragments, size,
                                            peer.identity.remote_unscheduled, message->hint);
  if (!message->arrived.start(bitmap_blocks_, message->fragments) || !may_enter(peer, number) ||
      !peer.receives.table.set(number, id.index)) {
    free_incoming(*message);
    reporter_.drop(DropReason::no_descriptor);
    return nullptr;
  }
  // This matches it before its payload needs a place.
  if (number == peer.receives.next_to_process) process_in_order(peer);
  return message;
}

void Incoming::on_data(Peer& peer, const wire::PacketView& packet) {
  if (take_eager(peer, packet)) return;
  if (IncomingMessage* message = incoming_for(peer, packet)) take_fragment(peer, *message, packet);
}

void Incoming::on_packed(Peer& peer, const wire::PacketView& packet) {
  wire::PackedMessages messages(packet);
  do {
    on_data(peer, messages.message());
  } while (messages.next());
}

void Incoming::on_granted(Peer& peer, const wire::PacketView& packet) {
  const SlabId id{packet.receive_slot->rx_slot, packet.receive_slot->rx_generation};
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  IncomingMessage* message = messages_.get(id);
  if (message != nullptr && message->peer == peer.index && message->number == number) {
    take_fragment(peer, *message, packet);
    return;
  }
  // Most likely it is finished, and the sender that still retransmits lacks the status.
  const auto entry = peer.receives.table.get(number);
  if (entry && is_finished_entry(*entry)) {
    ++turn_.counters.duplicate_fragments;
    outbox_.add_status(peer, number, status_of_entry(*entry));
    return reporter_.drop(DropReason::duplicate_fragment);
  }
  reporter_.drop(before(number, peer.receives.remote_floor) ? DropReason::below_floor
                                                            : DropReason::bad_slot);
}

// Tells the sender of a matched message what it waits for.
void Incoming::answer_again(Peer& peer, IncomingMessage& message) {
  const bool stands_still = message.no_room && message.granted == 0;
  const bool missing = !stands_still && message.arrived.claimed() < message.may_come;
  if (message.granted > 0) outbox_.add_grant(peer, message);
  if (missing) request_missing(message);
  if (!missing && message.granted == 0) {  // its turn will come
    outbox_.add_status(peer, message.number, wire::MessageStatus::pending);
  }
}

// An envelope alone asks for the state of the message; the answer is absolute.
void Incoming::on_envelope(Peer& peer, const wire::PacketView& packet) {
  if (packet.envelope->kind == wire::EnvelopeKind::cancel) return on_cancel(peer, packet);
  IncomingMessage* message = incoming_for(peer, packet);
  if (message == nullptr) return;
  if (packet.fragment->size_class() != message->size_class)
    return reporter_.drop(DropReason::bad_field);
  if ((packet.header->flags & wire::kFlagAllSent) != 0) message->all_sent = true;
  if (message->matched) {
    answer_again(peer, *message);
  } else if (message->no_room) {
    outbox_.add_status(peer, message->number, wire::MessageStatus::no_room);
  } else if (message->arrived.complete()) {
    outbox_.add_status(peer, message->number, wire::MessageStatus::accepted);
  } else if (message->arrived.claimed() < message->may_come) {
    request_missing(*message);
  } else {
    outbox_.add_status(peer, message->number, wire::MessageStatus::pending);
  }
}

// The sender wants to cancel its message. It can as long as no receive has it and no status has
// told that it is here for good. An unknown number gets a tombstone in advance.
void Incoming::on_cancel(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  if (before(number, peer.receives.remote_floor)) return reporter_.drop(DropReason::below_floor);
  if (!peer.receives.table.in_window(number)) return reporter_.drop(DropReason::beyond_window);
  if (const auto entry = peer.receives.table.get(number)) {
    outbox_.schedule_soon(peer);  // the sender waits for the answer
    if (is_finished_entry(*entry)) return outbox_.add_status(peer, number, status_of_entry(*entry));
    IncomingMessage& message = messages_.at(*entry);
    if (message.matched || message.claimed || message.kept) {
      message.kept = true;  // even if the claim ends: an older envelope may still come
      return outbox_.add_status(peer, number, wire::MessageStatus::matched);
    }
    if (message.arrived.complete() && !message.delivered_level) {
      return outbox_.add_status(peer, number, wire::MessageStatus::accepted);
    }
    if (message.processed) HAWSER_ASSERT(matching_.remove_message(*entry));
    free_incoming(message);
  }
  bury(peer, number);
}

// Makes the number's tombstone: in its turn it matches nothing, and late fragments are answered
// with its status.
void Incoming::bury(Peer& peer, std::uint64_t number) {
  constexpr auto kStatus = wire::MessageStatus::cancelled;
  if (!may_enter(peer, number) ||
      !peer.receives.table.set(number, kFinishedEntry | static_cast<std::uint32_t>(kStatus))) {
    return reporter_.drop(DropReason::no_descriptor);  // the sender asks again
  }
  outbox_.add_status(peer, number, kStatus);
  outbox_.schedule_soon(peer);  // others may wait for the floor
  if (number == peer.receives.next_to_process) process_in_order(peer);
}

void Incoming::take_fragment(Peer& peer, IncomingMessage& message, const wire::PacketView& packet) {
  const std::uint32_t fragment = packet.fragment->index();
  if (packet.fragment->size_class() != message.size_class || fragment >= message.fragments ||
      packet.payload.size() != fragment_length(message, fragment)) {
    return reporter_.drop(DropReason::bad_field);
  }
  if ((packet.header->flags & wire::kFlagAllSent) != 0) message.all_sent = true;
  const bool is_one_sided = message.one_sided != OneSided::none;
  if (is_one_sided && !message.arrived.is_claimed(fragment) && !may_place(peer, message)) return;
  const std::uint64_t begin = std::uint64_t{fragment} * message.fragment_bytes;
  const std::uint32_t stored_before = message.first_chunk;
  const bool stores = !message.matched && !message.arrived.is_claimed(fragment);
  // After NO_ROOM the sender starts anew, with a grant.
  const bool is_stopped = message.no_room && !packet.payload.empty();
  if (stores && (is_stopped || !payloads_.store(message.first_chunk, begin, packet.payload))) {
    message.no_room = true;
    ++turn_.counters.no_room_answers;
    outbox_.add_status(peer, message.number, wire::MessageStatus::no_room);
    return reporter_.drop(DropReason::no_room);
  }
  const FragmentBitmap::Claim claim = message.arrived.claim(fragment);
  if (claim == FragmentBitmap::Claim::duplicate) {
    ++turn_.counters.duplicate_fragments;
    note_duplicate(peer, message, fragment);
    if (is_one_sided) answer_again(peer, message);  // this is how its sender asks
    return reporter_.drop(DropReason::duplicate_fragment);
  }
  if (claim != FragmentBitmap::Claim::fresh) {
    payloads_.drop(message.first_chunk, stored_before);
    return reporter_.drop(DropReason::beyond_window);
  }
  turn_.counters.data_bytes_received += packet.payload.size();
  if (is_one_sided) {
    place_long(message, begin, packet.payload);
  } else if (message.matched && !message.scattered) {
    copy_in(message, begin, packet.payload.data(), packet.payload.size());
  } else if (message.matched) {
    place(message, begin, packet.payload.data(), packet.payload.size());
  }
  turn_.progress();
  message.moved = coarse(turn_.now());
  answered(peer, message, fragment);
  if (message.arrived.complete()) {
    if (message.granting.paced) count_granted(peer, message);
    return arrived_whole(message);
  }
  if (message.granting.paced) grant_progress(peer, message);
  expect(peer, message, true);
}

void Incoming::place(IncomingMessage& message, std::uint64_t begin, const std::byte* bytes,
                     std::size_t count) {
  if (!message.scattered) return copy_in(message, begin, bytes, count);
  if (begin >= message.place.bytes) return;
  message.place.pieces->put(begin, {bytes, static_cast<std::size_t>(std::min<std::uint64_t>(
                                               count, message.place.bytes - begin))});
}

// Every fragment is claimed and in its place.
void Incoming::arrived_whole(IncomingMessage& message) {
  Peer& peer = peers_.at(message.peer);
  if (message.half) --peer.receives.half_messages;
  message.half = false;
  timers_.remove(messages_.index_of(message));
  message.expect.timer.stop();
  if (message.one_sided != OneSided::none) return long_is_whole(message);
  // Whether the sender awaits a status.
  const bool counts = peer.session.state == SessionState::ready && !message.outlives &&
                      !before(message.number, peer.receives.remote_floor);
  if (!message.matched) {
    if (counts) outbox_.add_status(peer, message.number, wire::MessageStatus::accepted);
    outbox_.schedule_soon(peer);
    return;
  }
  const bool whole = message.bytes <= message.place.bytes;
  const auto status = whole ? wire::MessageStatus::delivered : wire::MessageStatus::truncated;
  complete_receive(message, whole ? Status::ok : Status::truncated);
  ++turn_.counters.messages_received;
  if (groups_.note_complete(message.channel, message.hint)) {
    raise_group(message.channel, message.hint);
  }
  if (counts) {
    const bool kept = peer.receives.table.set(message.number,
                                              kFinishedEntry | static_cast<std::uint32_t>(status));
    HAWSER_ASSERT(kept);  // the entry was there
    outbox_.add_status(peer, message.number, status);
    outbox_.schedule_soon(peer);
  }
  --peer.receives.open;
  free_incoming(message);
}

void Incoming::free_incoming(IncomingMessage& message) {
  Peer& peer = peers_.at(message.peer);
  const std::uint32_t index = messages_.index_of(message);
  if (message.claimed) unclaim(message);
  if (!message.matched) {
    give_back_unmatched(message);
    descriptors_.note_store_moves();
  }
  payloads_.drop(message.first_chunk);
  if (message.long_write != kNoIndex) {
    long_writes_.free(message.long_write);
    --long_writes_of_[message.peer];
  }
  leave_grants(message);
  message.arrived.release();
  outbox_.withdraw(peer, message);
  timers_.remove(index);
  HAWSER_ASSERT(peer.messages > 0);
  --peer.messages;
  if (message.half) --peer.receives.half_messages;
  touched_.add(peer);
  messages_.free(index);
}

}  // namespace hawser::proto
