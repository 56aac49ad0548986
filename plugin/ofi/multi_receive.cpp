// SPDX-License-Identifier: Apache-2.0
// Buffers that take several messages (FI_MULTI_RECV).
//
// Hawser's receives take one message each. The endpoint therefore claims each message for such a
// buffer when it arrives, and receives it into the next free part of the buffer. Messages must
// match in the order of posting. Untagged receives behind the oldest such buffer therefore wait,
// and are posted when it is used up (waiting_receives.cpp).
#include <rdma/fi_errno.h>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"

namespace hawser::ofi {
namespace {

constexpr std::uint64_t kAlignment = 8;

}  // namespace

// Receives one more message into the buffer. Returns false if none is here, or it can't be received
// now.
bool Endpoint::fill_multi_locked(Operation& buffer) {
  Operation* const child = extras_.take(*this);
  if (child == nullptr) return false;
  Envelope envelope;
  MessageId message = kNoMessage;
  const ProbeRequest any{.peer = buffer.peer,
                         .channel = kUntaggedChannel,
                         .ignore = kAnyTag,
                         .owner = ChannelOwner::adapter};
  if (endpoint_->claim(any, envelope, message) != Status::ok) {
    extras_.give(*child);
    return false;
  }
  const std::uint64_t room = buffer.length - buffer.filled;
  if (envelope.bytes > room && buffer.filled > 0) {
    (void)endpoint_->put_back(message);
    extras_.give(*child);
    retire_locked(buffer);
    return true;
  }
  child->context = buffer.context;
  child->flags = FI_RECV | FI_MSG;
  child->buffer = buffer.buffer + buffer.filled;
  child->parent = &buffer;
  child->writes_entry = buffer.writes_entry;
  const ClaimedRequest request{
      .data = child->buffer, .bytes = room, .user_data = reinterpret_cast<std::uintptr_t>(child)};
  if (endpoint_->receive_claimed(message, request, child->id) != Status::ok) {
    (void)endpoint_->put_back(message);
    extras_.give(*child);
    return false;
  }
  ++buffer.children;
  const std::uint64_t taken = (std::min(envelope.bytes, room) + kAlignment - 1) & ~(kAlignment - 1);
  buffer.filled = std::min(buffer.filled + taken, buffer.length);
  if (buffer.length - buffer.filled < least_multi_bytes_) retire_locked(buffer);
  return true;
}

// Ends the oldest buffer. Its last message returns it to the program.
void Endpoint::retire_locked(Operation& buffer) {
  waiting_untagged_.pop();
  buffer.is_used_up = true;
  if (buffer.children > 0) return;
  buffer.flags = FI_MULTI_RECV;
  buffer.length = 0;
  buffer.buffer = nullptr;
  receiving_.queue->push(buffer);
}

// Called before the message's entry is written. An error of a message is not an error of the
// buffer.
void Endpoint::child_ended_locked(Operation& child) {
  Operation& buffer = *child.parent;
  if (--buffer.children > 0 || !buffer.is_used_up) return;
  if (buffer.error != 0) return fail_locked(buffer, buffer.error, buffer.status);
  child.flags |= FI_MULTI_RECV;
  child.writes_entry = true;
  buffer.pool->give(buffer);
}

}  // namespace hawser::ofi
