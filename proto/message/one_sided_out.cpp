// SPDX-License-Identifier: Apache-2.0
// What this end sends of one-sided operations: writes, reads and atomics of its own, and replies to
// those of peers (docs/internals/one_sided.md).
//
// They are messages: send.cpp has their life. Three things differ. Their packets name a target in
// the place of an envelope. They ask for their status by repeating the first fragment. And an
// operation that fetches ends with its reply, which may come before its own status or after it.
//
// Invariant: a peer's list of fetches has each operation that awaits a reply, whether it has its
// status or not.
#include <algorithm>
#include <utility>

#include "proto/message/outgoing.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/region/regions.hpp"
#include "proto/service/reporter.hpp"

namespace hawser::proto {

OneSidedSend* Outgoing::make_one_sided(Peer& peer, SendKind kind, OutgoingMessage*& message) {
  SlabId id;
  if (kind == SendKind::reply) {  // its places are withheld
    one_sided_.release(1);
    messages_.release(1);
  }
  OneSidedSend* const made = one_sided_.try_allocate(id);
  message = made == nullptr ? nullptr : messages_.try_allocate();
  if (message == nullptr) {
    if (made != nullptr) one_sided_.free(id.index);
    return nullptr;
  }
  message->peer = peer.index;
  message->kind = kind;
  message->held = true;
  message->one_sided = id.index;
  message->moved = coarse(turn_.now());
  made->message = messages_.index_of(*message);
  ++peer.messages;
  ++peer.open_sends;
  return made;
}

void Outgoing::unmake(Peer& peer, OutgoingMessage& message) {
  const std::uint32_t then = one_sided_.at(message.one_sided).then;
  if (then != kNoIndex) unmake(peer, messages_.at(then));
  if (awaits_reply(message)) leave_fetches(peer, one_sided_.at(message.one_sided));
  --peer.messages;
  --peer.open_sends;
  one_sided_.free(message.one_sided);
  messages_.free(messages_.index_of(message));
}

bool Outgoing::begin_one_sided(Peer& peer, OutgoingMessage& message, bool strong) {
  using Verdict = ChannelOrder::Verdict;
  const bool has_number = peer.sends.table.in_window(peer.sends.next_number) &&
                          peer.sends.table.prepare(peer.sends.next_number);
  const Verdict verdict = has_number ? order_.post(one_sided_of(peer).channels, message.channel,
                                                   message.one_sided, strong)
                                     : Verdict::no_place;
  if (verdict == Verdict::no_place) {
    unmake(peer, message);
    forget_idle(peer);
    return false;
  }
  if (const std::uint32_t then = one_sided_.at(message.one_sided).then; then != kNoIndex) {
    // Later strong operations wait for both.
    const Verdict signal = order_.post(one_sided_of(peer).channels, message.channel,
                                       messages_.at(then).one_sided, false);
    HAWSER_ASSERT(signal == Verdict::go);
  }
  if (verdict == Verdict::go) {
    take_turn(message.one_sided, strong && order_.has_failed(message.one_sided));
  }
  return true;
}

// Nothing is before the operation any more.
void Outgoing::take_turn(std::uint32_t index, bool failed) {
  OneSidedSend& operation = one_sided_.at(index);
  OutgoingMessage& message = messages_.at(operation.message);
  Peer& peer = peers_.at(message.peer);
  if (message.kind == SendKind::flush) {
    return end_held(message, order_.tell_failure(index) ? Status::predecessor_failed : Status::ok);
  }
  if (failed) return end_held(message, Status::predecessor_failed);
  if (!peer.sends.table.in_window(peer.sends.next_number) || !enter(peer, message)) {
    unnumbered_.push_back(one_sided_, index);
    return;
  }
  if (turn_.tracing()) reporter_.trace_send(TraceKind::message_begun, message, 0, 0);
  message.held = false;
  start(peer, message);
}

// The write before a signal has ended, and no NIC reads its bytes any more.
void Outgoing::follow(std::uint32_t index, Status status, bool has_left) {
  OutgoingMessage& message = messages_.at(index);
  OneSidedSend& signal = one_sided_.at(message.one_sided);
  signal.follows_placed = status == Status::ok;
  signal.follows_sent = has_left;
  if (status != Status::ok) return end_held(message, status);
  if (order_.has_place(message.one_sided)) return take_turn(message.one_sided, false);
  // The session ended while a NIC held the bytes.
  const Peer& peer = peers_.at(message.peer);
  end_held(message, peer.session.state == SessionState::failed ? peer.session.failure
                                                               : Status::peer_restarted);
}

void Outgoing::number_those_that_wait() {
  auto waiting = std::exchange(unnumbered_, {});
  while (!waiting.empty()) take_turn(waiting.pop_front(one_sided_), false);
}

// The session has ended: so do the operations that wait for their turn, or for a number.
void Outgoing::end_waiting(Peer& peer, Status status) {
  if (peer.sends.one_sided == kNoIndex) return;
  // First of all, so that no end releases another one.
  order_.drop(one_sided_of(peer).channels, [&](std::uint32_t index) {
    end_held(messages_.at(one_sided_.at(index).message), status);
  });
  unnumbered_.for_each(one_sided_, [&](std::uint32_t index) {
    OutgoingMessage& message = messages_.at(one_sided_.at(index).message);
    if (message.peer != peer.index) return;
    unnumbered_.remove(one_sided_, index);
    end_held(message, status);
  });
  forget_idle(peer);
}

// An operation that was never sent ends.
void Outgoing::end_held(OutgoingMessage& message, Status status) {
  HAWSER_ASSERT(message.held && message.unreaped == 0);
  Peer& peer = peers_.at(message.peer);
  if (awaits_reply(message)) leave_fetches(peer, one_sided_.at(message.one_sided));
  message.finished = true;
  message.result = status;
  --peer.open_sends;
  turn_.progress();
  end_hold(message);
}

void Outgoing::leave_order(Peer& peer, OutgoingMessage& message) {
  if (message.kind == SendKind::reply) return;
  const bool ok = message.kind == SendKind::flush ||
                  (message.result == Status::ok &&
                   one_sided_.at(message.one_sided).reply_failure == Status::ok);
  if (peer.sends.one_sided == kNoIndex) return;  // its session has ended
  order_.end(one_sided_of(peer).channels, message.one_sided, ok,
             [&](std::uint32_t next, bool failed) { take_turn(next, failed); });
  forget_idle(peer);
}

PeerOneSided& Outgoing::one_sided_of(Peer& peer) {
  if (peer.sends.one_sided == kNoIndex) {
    SlabId id;
    (void)peers_one_sided_.allocate(id);  // there are as many as peers
    peer.sends.one_sided = id.index;
  }
  return peers_one_sided_.at(peer.sends.one_sided);
}

void Outgoing::forget_idle(Peer& peer) {
  if (peer.sends.one_sided == kNoIndex) return;
  const PeerOneSided& of_peer = peers_one_sided_.at(peer.sends.one_sided);
  if (!of_peer.fetches.empty() || !of_peer.channels.empty()) return;
  peers_one_sided_.free(std::exchange(peer.sends.one_sided, kNoIndex));
}

// The name by which a reply will name this operation.
void Outgoing::await_reply(Peer& peer, OneSidedSend& operation) {
  const SlabId id = messages_.id_at(operation.message);
  operation.target.note = std::uint64_t{id.generation} << 32 | id.index;
  operation.awaits_reply = true;
  one_sided_of(peer).fetches.push_back(one_sided_, one_sided_.index_of(operation));
}

OneSidedSend* Outgoing::fetch_named(const Peer& peer, std::uint64_t note) {
  const SlabId id{static_cast<std::uint32_t>(note), static_cast<std::uint32_t>(note >> 32)};
  const OutgoingMessage* const message = messages_.get(id);
  if (message == nullptr || message->peer != peer.index || message->one_sided == kNoIndex ||
      message->held)
    return nullptr;  // or it was never sent, and the note is a guess
  OneSidedSend& operation = one_sided_.at(message->one_sided);
  return operation.awaits_reply ? &operation : nullptr;
}

void Outgoing::leave_fetches(Peer& peer, OneSidedSend& operation) {
  HAWSER_ASSERT(operation.awaits_reply);
  operation.awaits_reply = false;
  one_sided_of(peer).fetches.remove(one_sided_, one_sided_.index_of(operation));
  forget_idle(peer);
}

// The reply is here, or will never come.
void Outgoing::end_fetch(OneSidedSend& operation, Status status) {
  OutgoingMessage& message = messages_.at(operation.message);
  Peer& peer = peers_.at(message.peer);
  leave_fetches(peer, operation);
  message.moved = coarse(turn_.now());
  if (status != Status::ok) operation.reply_failure = status;
  if (!message.finished) {
    if (ends_session(status)) return;  // its session's end finishes it
    // A reply says that the target has executed the fetch. Its status need not be awaited.
    finish_send(message, Status::ok);
    advance_floor(peer);
    return;
  }
  --peer.open_sends;
  end_hold(message);
}

bool Outgoing::may_reply(Peer& peer) {
  // One peer gets half of what the others have left.
  return replies_of_[peer.index] < most_replies_ - replies_ &&
         peer.sends.table.in_window(peer.sends.next_number) &&
         peer.sends.table.prepare(peer.sends.next_number);
}

OneSidedSend& Outgoing::make_reply(Peer& peer, std::uint64_t note, std::uint64_t bytes) {
  OutgoingMessage* message = nullptr;
  OneSidedSend* const reply = make_one_sided(peer, SendKind::reply, message);
  HAWSER_ASSERT(reply != nullptr);  // there are as many as replies, beside the sends
  const bool entered = enter(peer, *message);
  HAWSER_ASSERT(entered);  // its place was prepared
  message->held = false;
  ++replies_;
  ++replies_of_[peer.index];
  message->bytes = bytes;
  reply->target.flags = wire::kTargetReply;
  reply->target.note = note;
  reply->target.set_length(bytes);
  if (turn_.tracing()) reporter_.trace_send(TraceKind::message_begun, *message, 0, 0);
  return *reply;
}

void Outgoing::start_reply(Peer& peer, OneSidedSend& reply, const std::byte* from, SlabId region) {
  OutgoingMessage& message = messages_.at(reply.message);
  message.data = from;
  reply.region = region;
  if (region != kNoSlabId) regions_.begin_reading(region);
  start(peer, message);
}

// Replies from a region that is withdrawn end with that: nothing of it is read any more, once the
// NICs have let go of what they have.
void Outgoing::withdraw_replies(SlabId region) {
  for (std::uint32_t i = 0; i < one_sided_.touched() && replies_ > 0; ++i) {
    OneSidedSend* const reply = one_sided_.find(i);
    if (reply == nullptr || reply->region != region) continue;
    OutgoingMessage& message = messages_.at(reply->message);
    if (message.finished) continue;
    Peer& peer = peers_.at(message.peer);
    drop_retransmits(peer.sends, message);
    if (peer.sends.to_send.contains(messages_, reply->message))
      peer.sends.to_send.remove(messages_, reply->message);
    reply->target.flags |= wire::kTargetWithdrawn;
    message.bytes = 0;
    message.fragments = message.may_send = message.next_fragment = 1;
    message.granted = message.stopped = false;
    if (message.unreaped == 0) end_withdrawn_reading(message);
    queue_retransmit(peer, messages_.id_at(reply->message), 0, nullptr);
    consider_asking(message);
  }
}

// The reply's region may be withdrawn. Packets of the reply that leave from then on have no bytes
// of it.
void Outgoing::end_withdrawn_reading(OutgoingMessage& message) {
  OneSidedSend& reply = one_sided_.at(message.one_sided);
  const bool is_withdrawn = (reply.target.flags & wire::kTargetWithdrawn) != 0;
  if (!is_withdrawn || reply.region == kNoSlabId) return;
  complete_withdrawal(regions_.end_reading(std::exchange(reply.region, kNoSlabId)));
}

void Outgoing::write_target(const OutgoingMessage& message, wire::PacketWriter& writer) const {
  const OneSidedSend& operation = one_sided_.at(message.one_sided);
  writer.part(operation.target);
  if (message.kind == SendKind::atomic || message.kind == SendKind::signal)
    writer.part(operation.operands);
  if ((operation.target.flags & wire::kTargetSignals) != 0) writer.part(operation.signal);
}

// A message and what belongs to it are forgotten.
void Outgoing::free_one_sided(OutgoingMessage& message) {
  OneSidedSend& operation = one_sided_.at(message.one_sided);
  HAWSER_ASSERT(!operation.awaits_reply);
  if (message.kind == SendKind::reply) {
    --replies_;
    --replies_of_[message.peer];
    if (operation.region != kNoSlabId) complete_withdrawal(regions_.end_reading(operation.region));
  }
  one_sided_.free(message.one_sided);
  message.one_sided = kNoIndex;
}

void Outgoing::complete_withdrawal(const Withdrawal& withdrawal) {
  if (withdrawal.operation == kNoOperation) return;
  Completion completion;
  completion.operation = withdrawal.operation;
  completion.user_data = withdrawal.user_data;
  completion.kind = OperationKind::withdraw;
  turn_.complete(completion);
}

void Outgoing::apply_one_sided_status(OutgoingMessage& message, wire::MessageStatus status) {
  switch (status) {
    case wire::MessageStatus::delivered: return finish_send(message, Status::ok);
    case wire::MessageStatus::access_denied: return finish_send(message, Status::access_denied);
    case wire::MessageStatus::region_withdrawn:
      return finish_send(message, Status::region_withdrawn);
    case wire::MessageStatus::misaligned: return finish_send(message, Status::misaligned);
    case wire::MessageStatus::unsupported: return finish_send(message, Status::unsupported);
    case wire::MessageStatus::pending: return;
    default: return reporter_.drop(DropReason::bad_field);
  }
}

void Outgoing::complete_one_sided(const OutgoingMessage& message, bool released) {
  const OneSidedSend& operation = one_sided_.at(message.one_sided);
  const bool has_signal = operation.then != kNoIndex;
  if (has_signal && released) return;  // its signal completes
  Completion completion;
  completion.operation = has_signal ? messages_.at(operation.then).operation : message.operation;
  completion.user_data = message.options.user_data;
  completion.kind = operation_kind(message.kind);
  completion.status = message.result == Status::ok ? operation.reply_failure : message.result;
  completion.channel = message.channel;
  completion.peer = peers_.id_of(message.peer);
  completion.bytes =
      message.kind == SendKind::signal ? operation.write_bytes : operation.target.length();
  completion.message_bytes = completion.bytes;
  if (message.kind == SendKind::read && completion.status != Status::ok) completion.bytes = 0;
  completion.immediate = message.kind == SendKind::atomic ? operation.word : 0;
  completion.released = released;
  // It was executed if the target has said so: then only what it fetched is lost.
  const bool has_left =
      operation.follows_sent || std::max(message.next_fragment, message.sent_before) > 0;
  completion.outcome_unknown = (ends_session(message.result) && has_left) ||
                               (message.result != Status::ok && operation.follows_placed);
  completion.executed = message.result == Status::ok;
  if (completion.status == Status::ok) count_completed(completion.kind);
  turn_.complete(completion);
}

void Outgoing::count_completed(OperationKind kind) {
  switch (kind) {
    case OperationKind::write: ++turn_.counters.writes_completed; break;
    case OperationKind::read: ++turn_.counters.reads_completed; break;
    case OperationKind::atomic: ++turn_.counters.atomics_completed; break;
    default: break;
  }
}

void Outgoing::end_fetches(Peer& peer, Status status) {
  while (peer.sends.one_sided != kNoIndex && !one_sided_of(peer).fetches.empty()) {
    end_fetch(one_sided_.at(one_sided_of(peer).fetches.front()), status);
  }
}

}  // namespace hawser::proto
