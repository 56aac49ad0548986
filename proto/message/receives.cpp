// SPDX-License-Identifier: Apache-2.0
// Receives: posting, matching in the order of message numbers, completion.
//
// Invariants: numbers below next_to_process were processed, in order. peer.receives.posted counts
// the receives posted for exactly that peer, and peer.receives.open the matched messages that are
// not whole.
#include <algorithm>

#include "proto/base/sequence.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/message/incoming.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/packet_sender.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

namespace {
constexpr std::uint64_t kMostGroups = 1024;  // steps of collectives that are told apart at a time
constexpr std::uint32_t kLongMessageBlocks = 4096;  // of bitmaps, beyond one for each message
constexpr std::uint32_t kDirectories = 1024;        // of bitmaps of very long messages

std::uint32_t capacity(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, 0xfffffff0u));
}
}  // namespace

Incoming::Incoming(const Parts& parts)
    : turn_(parts.turn),
      peers_(parts.peers),
      sender_(parts.sender),
      nics_(parts.sender.nics()),
      reporter_(parts.reporter),
      touched_(parts.touched),
      outbox_(parts.outbox),
      routes_(parts.routes),
      descriptors_(parts.descriptors),
      paths_(parts.paths),
      sends_(parts.sends),
      regions_(parts.regions),
      numbers_(parts.numbers),
      messages_(capacity(turn_.tunables.max_receive_messages + turn_.tunables.max_operations +
                         turn_.tunables.max_peers + kMostLongWrites)),
      long_writes_(kMostLongWrites),
      long_writes_of_(turn_.tunables.max_peers),
      notices_(capacity(turn_.tunables.max_operations)),
      bitmap_blocks_(messages_.capacity() + kLongMessageBlocks, kDirectories),
      matching_(capacity(turn_.tunables.max_operations), messages_.capacity(),
                capacity(turn_.tunables.max_peers)),
      groups_(capacity(std::min(turn_.tunables.max_operations, kMostGroups))),
      grants_(capacity(turn_.tunables.max_peers),
              turn_.tunables.grant_window_bytes / sender_.limits().fragment_bytes),
      payloads_(turn_.tunables.unexpected_bytes, sender_.limits().fragment_bytes),
      timers_(messages_.capacity()) {
  const NicLimits& limits = sender_.limits();
  grants_.budget = GrantBudget(turn_.tunables.grant_start_bytes * nics_.size(),
                               limits.receive_bytes * nics_.size(), limits.fragment_bytes);
}

UnexpectedEntry Incoming::unexpected_entry(const IncomingMessage& message,
                                           std::uint32_t index) const {
  return {.peer = peers_.id_of(message.peer),
          .rx_message = index,
          .number = message.number,
          .channel = message.channel,
          .tag = message.tag,
          .bytes = message.bytes,
          .immediate = message.immediate};
}

void Incoming::process_in_order(Peer& peer) {
  for (;;) {
    const auto entry = peer.receives.table.get(peer.receives.next_to_process);
    if (!entry) break;
    ++peer.receives.next_to_process;
    descriptors_.note_processed(peer);
    if (is_finished_entry(*entry)) continue;  // a tombstone, or a one-sided operation
    IncomingMessage& message = messages_.at(*entry);
    if (message.one_sided == OneSided::none) process(message);
  }
  descriptors_.solicit_lowest(peer);
}

// The message's turn to match has come.
void Incoming::process(IncomingMessage& message) {
  message.processed = true;
  message.moved = coarse(turn_.now());
  const std::uint32_t index = messages_.index_of(message);
  if (const PostedReceive* receive = matching_.arrive(unexpected_entry(message, index))) {
    note_unposted(*receive);
    match(message, *receive);
  } else {
    ++turn_.counters.unexpected_messages;
  }
}

void Incoming::match(IncomingMessage& message, const PostedReceive& receive) {
  Peer& peer = peers_.at(message.peer);
  give_back_unmatched(message);
  message.matched = true;
  message.moved = coarse(turn_.now());
  message.operation = receive.operation;
  message.scattered = receive.scattered;
  if (receive.scattered) {
    message.place.pieces = receive.pieces;
  } else {
    message.place.buffer = receive.data;
  }
  message.place.bytes = receive.bytes;
  message.options = receive.options;
  if (message.hint.group == 0) {
    const std::uint8_t priority = message.hint.priority;  // all that its sender gave
    message.hint = receive.options.hint;
    message.hint.priority = std::max(priority, message.hint.priority);
  }
  ++peer.receives.open;
  payloads_.for_each(message.first_chunk,
                     [&](std::uint64_t begin, std::span<const std::byte> bytes) {
                       place(message, begin, bytes.data(), bytes.size());
                     });
  payloads_.drop(message.first_chunk);
  if (message.arrived.complete()) return arrived_whole(message);
  start_grants(message);
  expect(peer, message, true);
  touched_.add(peer);
}

void Incoming::post(const PostedReceive& receive) {
  if (const auto found = matching_.post(receive)) {
    descriptors_.note_store_moves();
    match(messages_.at(found->rx_message), receive);
  } else {
    if (receive.peer != kAnyPeer) {
      Peer& peer = peers_.at(peer_place(receive.peer));
      ++peer.receives.posted;
      touched_.add(peer);
    }
    if (descriptors_.any_starved()) descriptors_.note_waiting_receive(receive.peer);
  }
  if (descriptors_.full_since() != Time{}) {
    descriptors_.judge_by(turn_.now() + milliseconds(turn_.tunables.peer_timeout_ms));
  }
}

// ---- claims: messages that the caller has taken out of the matching, and that still have no
// receive. A claim has the name of its descriptor.

MessageId Incoming::claim(const UnexpectedEntry& entry) {
  const std::uint32_t index = entry.rx_message;
  IncomingMessage& message = messages_.at(index);
  message.age = entry.age;
  message.claimed = true;
  ++claims_;
  HAWSER_ASSERT(matching_.remove_message(index));
  return MessageId{std::uint64_t{messages_.id_at(index).generation} << 32 | index};
}

IncomingMessage* Incoming::claimed(MessageId name) {
  const auto bits = static_cast<std::uint64_t>(name);
  const SlabId id{static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
  if (id.index >= messages_.capacity()) return nullptr;
  IncomingMessage* message = messages_.get(id);
  return message != nullptr && message->claimed ? message : nullptr;
}

void Incoming::unclaim(IncomingMessage& message) {
  HAWSER_ASSERT(message.claimed && claims_ > 0);
  message.claimed = false;
  --claims_;
}

void Incoming::receive_claimed(IncomingMessage& message, const PostedReceive& receive) {
  unclaim(message);
  descriptors_.note_store_moves();
  match(message, receive);
}

void Incoming::put_back(IncomingMessage& message) {
  unclaim(message);
  UnexpectedEntry entry = unexpected_entry(message, messages_.index_of(message));
  entry.age = message.age;
  if (const PostedReceive* receive = matching_.arrive(entry)) {
    note_unposted(*receive);
    descriptors_.note_store_moves();
    match(message, *receive);
  }
}

// Messages of the peer that the caller has claimed; `visit` may free the message.
template <class Visit>
void Incoming::for_each_claim(const Peer& peer, Visit&& visit) {
  for (std::uint32_t i = 0; claims_ > 0 && i < messages_.capacity(); ++i) {
    if (!messages_.is_live(i)) continue;
    IncomingMessage& message = messages_.at(i);
    if (message.claimed && message.peer == peer.index) visit(message);
  }
}

// Whole messages stay even if their turn to match has not come: the messages before them will not
// come any more.
void Incoming::end_session(Peer& peer, Status status, bool drops_whole) {
  IndexList<IncomingMessage, &IncomingMessage::due_link> kept;
  if (peer.receives.table.is_open()) {
    std::uint64_t number = peer.receives.remote_floor;
    for (std::uint32_t left = peer.receives.table.size(); left > 0; ++number) {
      const auto entry = peer.receives.table.get(number);
      if (!entry) continue;
      --left;
      if (is_finished_entry(*entry)) continue;
      IncomingMessage& message = messages_.at(*entry);
      if (message.matched) {
        if (message.one_sided == OneSided::none) complete_receive(message, status);
        if (message.one_sided == OneSided::write) leave_unfinished(message, status);
        --peer.receives.open;
      } else if (message.processed && (!message.claimed || message.arrived.complete())) {
        continue;  // held by the matching, or by the caller
      } else if (message.arrived.complete() && !drops_whole) {
        process(message);
        continue;
      }
      free_incoming(message);
    }
  }
  matching_.drop_peer(
      peers_.id_of(peer),
      [&](const PostedReceive& receive) {
        note_unposted(receive);
        complete_unmatched(receive, status);
      },
      [&](const UnexpectedEntry& entry) {
        IncomingMessage& message = messages_.at(entry.rx_message);
        if (!message.arrived.complete()) return free_incoming(message);
        outbox_.withdraw(peer, message);
        message.age = entry.age;  // a claimed message keeps its own, too
        message.outlives = true;
        kept.push_back(messages_, entry.rx_message);
      });
  outbox_.withdraw_messages(peer);  // those that are claimed
  while (!kept.empty()) {
    const std::uint32_t index = kept.pop_front(messages_);
    UnexpectedEntry entry = unexpected_entry(messages_.at(index), index);
    entry.age = messages_.at(index).age;
    matching_.hold(entry);
  }
  for_each_claim(peer, [](IncomingMessage& message) { message.outlives = true; });
}

void Incoming::drop_held(Peer& peer) {
  matching_.drop_peer(
      peers_.id_of(peer), [](const PostedReceive&) { HAWSER_ASSERT(false); },
      [&](const UnexpectedEntry& entry) { free_incoming(messages_.at(entry.rx_message)); });
  for_each_claim(peer, [&](IncomingMessage& message) { free_incoming(message); });
}

void Incoming::note_unposted(const PostedReceive& receive) {
  if (receive.peer == kAnyPeer) return;
  Peer& peer = peers_.at(peer_place(receive.peer));
  HAWSER_ASSERT(peer.receives.posted > 0);
  --peer.receives.posted;
  touched_.add(peer);
}

bool Incoming::cancel(OperationId operation, Status status) {
  const auto receive = matching_.cancel_receive(operation);
  if (!receive) return false;
  note_unposted(*receive);
  complete_unmatched(*receive, status);
  return true;
}

void Incoming::cancel_all(Status status) {
  turn_.operations.for_each_receive([&](const OperationSlot& slot) {
    if (const auto receive = matching_.cancel_receive(slot.operation)) {
      note_unposted(*receive);
      complete_unmatched(*receive, status);
    }
  });
}

std::optional<wire::MessageStatus> Incoming::final_status(std::uint32_t entry) const {
  if (is_finished_entry(entry)) return status_of_entry(entry);
  const IncomingMessage& message = messages_.at(entry);
  if (!message.matched && message.arrived.complete()) return wire::MessageStatus::accepted;
  return std::nullopt;
}

void Incoming::complete_receive(const IncomingMessage& message, Status status) {
  if (turn_.tracing()) {
    reporter_.trace_receive(TraceKind::receive_completed, message,
                            static_cast<std::uint8_t>(status), kNoTraceIndex, 0);
  }
  Completion completion;
  completion.operation = message.operation;
  completion.user_data = message.options.user_data;
  completion.kind = OperationKind::receive;
  completion.status = status;
  completion.channel = message.channel;
  completion.peer = peers_.id_of(message.peer);
  completion.tag = message.tag;
  const bool is_placed = status == Status::ok || status == Status::truncated;
  completion.bytes = is_placed ? std::min(message.bytes, message.place.bytes) : 0;
  completion.message_bytes = message.bytes;
  completion.immediate = message.immediate;
  turn_.complete(completion);
}

// Ends a receive that no message has matched.
void Incoming::complete_unmatched(const PostedReceive& receive, Status status) {
  if (turn_.tracing()) {
    TraceRecord record;
    record.kind = TraceKind::receive_completed;
    record.cause = static_cast<std::uint8_t>(status);
    record.operation = static_cast<std::uint64_t>(receive.operation);
    if (receive.peer != kAnyPeer) record.peer = peer_place(receive.peer);
    turn_.trace(record);
  }
  Completion completion;
  completion.operation = receive.operation;
  completion.user_data = receive.options.user_data;
  completion.kind = OperationKind::receive;
  completion.status = status;
  completion.channel = receive.channel;
  completion.peer = receive.peer;
  completion.tag = receive.tag;
  turn_.complete(completion);
}

}  // namespace hawser::proto
