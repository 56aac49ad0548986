// SPDX-License-Identifier: Apache-2.0
// What the engine thread does with an endpoint: calls, operations, turns, completions.
// threaded_endpoint.cpp has what other threads do.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/threaded_endpoint.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::Time;
using proto::TurnResult;

namespace {

// ---- the completion of an operation that never reached the protocol

Completion described(const proto::SendRequest& asked) {
  return {.user_data = asked.options.user_data,
          .kind = OperationKind::send,
          .channel = asked.channel,
          .peer = asked.peer,
          .tag = asked.tag,
          .message_bytes = asked.bytes};
}
Completion described(const proto::ReceiveRequest& asked) {
  return {.user_data = asked.options.user_data,
          .kind = OperationKind::receive,
          .channel = asked.channel,
          .peer = asked.peer,
          .tag = asked.tag};
}
Completion described(const OneSidedMark& asked) {
  return {.user_data = asked.user_data,
          .kind = asked.kind,
          .channel = asked.channel,
          .peer = asked.peer};
}
Completion described(const OperationSlot& slot) {
  Completion completion =
      std::visit([](const auto& asked) { return described(asked); }, slot.request);
  completion.operation = slot.operation();
  return completion;
}

}  // namespace

TurnResult ThreadedEndpoint::serve(Time now) {
  const bool commanded = execute_commands(now);
  TurnResult result;
  if (!body_->protocol().is_through()) result = body_->progress(now);
  const auto retry = [&](std::uint32_t index) { return try_send(index, now); };
  bool retried = waiting_.retry(retry);
  retried = waiting_one_sided_.retry(retry) || retried;
  const bool delivered = deliver();
  if (delivered) consumer_bell_.ring();
  if (body_->protocol().closed() && !closed_told_) {
    closed_told_ = true;
    // No turn reads the NICs any more. Late packets would keep their descriptors readable.
    thread_.ignore(body_->descriptors());
    const std::lock_guard lock(calls_mutex_);
    closed_ = true;
    calls_changed_->notify_all();
  }
  result.progressed |= commanded || retried || delivered;
  return result;
}

bool ThreadedEndpoint::has_commands() const {
  if (!commands_.empty()) return true;
  // Only a turn applies faults.
  return body_->has_posted_faults() && !body_->protocol().is_through();
}

bool ThreadedEndpoint::execute_commands(Time now) {
  std::array<std::uint64_t, kBatch> commands;
  std::uint64_t left = body_->tunables().command_budget;
  bool any = false;
  while (left > 0) {
    const std::size_t count =
        commands_.pop(std::span(commands).first(std::min<std::size_t>(left, commands.size())));
    if (count == 0) break;
    any = true;
    left -= count;
    for (const std::uint64_t command : std::span(commands).first(count)) {
      if ((command & kOperationMark) != 0) {
        execute(static_cast<std::uint32_t>(command >> 1), now);
      } else {
        auto* const call = reinterpret_cast<Call*>(command);
        call->run(call->context, now);
        const std::lock_guard lock(calls_mutex_);
        call->done = true;
        calls_changed_->notify_all();
      }
    }
  }
  return any;
}

void ThreadedEndpoint::execute(std::uint32_t index, Time now) {
  OperationSlot& slot = operations_.at(index);
  if (const auto* receive = std::get_if<proto::ReceiveRequest>(&slot.request)) {
    const Status status = body_->protocol().receive(now, *receive);
    if (status != Status::ok) refuse(slot, status);
    return;
  }
  if (!must_wait(slot) && try_send(index, now)) return;
  (slot.is_send() ? waiting_ : waiting_one_sided_).push(slot.target(), index);
}

// Whether others to the peer wait that come first. A flush passes those of other channels: they may
// wait for a channel that it makes free.
bool ThreadedEndpoint::must_wait(const OperationSlot& slot) const {
  const PeerId peer = slot.target();
  if (slot.is_send()) return waiting_.waits(peer);
  if (slot.one_sided()->kind != OperationKind::flush) return waiting_one_sided_.waits(peer);
  return waiting_one_sided_.any(peer, [&](std::uint32_t other) {
    return operations_.at(other).one_sided()->channel == slot.one_sided()->channel;
  });
}

// A send that waits here has no message number yet, so the receiver need not hear of the
// cancellation.
Status ThreadedEndpoint::cancel(OperationId operation, Time now) {
  const Status status = body_->protocol().cancel(now, operation);
  const std::uint32_t index = index_of(operation);
  if (index >= operations_.capacity()) return status;
  WaitingSends& waiting = waiting_.holds(index) ? waiting_ : waiting_one_sided_;
  OperationSlot& slot = operations_.at(index);
  if (!waiting.holds(index) || slot.operation() != operation) return status;
  waiting.remove(index);
  refuse(slot, Status::cancelled);
  return Status::ok;
}

// Returns false if the operation has to wait.
bool ThreadedEndpoint::try_send(std::uint32_t index, Time now) {
  OperationSlot& slot = operations_.at(index);
  const Status status = submit(index, slot, now);
  if (status == Status::again) return false;
  if (status != Status::ok) refuse(slot, status);
  return true;
}

Status ThreadedEndpoint::submit(std::uint32_t index, const OperationSlot& slot, Time now) {
  if (const auto* send = std::get_if<proto::SendRequest>(&slot.request)) {
    // The memory of injected sends is the endpoint's own, which the cache need not learn.
    return injected_.holds(index) ? body_->protocol().send(now, *send) : body_->send(now, *send);
  }
  const OperationId operation = slot.operation();
  const OneSidedRequest& request = operations_.request(index);
  if (const auto* write = std::get_if<WriteRequest>(&request))
    return body_->write(now, operation, *write);
  if (const auto* read = std::get_if<ReadRequest>(&request))
    return body_->protocol().read(now, operation, *read);
  if (const auto* atomic = std::get_if<AtomicRequest>(&request))
    return body_->protocol().atomic(now, operation, *atomic);
  return body_->protocol().flush_channel(now, operation, std::get<FlushRequest>(request));
}

// The protocol refuses an operation that the call has already accepted. The status therefore comes
// as its completion.
void ThreadedEndpoint::refuse(OperationSlot& slot, Status status) {
  Completion completion = described(slot);
  completion.status = status;
  refused_ = true;
  deliver(completion);
}

bool ThreadedEndpoint::deliver() {
  bool any = std::exchange(refused_, false);
  // Events come first: a program that sees an operation fail then finds why its peer did. Events
  // that don't fit here stay in the protocol's own bounded queue.
  std::array<Event, kBatch> events;
  const std::size_t room = std::min(events.size(), events_.write_available());
  std::size_t count = body_->protocol().poll_events(std::span(events).first(room));
  any = any || count > 0;
  for (const Event& event : std::span(events).first(count)) {
    if (event.kind == Event::Kind::peer_established) set_known(event.peer, true);
    const bool pushed = events_.push(event);
    HAWSER_ASSERT(pushed);
  }
  std::array<Completion, kBatch> completions;
  while ((count = body_->protocol().poll_completions(completions)) > 0) {
    for (const Completion& completion : std::span(completions).first(count)) deliver(completion);
    any = true;
  }
  return deliver_notices() || any;
}

bool ThreadedEndpoint::deliver_notices() {
  if (!body_->protocol().has_notices()) return false;
  // Said before the room is counted: a consumer that takes notices afterwards rings.
  notices_wait_.store(true, std::memory_order_seq_cst);
  const std::uint64_t under_way =
      notices_delivered_ - notices_taken_.load(std::memory_order_seq_cst);
  std::array<Completion, kBatch> notices;
  const std::size_t room = std::min<std::size_t>(kNotices - under_way, notices.size());
  const std::size_t count = body_->protocol().poll_notices(std::span(notices).first(room));
  // With room left there is nothing to wait for. Without, the consumer's next look rings.
  if (count < room || room == notices.size()) notices_wait_.store(false, std::memory_order_relaxed);
  for (const Completion& notice : std::span(notices).first(count)) {
    set_known(notice.peer, true);
    const bool pushed = completions_.push(notice);
    HAWSER_ASSERT(pushed, "each notice under way has its place");
  }
  notices_delivered_ += count;
  return count > 0;
}

void ThreadedEndpoint::deliver(const Completion& completion) {
  OperationSlot& slot = operations_.at(index_of(completion.operation));
  if (!slot.finished) {
    slot.finished = true;
    const PeerId peer = slot.target();
    if (peer != kAnyPeer) admission_.finish(peer);
  }
  const std::uint32_t index = index_of(completion.operation);
  if (injected_.holds(index) && !InjectedSends::is_told(completion)) {
    if (completion.released) {
      injected_.forget(index);
      const std::uint64_t free = index;
      operations_.give(std::span(&free, 1));
    }
    return;
  }
  // A caller may answer a peer whose message it has received, even before the peer's event has
  // found room.
  if (completion.kind == OperationKind::receive &&
      (completion.status == Status::ok || completion.status == Status::truncated)) {
    set_known(completion.peer, true);
  }
  const bool pushed = completions_.push(completion);
  HAWSER_ASSERT(pushed, "every operation has its places");
}

// Runs on the engine thread. A late completion or event may name a peer whose place belongs to
// another by now.
void ThreadedEndpoint::set_known(PeerId peer, bool known) {
  if (known && !body_->protocol().knows(peer)) return;
  std::atomic<PeerId>& there = known_[peer_place(peer)];
  const bool is_there = there.load(std::memory_order_relaxed) == peer;
  if (is_there != known) there.store(known ? peer : kNobody, std::memory_order_relaxed);
}

}  // namespace hawser::engine
