// SPDX-License-Identifier: Apache-2.0
// Receives that Hawser does not have yet.
//
// Hawser holds max_operations receives and sends at a time, but a program may post as many receives
// as there is memory for. The first receive without room waits here, and all later ones wait behind
// it, in the order of posting. They are posted as others end. Tagged and untagged receives never
// match the same message, so each kind has a queue of its own. Untagged ones also wait behind
// multi-receive buffers (multi_receive.cpp).
//
// Messages for waiting receives may fill the store. Messages for the posted receives then find no
// room there. Waiting receives therefore look into the store, too. No posted receive matches a
// stored message, so the oldest waiting receive that matches gets it.
#include <rdma/fi_errno.h>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"

namespace hawser::ofi {
namespace {

// Share of the time that looks into the store may take: at most one part in this many.
constexpr int kPartOfTime = 20;
constexpr auto kLeastBetweenLooks = std::chrono::milliseconds(1);

bool matches(const Operation& receive, const Envelope& envelope) {
  return (receive.peer == kAnyPeer || receive.peer == envelope.peer) &&
         ((receive.tag ^ envelope.tag) & ~receive.ignore) == 0;
}

}  // namespace

bool Endpoint::is_any_receive_waiting() const {
  return !waiting_tagged_.empty() || !waiting_untagged_.empty();
}

bool Endpoint::is_awaited_locked(const Envelope& envelope) const {
  return waiting_tagged_.any_of(
      [&](const Operation& receive) { return matches(receive, envelope); });
}

void Endpoint::advance_waiting_locked() {
  if (!is_any_receive_waiting()) return;
  for (OperationQueue* queue : {&waiting_tagged_, &waiting_untagged_}) advance_locked(*queue);
  const Clock::time_point begin = Clock::now();
  if (begin < look_at_) return;
  for (OperationQueue* queue : {&waiting_tagged_, &waiting_untagged_}) {
    look_into_store_locked(*queue);
  }
  const Clock::time_point end = Clock::now();
  look_at_ = end + std::max<Clock::duration>(kLeastBetweenLooks, (end - begin) * kPartOfTime);
}

void Endpoint::look_into_store_locked(OperationQueue& queue) {
  bool stops = false;
  queue.remove_if([&](Operation& receive) {
    stops = stops || receive.is_multi;
    return !stops && take_from_store_locked(receive, queue, stops);
  });
}

// Makes the receive take a message that matches it, if there is one. `older` are the receives
// before it, which have found nothing. A message that matches one of them arrived since, through an
// engine thread, and belongs to that one. `stops` is set if there is no room for more.
bool Endpoint::take_from_store_locked(Operation& receive, const OperationQueue& older,
                                      bool& stops) {
  const bool is_tagged = (receive.flags & FI_TAGGED) != 0;
  const ProbeRequest wanted{.peer = receive.peer,
                            .channel = is_tagged ? kTaggedChannel : kUntaggedChannel,
                            .tag = receive.tag,
                            .ignore = is_tagged ? receive.ignore : kAnyTag,
                            .owner = ChannelOwner::adapter};
  Envelope envelope;
  MessageId message = kNoMessage;
  if (endpoint_->claim(wanted, envelope, message) != Status::ok) return false;
  const auto is_earlier = [&](const Operation& other) { return matches(other, envelope); };
  if (domain_.threads() == 0 || !older.any_of(is_earlier)) {
    const Status status =
        endpoint_->receive_claimed(message,
                                   {.data = receive.buffer,
                                    .bytes = receive.length,
                                    .user_data = reinterpret_cast<std::uintptr_t>(&receive)},
                                   receive.id);
    if (status == Status::ok) return true;
    stops = true;
  }
  (void)endpoint_->put_back(message);
  return false;
}

void Endpoint::advance_locked(OperationQueue& queue) {
  while (!queue.empty()) {
    Operation& oldest = *queue.front();
    if (oldest.is_multi) {
      if (!fill_multi_locked(oldest)) return;
      continue;
    }
    const ssize_t answer = post_locked(oldest);
    if (answer == -FI_EAGAIN) return;
    queue.pop();
    if (answer != 0) fail_locked(oldest, static_cast<int>(-answer), oldest.status);
  }
}

// Cancels a buffer or a receive that has not been posted to Hawser.
bool Endpoint::cancel_waiting_locked(void* op_context) {
  Operation* found = nullptr;
  for (OperationQueue* queue : {&waiting_tagged_, &waiting_untagged_}) {
    queue->remove_if([&](Operation& operation) {
      if (found != nullptr || operation.context != op_context) return false;
      found = &operation;
      return true;
    });
  }
  if (found == nullptr) return false;
  if (found->is_multi) {
    found->flags |= FI_MULTI_RECV;
    found->is_used_up = true;
    found->error = FI_ECANCELED;
    found->status = Status::cancelled;
  }
  // A buffer with messages in progress is cancelled when the last of them has ended.
  if (found->children == 0) fail_locked(*found, FI_ECANCELED, Status::cancelled);
  advance_waiting_locked();
  return true;
}

}  // namespace hawser::ofi
