// SPDX-License-Identifier: Apache-2.0
// Receives, peeks (FI_PEEK), claims, and cancellation.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/info.hpp"
#include "plugin/ofi/vectors.hpp"

namespace hawser::ofi {
namespace {

constexpr const char* kReceives = "receives (rx_attr->size, or memory)";

}  // namespace

ssize_t Endpoint::receive(const ReceiveCall& call) {
  constexpr std::uint64_t kLooks = FI_PEEK | FI_CLAIM | FI_DISCARD;
  const bool is_tagged = call.channel == kTaggedChannel;
  const std::uint64_t others = is_tagged ? kLooks : FI_MULTI_RECV;
  // Levels of completion don't apply to a receive: it ends when its bytes are in place.
  if ((call.flags & ~(FI_COMPLETION | FI_MORE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |
                      FI_INJECT_COMPLETE | others)) != 0) {
    return -FI_EINVAL;
  }
  if ((call.flags & FI_DISCARD) != 0 && (call.flags & (FI_PEEK | FI_CLAIM)) == 0) return -FI_EINVAL;
  // Messages lie one behind the other in such a buffer.
  if ((call.flags & FI_MULTI_RECV) != 0 && !call.vectors.empty()) return -FI_EINVAL;
  const Lock lock(mutex_);
  if (!endpoint_) return -FI_EOPBADSTATE;
  return receive_locked(call);
}

ssize_t Endpoint::receive_locked(const ReceiveCall& call) {
  if ((call.flags & (FI_CLAIM | FI_PEEK)) == FI_CLAIM) return receive_claimed_locked(call);
  Route route;
  if (const ssize_t answer = source_locked(call.from, route); answer != 0) return answer;
  if ((call.flags & FI_PEEK) != 0) return peek_locked(call, route);
  Operation* const operation = new_receive_locked(call, route.peer);
  if (operation == nullptr) return no_room_locked(kReceives);
  if (route.is_asked()) {
    names_.asker->push(call.from, *operation, Clock::now());
    return 0;
  }
  const ssize_t answer = place_receive_locked(*operation);
  if (answer != 0) pools_.receives.give(*operation);
  return answer;
}

ssize_t Endpoint::place_receive_locked(Operation& operation) {
  const bool is_tagged = (operation.flags & FI_TAGGED) != 0;
  OperationQueue& queue = is_tagged ? waiting_receives_.tagged : waiting_receives_.untagged;
  if (operation.is_multi || !queue.empty()) {
    queue.push(operation);
    advance_locked(queue);
    return 0;
  }
  const ssize_t answer = post_locked(operation);
  if (answer != -FI_EAGAIN) return answer;
  queue.push(operation);
  return 0;
}

Operation* Endpoint::new_receive_locked(const ReceiveCall& call, PeerId peer) {
  Operation* const operation = pools_.receives.take(*this);
  if (operation == nullptr) return nullptr;
  operation->context = call.op_context;
  operation->peer = peer;
  operation->address = call.from;
  operation->flags = FI_RECV | (call.channel == kTaggedChannel ? FI_TAGGED : FI_MSG);
  operation->buffer = static_cast<std::byte*>(call.data);
  keep_vectors(*operation, call.vectors);
  operation->length = call.bytes;
  operation->tag = call.tag;
  operation->ignore = call.ignore;
  operation->is_multi = (call.flags & FI_MULTI_RECV) != 0;
  operation->writes_entry = receiving_.writes(call.flags);
  return operation;
}

ssize_t Endpoint::post_locked(Operation& operation) {
  if (shares_.posted >= shares_.most_posted) return -FI_EAGAIN;
  const bool is_tagged = (operation.flags & FI_TAGGED) != 0;
  const PiecesOf<ReceivePiece> pieces(operation);
  const auto receive = [&] {
    return endpoint_->receive({.peer = operation.peer,
                               .channel = is_tagged ? kTaggedChannel : kUntaggedChannel,
                               .tag = operation.tag,
                               .ignore = is_tagged ? operation.ignore : kAnyTag,
                               .data = operation.buffer,
                               .bytes = pieces.bytes(operation),
                               .user_data = reinterpret_cast<std::uintptr_t>(&operation),
                               .owner = ChannelOwner::adapter,
                               .pieces = pieces.list()},
                              operation.id);
  };
  Status status = receive();
  if (status == Status::unknown_peer && peers_->renew(operation.address, operation.peer)) {
    status = receive();
  }
  if (status != Status::ok) tell_locked(status, operation.peer);
  operation.is_posted = status == Status::ok;
  shares_.posted += operation.is_posted ? 1 : 0;
  operation.status = status;
  return answer_of(status);
}

void Endpoint::fill_from_locked(Operation& operation, const Envelope& envelope) {
  operation.peer = envelope.peer;
  operation.source = (caps_ & FI_SOURCE) != 0 ? peers_->source_of(envelope.peer) : FI_ADDR_NOTAVAIL;
  operation.tag = envelope.tag;
  operation.length = envelope.bytes;
  operation.data = envelope.immediate & kDataMask;
  if ((envelope.immediate & kHasData) != 0) operation.flags |= FI_REMOTE_CQ_DATA;
}

// Answers at once. Unread packets in a socket have not arrived yet: if nothing is found, the
// endpoint runs a turn and looks again.
ssize_t Endpoint::peek_locked(const ReceiveCall& call, Route route) {
  const bool claims = (call.flags & (FI_CLAIM | FI_DISCARD)) != 0;
  if (claims && claims_.size() == claims_.capacity()) {
    return no_room_locked("claimed messages (FI_HAWSER_MAX_RECEIVE_MESSAGES)");
  }
  Operation* const operation = pools_.extras.take(*this);
  if (operation == nullptr) return -FI_EAGAIN;
  operation->context = call.op_context;
  operation->flags = FI_RECV | FI_TAGGED;
  operation->tag = call.tag;
  Envelope envelope;
  MessageId message = kNoMessage;
  const auto look = [&] {
    // A peer that has not answered has sent nothing.
    if (route.is_asked()) return Status::again;
    const ProbeRequest wanted{.peer = route.peer,
                              .channel = kTaggedChannel,
                              .tag = call.tag,
                              .ignore = call.ignore,
                              .owner = ChannelOwner::adapter};
    Status status = Status::ok;
    if (!claims || !waiting_receives_.tagged.empty()) {
      status = endpoint_->probe(wanted, envelope);
      if (status == Status::ok && is_awaited_locked(envelope)) status = Status::again;
    }
    if (status != Status::ok || !claims) return status;
    return endpoint_->claim(wanted, envelope, message);
  };
  Status status = look();
  if (status == Status::unknown_peer && peers_->renew(call.from, route.peer)) status = look();
  if (status == Status::again) {
    progress_locked();
    if (route.is_asked() && source_locked(call.from, route) != 0) route = {};
    status = look();
  }
  if (status != Status::ok) {
    fail_locked(*operation, is_end_of_session(status) ? error_of(status) : FI_ENOMSG, status);
    return 0;
  }
  fill_from_locked(*operation, envelope);
  if ((call.flags & FI_DISCARD) != 0) {
    const ssize_t answer = discard_locked(*operation, message);
    if (answer != 0) (void)endpoint_->put_back(message);  // the next peek finds it again
    return answer;
  }
  if (claims) claims_.push_back({call.op_context, message, envelope});
  write_received_locked(*operation);
  return 0;
}

ssize_t Endpoint::discard_locked(Operation& operation, MessageId message) {
  operation.is_discard = true;
  const Status status = endpoint_->receive_claimed(
      message, {.user_data = reinterpret_cast<std::uintptr_t>(&operation)}, operation.id);
  if (status == Status::ok) return 0;
  operation.pool->give(operation);
  return answer_of(status);
}

ssize_t Endpoint::receive_claimed_locked(const ReceiveCall& call) {
  const auto claim = std::ranges::find(claims_, call.op_context, &Claim::op_context);
  if (claim == claims_.end()) return -FI_EINVAL;
  Operation* const operation = new_receive_locked(call, claim->envelope.peer);
  if (operation == nullptr) return -FI_EAGAIN;
  ssize_t answer = 0;
  if ((call.flags & FI_DISCARD) != 0) {
    fill_from_locked(*operation, claim->envelope);
    answer = discard_locked(*operation, claim->message);
  } else {
    answer = answer_of(take_claimed_locked(claim->message, *operation));
    if (answer != 0) pools_.receives.give(*operation);
  }
  // -FI_EAGAIN leaves the claim. Any other failure means that Hawser no longer has the message.
  if (answer != -FI_EAGAIN) claims_.erase(claim);
  return answer;
}

// Receives a claimed message into the memory of the receive.
Status Endpoint::take_claimed_locked(MessageId message, Operation& receive) {
  const PiecesOf<ReceivePiece> pieces(receive);
  return endpoint_->receive_claimed(message,
                                    {.data = receive.buffer,
                                     .bytes = pieces.bytes(receive),
                                     .user_data = reinterpret_cast<std::uintptr_t>(&receive),
                                     .pieces = pieces.list()},
                                    receive.id);
}

// Cancels the oldest operation with this context. Its entry comes in any case.
ssize_t Endpoint::cancel(void* op_context) {
  const Lock lock(mutex_);
  if (!endpoint_) return -FI_EOPBADSTATE;
  if (cancel_waiting_locked(op_context)) return 0;
  for (OperationPool* pool : {&pools_.receives, &pools_.sends, &pools_.injects, &pools_.copied}) {
    const Operation* const found = pool->find_open([&](const Operation& operation) {
      if (operation.is_silent || operation.context != op_context || operation.id == kNoOperation) {
        return false;
      }
      hawser::Endpoint& owner = operation.is_by_mirror ? *mirror_.endpoint : *endpoint_;
      // too_late is no error, because the operation then ends by itself.
      return owner.cancel(operation.id) != Status::unknown_operation;
    });
    if (found != nullptr) return 0;
  }
  return cancel_send_locked(op_context) || cancel_asked_locked(op_context) ? 0 : -FI_ENOENT;
}

}  // namespace hawser::ofi
