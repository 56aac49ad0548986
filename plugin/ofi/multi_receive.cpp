// SPDX-License-Identifier: Apache-2.0
// Buffers that take several messages (FI_MULTI_RECV).
//
// Hawser's receives take one message each. The endpoint therefore claims each message for such a
// buffer when it arrives, and receives it into the next free part of the buffer. Messages must
// match in the order of posting. An untagged receive that might take a message of an older buffer
// therefore waits (waiting_receives.cpp).
#include <rdma/fi_errno.h>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"

namespace hawser::ofi {
namespace {

constexpr std::uint64_t kAlignment = 8;

}  // namespace

// Receives all messages that are here for the buffer. `older` are the receives before it that still
// wait. No receive behind a buffer for any peer gets a message before it.
QueueStep Endpoint::fill_buffer_locked(Operation& buffer, const OperationQueue& older) {
  Filled filled = Filled::message;
  while (filled == Filled::message) filled = fill_once_locked(buffer, older);
  if (filled == Filled::used_up) return QueueStep::remove;
  return buffer.peer == kAnyPeer ? QueueStep::stop : QueueStep::keep;
}

Status Endpoint::claim_for_locked(Operation& buffer, Envelope& envelope, MessageId& message) {
  const auto claim = [&] {
    return endpoint_->claim({.peer = buffer.peer,
                             .channel = kUntaggedChannel,
                             .ignore = kAnyTag,
                             .owner = ChannelOwner::adapter},
                            envelope, message);
  };
  const Status status = claim();
  if (status != Status::unknown_peer || !peers_->renew(buffer.address, buffer.peer)) return status;
  return claim();
}

// Receives one more message into the buffer. `nothing` also means that a message can't be received
// now. The caller removes a buffer that is used up from its queue.
Endpoint::Filled Endpoint::fill_once_locked(Operation& buffer, const OperationQueue& older) {
  Operation* const child = pools_.extras.take(*this);
  if (child == nullptr) return Filled::nothing;
  Envelope envelope;
  MessageId message = kNoMessage;
  const Status status = claim_for_locked(buffer, envelope, message);
  if (status != Status::ok) {
    pools_.extras.give(*child);
    if (status == Status::again) return Filled::nothing;
    // The peer is gone, and all its messages are received.
    fail_buffer_locked(buffer, status);
    return Filled::used_up;
  }
  if (is_matched(older, envelope)) {
    (void)endpoint_->put_back(message);
    pools_.extras.give(*child);
    return Filled::nothing;
  }
  const std::uint64_t room = buffer.length - buffer.filled;
  if (envelope.bytes > room && buffer.filled > 0) {
    (void)endpoint_->put_back(message);
    pools_.extras.give(*child);
    retire_locked(buffer);
    return Filled::used_up;
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
    pools_.extras.give(*child);
    return Filled::nothing;
  }
  ++buffer.children;
  const std::uint64_t taken = (std::min(envelope.bytes, room) + kAlignment - 1) & ~(kAlignment - 1);
  buffer.filled = std::min(buffer.filled + taken, buffer.length);
  if (buffer.length - buffer.filled >= least_multi_bytes_) return Filled::message;
  retire_locked(buffer);
  return Filled::used_up;
}

// Ends a buffer that is full. Its last message returns it to the program.
void Endpoint::retire_locked(Operation& buffer) {
  buffer.is_used_up = true;
  if (buffer.children > 0) return;
  buffer.flags = FI_MULTI_RECV;
  buffer.length = 0;
  buffer.buffer = nullptr;
  write_received_locked(buffer);
}

// Ends a buffer that is cancelled, or that nothing more can come for. Messages in progress end
// first.
void Endpoint::fail_buffer_locked(Operation& buffer, Status status) {
  buffer.flags |= FI_MULTI_RECV;
  buffer.is_used_up = true;
  buffer.error = error_of(status);
  buffer.status = status;
  tell_locked(status, buffer.peer);
  if (buffer.children == 0) fail_locked(buffer, buffer.error, status);
}

// Ends a message of a buffer. FI_MULTI_RECV comes with the last entry of a buffer, as the program
// may then free the buffer and its context. An error of a message is not an error of the buffer.
void Endpoint::end_child_locked(Operation& child) {
  Operation& buffer = *child.parent;
  const bool is_last = --buffer.children == 0 && buffer.is_used_up;
  if (!is_last) return end_locked(child);
  if (buffer.error != 0) {
    end_locked(child);
    return fail_locked(buffer, buffer.error, buffer.status);
  }
  child.flags |= FI_MULTI_RECV;
  child.writes_entry = true;
  buffer.pool->give(buffer);
  end_locked(child);
}

}  // namespace hawser::ofi
