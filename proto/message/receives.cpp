// SPDX-License-Identifier: Apache-2.0
// Receives: posting, matching in the order of message numbers, completion.
//
// Invariants: numbers below next_to_process were processed, in order. peer.receives.posted counts
// the receives posted for exactly that peer, and peer.receives.open the matched messages that are
// not whole.
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"

namespace hawser::proto {

UnexpectedEntry Endpoint::Core::unexpected_entry(const IncomingMessage& message,
                                                 std::uint32_t index) const {
  return {.peer = peers.id_of(message.peer),
          .rx_message = index,
          .number = message.number,
          .channel = message.channel,
          .tag = message.tag,
          .bytes = message.bytes,
          .immediate = message.immediate};
}

void Endpoint::Core::process_in_order(Peer& peer) {
  for (;;) {
    const auto entry = peer.receives.table.get(peer.receives.next_to_process);
    if (!entry) break;
    ++peer.receives.next_to_process;
    descriptors.note_processed(peer);
    if (is_finished_entry(*entry)) continue;  // a tombstone
    process(incoming.at(*entry));
  }
  descriptors.solicit_lowest(peer);
}

// The message's turn to match has come.
void Endpoint::Core::process(IncomingMessage& message) {
  message.processed = true;
  message.moved = coarse(turn.now());
  const std::uint32_t index = incoming.index_of(message);
  if (const PostedReceive* receive = matching.arrive(unexpected_entry(message, index))) {
    note_unposted(*receive);
    match(message, *receive);
  } else {
    ++turn.counters.unexpected_messages;
  }
}

void Endpoint::Core::match(IncomingMessage& message, const PostedReceive& receive) {
  Peer& peer = peers.at(message.peer);
  give_back_unmatched(message);
  message.matched = true;
  message.moved = coarse(turn.now());
  message.operation = receive.operation;
  message.buffer = receive.data;
  message.buffer_bytes = receive.bytes;
  message.options = receive.options;
  if (message.hint.group == 0) {
    const std::uint8_t priority = message.hint.priority;  // all that its sender gave
    message.hint = receive.options.hint;
    message.hint.priority = std::max(priority, message.hint.priority);
  }
  ++peer.receives.open;
  payloads.for_each(message.first_chunk,
                    [&](std::uint64_t begin, std::span<const std::byte> bytes) {
                      place(message, begin, bytes.data(), bytes.size());
                    });
  payloads.drop(message.first_chunk);
  if (message.arrived.complete()) return arrived_whole(message);
  start_grants(message);
  expect(message, true);
  touched.add(peer);
}

void Endpoint::Core::post_receive(const ReceiveRequest& request) {
  const PostedReceive receive{.operation = request.operation,
                              .peer = request.peer,
                              .channel = request.channel,
                              .tag = request.tag,
                              .mask = request.mask,
                              .data = request.data,
                              .bytes = request.bytes,
                              .options = request.options};
  if (const auto found = matching.post(receive)) {
    descriptors.note_store_moves();
    match(incoming.at(found->rx_message), receive);
  } else {
    if (request.peer != kAnyPeer) {
      Peer& peer = peers.at(peer_place(request.peer));
      ++peer.receives.posted;
      touched.add(peer);
    }
    if (descriptors.any_starved()) descriptors.note_waiting_receive(request.peer);
  }
  if (descriptors.full_since() != Time{}) {
    descriptors.judge_by(turn.now() + milliseconds(turn.tunables.peer_timeout_ms));
  }
}

// ---- claims: messages that the caller has taken out of the matching, and that still have no
// receive. A claim has the name of its descriptor.

MessageId Endpoint::Core::claim(const UnexpectedEntry& entry) {
  const std::uint32_t index = entry.rx_message;
  IncomingMessage& message = incoming.at(index);
  message.age = entry.age;
  message.claimed = true;
  ++claims;
  HAWSER_ASSERT(matching.remove_message(index));
  return MessageId{std::uint64_t{incoming.id_at(index).generation} << 32 | index};
}

// Null: there is no such claim, or no longer.
IncomingMessage* Endpoint::Core::claimed(MessageId name) {
  const auto bits = static_cast<std::uint64_t>(name);
  const SlabId id{static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
  if (id.index >= incoming.capacity()) return nullptr;
  IncomingMessage* message = incoming.get(id);
  return message != nullptr && message->claimed ? message : nullptr;
}

void Endpoint::Core::unclaim(IncomingMessage& message) {
  HAWSER_ASSERT(message.claimed && claims > 0);
  message.claimed = false;
  --claims;
}

void Endpoint::Core::receive_claimed(IncomingMessage& message, const ReceiveRequest& request) {
  unclaim(message);
  descriptors.note_store_moves();
  match(message, {.operation = request.operation,
                  .data = request.data,
                  .bytes = request.bytes,
                  .options = request.options});
}

void Endpoint::Core::put_back(IncomingMessage& message) {
  unclaim(message);
  UnexpectedEntry entry = unexpected_entry(message, incoming.index_of(message));
  entry.age = message.age;
  if (const PostedReceive* receive = matching.arrive(entry)) {
    note_unposted(*receive);
    descriptors.note_store_moves();
    match(message, *receive);
  }
}

void Endpoint::Core::note_unposted(const PostedReceive& receive) {
  if (receive.peer == kAnyPeer) return;
  Peer& peer = peers.at(peer_place(receive.peer));
  HAWSER_ASSERT(peer.receives.posted > 0);
  --peer.receives.posted;
  touched.add(peer);
}

void Endpoint::Core::complete_receive(const IncomingMessage& message, Status status) {
  if (turn.tracing()) {
    reporter.trace_receive(TraceKind::receive_completed, message, static_cast<std::uint8_t>(status),
                           kNoTraceIndex, 0);
  }
  Completion completion;
  completion.operation = message.operation;
  completion.user_data = message.options.user_data;
  completion.kind = OperationKind::receive;
  completion.status = status;
  completion.channel = message.channel;
  completion.peer = peers.id_of(message.peer);
  completion.tag = message.tag;
  completion.bytes = std::min(message.bytes, message.buffer_bytes);
  completion.message_bytes = message.bytes;
  completion.immediate = message.immediate;
  turn.complete(completion);
}

// Ends a receive that no message has matched.
void Endpoint::Core::complete_unmatched(const PostedReceive& receive, Status status) {
  if (turn.tracing()) {
    TraceRecord record;
    record.kind = TraceKind::receive_completed;
    record.cause = static_cast<std::uint8_t>(status);
    record.operation = static_cast<std::uint64_t>(receive.operation);
    if (receive.peer != kAnyPeer) record.peer = peer_place(receive.peer);
    turn.trace(record);
  }
  Completion completion;
  completion.operation = receive.operation;
  completion.user_data = receive.options.user_data;
  completion.kind = OperationKind::receive;
  completion.status = status;
  completion.channel = receive.channel;
  completion.peer = receive.peer;
  completion.tag = receive.tag;
  turn.complete(completion);
}

}  // namespace hawser::proto
