// SPDX-License-Identifier: Apache-2.0
// Incoming messages: a fragment's way from the packet to its place, and the floor. Duplicates are
// dropped at three levels. A datagram whose path number was seen is dropped by note_arrival
// (path/receive_paths.cpp). A fragment whose bit is claimed is dropped by take_fragment. A packet
// of a message that is finished, or below the floor, is dropped by incoming_for or on_granted.
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
#include "proto/endpoint/core.hpp"
#include "proto/message/unscheduled.hpp"
#include "proto/wire/packed.hpp"

namespace hawser::proto {

namespace {

std::uint32_t count_fragments(std::uint64_t bytes, std::uint32_t fragment_bytes) {
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + fragment_bytes - 1) / fragment_bytes);
}

std::size_t fragment_length(const IncomingMessage& message, std::uint32_t fragment,
                            std::uint32_t fragment_bytes) {
  const std::uint64_t begin = std::uint64_t{fragment} * fragment_bytes;
  return begin >= message.bytes ? 0
                                : static_cast<std::size_t>(std::min<std::uint64_t>(
                                      fragment_bytes, message.bytes - begin));
}

}  // namespace

// A sender's floor may pass only messages that have their final status: whole ones.
void Endpoint::Core::on_floor(Peer& peer, std::uint32_t wire_floor) {
  const std::uint64_t floor = expand(wire_floor, peer.receives.remote_floor);
  if (!before(peer.receives.remote_floor, floor)) return;
  if (before(peer.receives.next_to_process, floor)) return reporter.drop(DropReason::bad_field);
  const auto may_pass = [&](std::uint64_t number) {
    const auto entry = peer.receives.table.get(number);
    return !entry || is_finished_entry(*entry) || incoming.at(*entry).arrived.complete();
  };
  // The number that refused the last floor most likely refuses this one. Without it, one packet
  // after the other could cost a walk over all numbers.
  std::uint64_t& refused = peer.receives.refused_floor;
  if (!before(refused, peer.receives.remote_floor) && before(refused, floor) &&
      !may_pass(refused)) {
    return reporter.drop(DropReason::bad_field);
  }
  for (std::uint64_t n = peer.receives.remote_floor; n != floor; ++n) {
    if (may_pass(n)) continue;
    refused = n;
    return reporter.drop(DropReason::bad_field);
  }
  peer.receives.remote_floor = floor;
  peer.receives.table.advance_floor(floor, [](std::uint64_t, std::uint32_t) {});
}

// The descriptor of a DATA or ENVELOPE packet's message, made if this is its first packet. Null:
// nothing more is to be done with the packet.
IncomingMessage* Endpoint::Core::incoming_for(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  if (before(number, peer.receives.remote_floor)) {
    reporter.drop(DropReason::below_floor);
    return nullptr;
  }
  if (!peer.receives.table.in_window(number)) {
    reporter.drop(DropReason::beyond_window);
    return nullptr;
  }
  if (const auto entry = peer.receives.table.get(number)) {
    if (!is_finished_entry(*entry)) return &incoming.at(*entry);
    outbox.add_status(peer, number, status_of_entry(*entry));
    if (packet.type == wire::PacketType::data) {
      ++turn.counters.duplicate_fragments;
      reporter.drop(DropReason::duplicate_fragment);
    }
    return nullptr;
  }
  return make_incoming(peer, number, *packet.envelope);
}

// A matched message uses its receive's own descriptor. A message that a receive waits for therefore
// always finds one, even if others flood this endpoint with unexpected messages.
bool Endpoint::Core::take_descriptor(Peer& peer, std::uint64_t number,
                                     const wire::EnvelopePart& envelope, SlabId& id) {
  const bool lowest = number == peer.receives.next_to_process;
  bool in_reserve = false;
  if (descriptors.all_taken()) {
    const UnexpectedEntry entry{.peer = peers.id_of(peer),
                                .number = number,
                                .channel = envelope.channel,
                                .tag = envelope.tag,
                                .bytes = envelope.length(),
                                .immediate = envelope.immediate};
    in_reserve = lowest && descriptors.has_reserve(peer);
    if (!in_reserve && !(lowest && matching.is_wanted(entry))) return false;
  }
  IncomingMessage* message = incoming.try_allocate(id);
  HAWSER_ASSERT(message != nullptr);  // there are enough for all of these together
  message->peer = peer.index;
  message->number = number;
  message->in_reserve = in_reserve;
  descriptors.take(peer, in_reserve);
  ++peer.messages;
  ++peer.receives.half_messages;
  return true;
}

// A message is no longer unmatched: it was matched, or is gone.
void Endpoint::Core::give_back_unmatched(IncomingMessage& message) {
  descriptors.give_back(peers.at(message.peer), std::exchange(message.in_reserve, false));
}

// Numbers far apart take a block each. A peer that sends such numbers leaves half of all blocks to
// the others: to their sends, and to new sessions. The floor's block has one of its own, so each
// number is entered in its turn.
bool Endpoint::Core::may_enter(const Peer& peer, std::uint64_t number) const {
  return !peer.receives.table.needs_block(number) ||
         table_blocks.available() > table_blocks.capacity() / 2;
}

IncomingMessage* Endpoint::Core::make_incoming(Peer& peer, std::uint64_t number,
                                               const wire::EnvelopePart& envelope) {
  if (!fits_in_fragments(envelope.length(), peer.session.fragment_bytes)) {
    reporter.drop(DropReason::bad_field);
    return nullptr;
  }
  SlabId id;
  if (!take_descriptor(peer, number, envelope, id)) {
    descriptors.turn_away(peer, number);
    reporter.drop(DropReason::no_descriptor);
    return nullptr;
  }
  IncomingMessage* message = &incoming.at(id.index);
  message->moved = coarse(turn.now());
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
  message->fragments = count_fragments(message->bytes, peer.session.fragment_bytes);
  message->may_come =
      unscheduled_fragments(message->bytes, message->fragments, peer.session.fragment_bytes,
                            peer.identity.remote_unscheduled, message->hint);
  if (!message->arrived.start(bitmap_blocks, message->fragments) || !may_enter(peer, number) ||
      !peer.receives.table.set(number, id.index)) {
    free_incoming(*message);
    reporter.drop(DropReason::no_descriptor);
    return nullptr;
  }
  // This matches it before its payload needs a place.
  if (number == peer.receives.next_to_process) process_in_order(peer);
  return message;
}

void Endpoint::Core::on_data(Peer& peer, const wire::PacketView& packet) {
  if (take_eager(peer, packet)) return;
  if (IncomingMessage* message = incoming_for(peer, packet)) take_fragment(peer, *message, packet);
}

void Endpoint::Core::on_packed(Peer& peer, const wire::PacketView& packet) {
  wire::PackedMessages messages(packet);
  do {
    on_data(peer, messages.message());
  } while (messages.next());
}

void Endpoint::Core::on_granted(Peer& peer, const wire::PacketView& packet) {
  const SlabId id{packet.receive_slot->rx_slot, packet.receive_slot->rx_generation};
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  IncomingMessage* message = incoming.get(id);
  if (message != nullptr && message->peer == peer.index && message->number == number) {
    take_fragment(peer, *message, packet);
    return;
  }
  // Most likely it is finished, and the sender that still retransmits lacks the status.
  const auto entry = peer.receives.table.get(number);
  if (entry && is_finished_entry(*entry)) {
    ++turn.counters.duplicate_fragments;
    outbox.add_status(peer, number, status_of_entry(*entry));
    return reporter.drop(DropReason::duplicate_fragment);
  }
  reporter.drop(before(number, peer.receives.remote_floor) ? DropReason::below_floor
                                                           : DropReason::bad_slot);
}

// An envelope alone asks for the state of the message; the answer is absolute.
void Endpoint::Core::on_envelope(Peer& peer, const wire::PacketView& packet) {
  if (packet.envelope->kind == wire::EnvelopeKind::cancel) return on_cancel(peer, packet);
  IncomingMessage* message = incoming_for(peer, packet);
  if (message == nullptr) return;
  if ((packet.header->flags & wire::kFlagAllSent) != 0) message->all_sent = true;
  if (message->matched) {
    const bool stands_still = message->no_room && message->granted == 0;
    const bool missing = !stands_still && message->arrived.claimed() < message->may_come;
    if (message->granted > 0) outbox.add_grant(peer, *message);
    if (missing) request_missing(*message);
    if (!missing && message->granted == 0) {  // its turn will come
      outbox.add_status(peer, message->number, wire::MessageStatus::pending);
    }
  } else if (message->no_room) {
    outbox.add_status(peer, message->number, wire::MessageStatus::no_room);
  } else if (message->arrived.complete()) {
    outbox.add_status(peer, message->number, wire::MessageStatus::accepted);
  } else if (message->arrived.claimed() < message->may_come) {
    request_missing(*message);
  } else {
    outbox.add_status(peer, message->number, wire::MessageStatus::pending);
  }
}

// The sender wants to cancel its message. It can as long as no receive has it and no status has
// told that it is here for good. An unknown number gets a tombstone in advance.
void Endpoint::Core::on_cancel(Peer& peer, const wire::PacketView& packet) {
  const std::uint64_t number = expand(packet.fragment->message, peer.receives.next_to_process);
  if (before(number, peer.receives.remote_floor)) return reporter.drop(DropReason::below_floor);
  if (!peer.receives.table.in_window(number)) return reporter.drop(DropReason::beyond_window);
  if (const auto entry = peer.receives.table.get(number)) {
    outbox.schedule_soon(peer);  // the sender waits for the answer
    if (is_finished_entry(*entry)) return outbox.add_status(peer, number, status_of_entry(*entry));
    IncomingMessage& message = incoming.at(*entry);
    if (message.matched || message.claimed || message.kept) {
      message.kept = true;  // even if the claim ends: an older envelope may still come
      return outbox.add_status(peer, number, wire::MessageStatus::matched);
    }
    if (message.arrived.complete() && !message.delivered_level) {
      return outbox.add_status(peer, number, wire::MessageStatus::accepted);
    }
    if (message.processed) HAWSER_ASSERT(matching.remove_message(*entry));
    free_incoming(message);
  }
  bury(peer, number);
}

// Makes the number's tombstone: in its turn it matches nothing, and late fragments are answered
// with its status.
void Endpoint::Core::bury(Peer& peer, std::uint64_t number) {
  constexpr auto kStatus = wire::MessageStatus::cancelled;
  if (!may_enter(peer, number) ||
      !peer.receives.table.set(number, kFinishedEntry | static_cast<std::uint32_t>(kStatus))) {
    return reporter.drop(DropReason::no_descriptor);  // the sender asks again
  }
  outbox.add_status(peer, number, kStatus);
  outbox.schedule_soon(peer);  // others may wait for the floor
  if (number == peer.receives.next_to_process) process_in_order(peer);
}

void Endpoint::Core::take_fragment(Peer& peer, IncomingMessage& message,
                                   const wire::PacketView& packet) {
  const std::uint32_t fragment = packet.fragment->fragment;
  if (fragment >= message.fragments ||
      packet.payload.size() != fragment_length(message, fragment, peer.session.fragment_bytes)) {
    return reporter.drop(DropReason::bad_field);
  }
  if ((packet.header->flags & wire::kFlagAllSent) != 0) message.all_sent = true;
  const std::uint64_t begin = std::uint64_t{fragment} * peer.session.fragment_bytes;
  const std::uint32_t stored_before = message.first_chunk;
  const bool stores = !message.matched && !message.arrived.is_claimed(fragment);
  // After NO_ROOM the sender starts anew, with a grant.
  const bool is_stopped = message.no_room && !packet.payload.empty();
  if (stores && (is_stopped || !payloads.store(message.first_chunk, begin, packet.payload))) {
    message.no_room = true;
    ++turn.counters.no_room_answers;
    outbox.add_status(peer, message.number, wire::MessageStatus::no_room);
    return reporter.drop(DropReason::no_room);
  }
  const FragmentBitmap::Claim claim = message.arrived.claim(fragment);
  if (claim == FragmentBitmap::Claim::duplicate) {
    ++turn.counters.duplicate_fragments;
    note_duplicate(peer, message, fragment);
    return reporter.drop(DropReason::duplicate_fragment);
  }
  if (claim != FragmentBitmap::Claim::fresh) {
    payloads.drop(message.first_chunk, stored_before);
    return reporter.drop(DropReason::beyond_window);
  }
  turn.counters.data_bytes_received += packet.payload.size();
  if (message.matched) place(message, begin, packet.payload.data(), packet.payload.size());
  turn.progress();
  message.moved = coarse(turn.now());
  answered(peer, message, fragment);
  if (message.paced) count_granted(message);
  if (message.arrived.complete()) return arrived_whole(message);
  grant_progress(message);
  expect(message, true);
}

void Endpoint::Core::place(IncomingMessage& message, std::uint64_t begin, const std::byte* bytes,
                           std::size_t count) {
  if (begin >= message.buffer_bytes) return;
  const auto room =
      static_cast<std::size_t>(std::min<std::uint64_t>(count, message.buffer_bytes - begin));
  if (room > 0) std::memcpy(message.buffer + begin, bytes, room);
  // Most likely the next fragment comes next; prefetch its place.
  const std::byte* const next = message.buffer + begin + room;
  prefetch(next, next + std::min<std::uint64_t>(room, message.buffer_bytes - begin - room));
}

// Every fragment is claimed and in its place.
void Endpoint::Core::arrived_whole(IncomingMessage& message) {
  Peer& peer = peers.at(message.peer);
  if (message.half) --peer.receives.half_messages;
  message.half = false;
  incoming_timers.remove(incoming.index_of(message));
  message.expect_at = kNever;
  // Whether the sender awaits a status.
  const bool counts = peer.session.state == SessionState::ready && !message.outlives &&
                      !before(message.number, peer.receives.remote_floor);
  if (!message.matched) {
    if (counts) outbox.add_status(peer, message.number, wire::MessageStatus::accepted);
    outbox.schedule_soon(peer);
    return;
  }
  const bool whole = message.bytes <= message.buffer_bytes;
  const auto status = whole ? wire::MessageStatus::delivered : wire::MessageStatus::truncated;
  complete_receive(message, whole ? Status::ok : Status::truncated);
  ++turn.counters.messages_received;
  if (groups.note_complete(message.channel, message.hint)) {
    raise_group(message.channel, message.hint);
  }
  if (counts) {
    const bool kept = peer.receives.table.set(message.number,
                                              kFinishedEntry | static_cast<std::uint32_t>(status));
    HAWSER_ASSERT(kept);  // the entry was there
    outbox.add_status(peer, message.number, status);
    outbox.schedule_soon(peer);
  }
  --peer.receives.open;
  free_incoming(message);
}

void Endpoint::Core::free_incoming(IncomingMessage& message) {
  Peer& peer = peers.at(message.peer);
  const std::uint32_t index = incoming.index_of(message);
  if (message.claimed) unclaim(message);
  if (!message.matched) {
    give_back_unmatched(message);
    descriptors.note_store_moves();
  }
  payloads.drop(message.first_chunk);
  leave_grants(message);
  message.arrived.release();
  outbox.withdraw(peer, message);
  incoming_timers.remove(index);
  HAWSER_ASSERT(peer.messages > 0);
  --peer.messages;
  if (message.half) --peer.receives.half_messages;
  touched.add(peer);
  incoming.free(index);
}

}  // namespace hawser::proto
