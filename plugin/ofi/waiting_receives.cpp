// SPDX-License-Identifier: Apache-2.0
// Receives that Hawser does not have yet.
//
// Hawser holds max_operations receives and sends at a time, but a program may post as many receives
// as there is memory for. The first receive without room waits here, and all later ones wait behind
// it, in the order of posting. They are posted as others end. Tagged and untagged receives never
// match the same message, so each kind has a queue of its own. Untagged ones also wait behind
// multi-receive buffers (multi_receive.cpp) that might take the same message. A buffer for one peer
// holds up neither the receives for other peers nor the messages from there.
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

// True if there may be an untagged message for both.
bool overlap(const Operation& a, const Operation& b) {
  return a.peer == kAnyPeer || b.peer == kAnyPeer || a.peer == b.peer;
}

// False if no receive of the queue can take a message from the store. A multi-receive buffer for
// any peer takes its messages in each turn, and leaves nothing for those behind it.
bool gains_by_look(const OperationQueue& queue) {
  return !queue.empty() && !(queue.front()->is_multi && queue.front()->peer == kAnyPeer);
}

}  // namespace

bool is_matched(const OperationQueue& receives, const Envelope& envelope) {
  return receives.any_of([&](const Operation& receive) { return matches(receive, envelope); });
}

bool Endpoint::is_any_receive_waiting() const {
  return !waiting_receives_.tagged.empty() || !waiting_receives_.untagged.empty();
}

bool Endpoint::is_awaited_locked(const Envelope& envelope) const {
  return is_matched(waiting_receives_.tagged, envelope);
}

void Endpoint::advance_waiting_locked() {
  waiting_receives_.is_look_due = false;
  if (!is_any_receive_waiting()) return;
  for (OperationQueue* queue : {&waiting_receives_.tagged, &waiting_receives_.untagged})
    advance_locked(*queue);
  if (!gains_by_look(waiting_receives_.tagged) && !gains_by_look(waiting_receives_.untagged))
    return;
  const Clock::time_point begin = Clock::now();
  waiting_receives_.is_look_due = begin < waiting_receives_.look_at;
  if (waiting_receives_.is_look_due) return;
  for (OperationQueue* queue : {&waiting_receives_.tagged, &waiting_receives_.untagged}) {
    look_into_store_locked(*queue);
  }
  const Clock::time_point end = Clock::now();
  waiting_receives_.look_at =
      end + std::max<Clock::duration>(kLeastBetweenLooks, (end - begin) * kPartOfTime);
}

void Endpoint::look_into_store_locked(OperationQueue& queue) {
  queue.walk([&](Operation& receive) {
    if (receive.is_multi) return fill_buffer_locked(receive, queue);
    bool stops = (receive.flags & FI_TAGGED) == 0 && receive.peer == kAnyPeer;
    if (take_from_store_locked(receive, queue, stops)) return QueueStep::remove;
    return stops ? QueueStep::stop : QueueStep::keep;
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
  // Inline nothing arrives meanwhile. A buffer, however, may have found nothing for want of room.
  const bool may_be_older = domain_.threads() > 0 || !is_tagged;
  if (!may_be_older || !is_matched(older, envelope)) {
    if (take_claimed_locked(message, receive) == Status::ok) return true;
    stops = true;
  }
  (void)endpoint_->put_back(message);
  return false;
}

void Endpoint::advance_locked(OperationQueue& queue) {
  queue.walk([&](Operation& receive) { return advance_one_locked(receive, queue); });
}

// Posts the receive to Hawser if no message for it could belong to one of the `older` receives,
// which are buffers for one peer each. If one could, it takes a message that doesn't.
QueueStep Endpoint::advance_one_locked(Operation& receive, const OperationQueue& older) {
  if (receive.is_multi) return fill_buffer_locked(receive, older);
  if (older.any_of([&](const Operation& other) { return overlap(receive, other); })) {
    bool stops = false;
    return take_from_store_locked(receive, older, stops) ? QueueStep::remove : QueueStep::stop;
  }
  const ssize_t answer = post_locked(receive);
  if (answer == -FI_EAGAIN) return QueueStep::stop;
  if (answer != 0) fail_locked(receive, static_cast<int>(-answer), receive.status);
  return QueueStep::remove;
}

// Cancels a buffer or a receive that has not been posted to Hawser.
bool Endpoint::cancel_waiting_locked(void* op_context) {
  Operation* found = nullptr;
  for (OperationQueue* queue : {&waiting_receives_.tagged, &waiting_receives_.untagged}) {
    queue->remove_if([&](Operation& operation) {
      if (found != nullptr || operation.context != op_context) return false;
      found = &operation;
      return true;
    });
  }
  if (found == nullptr) return false;
  if (found->is_multi) {
    fail_buffer_locked(*found, Status::cancelled);
  } else {
    fail_locked(*found, FI_ECANCELED, Status::cancelled);
  }
  advance_waiting_locked();
  return true;
}

}  // namespace hawser::ofi
