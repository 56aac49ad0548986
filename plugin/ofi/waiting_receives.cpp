// Receives that Hawser does not have yet.
//
// Hawser holds max_operations receives and sends at a time. A program may post as many receives as
// there is memory for: from the first that finds no room on they wait here, in the order of
// posting, and are posted as others end. Tagged and untagged receives never match the same message,
// so each kind has a queue of its own. Untagged ones also wait behind multi-receive buffers
// (multi_receive.cpp).
#include <rdma/fi_errno.h>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"

namespace hawser::ofi {

bool Endpoint::is_any_receive_waiting() const {
  return !waiting_tagged_.empty() || !waiting_untagged_.empty();
}

bool Endpoint::is_awaited_locked(const Envelope& envelope) const {
  return waiting_tagged_.any_of([&](const Operation& receive) {
    return (receive.peer == kAnyPeer || receive.peer == envelope.peer) &&
           ((receive.tag ^ envelope.tag) & ~receive.ignore) == 0;
  });
}

void Endpoint::advance_waiting_locked() {
  for (OperationQueue* queue : {&waiting_tagged_, &waiting_untagged_}) advance_locked(*queue);
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

// A buffer, or a receive, that has not been posted to Hawser.
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
  // Else when the last of its messages has come.
  if (found->children == 0) fail_locked(*found, FI_ECANCELED, Status::cancelled);
  advance_waiting_locked();
  return true;
}

}  // namespace hawser::ofi
