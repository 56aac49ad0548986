// SPDX-License-Identifier: Apache-2.0
// Sends. An inject copies its bytes to a place that belongs to its record; all other sends lend
// theirs. Sends that Hawser has no room for wait (waiting_sends.hpp). A program therefore gets
// -FI_EAGAIN only if no records are left. That matters because Open MPI then makes progress inside
// its own callbacks, which it doesn't survive.
#include <rdma/fi_errno.h>

#include <cstring>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/info.hpp"
#include "plugin/ofi/vectors.hpp"

namespace hawser::ofi {
namespace {

constexpr std::uint64_t kDelivered = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
// A completion with one of these flags reports on the peer. Others only return the buffer.
constexpr std::uint64_t kArrived = FI_TRANSMIT_COMPLETE | kDelivered;

std::uint64_t immediate_of(const SendCall& call, bool is_waited_for) {
  const std::uint64_t waits = is_waited_for ? kSenderWaits : 0;
  if ((call.flags & FI_REMOTE_CQ_DATA) == 0) return waits;
  return waits | kHasData | (call.remote_data & kDataMask);
}

constexpr const char* kSends = "sends (tx_attr->size; FI_HAWSER_MAX_OPERATIONS)";
constexpr const char* kUnderWay =
    "sends under way: 32768 to all peers, 8192 to one (FI_HAWSER_MAX_MESSAGES_PER_PEER), or 258047 "
    "behind the oldest unfinished one to a peer";

}  // namespace

// Copies the bytes to the place that belongs to `operation`.
std::byte* Endpoint::copy_locked(const Operation& operation, const SendCall& call) {
  const std::size_t index = operation.pool == &pools_.injects
                                ? pools_.injects.index_of(operation)
                                : pools_.injects.size() + pools_.copied.index_of(operation);
  std::byte* const place = pools_.copies.get() + index * kInjectBytes;
  if (call.vectors.empty() && call.bytes > 0) std::memcpy(place, call.data, call.bytes);
  std::byte* end = place;
  for (const iovec& vector : call.vectors) {
    if (vector.iov_len > 0) std::memcpy(end, vector.iov_base, vector.iov_len);
    end += vector.iov_len;
  }
  return place;
}

bool Endpoint::has_met_locked(const Route& route) const {
  if (route.is_asked()) return false;
  return mirror_.is(route.from) || peers_->has_met(route.peer);
}

ssize_t Endpoint::send(const SendCall& call) {
  const std::uint64_t allowed =
      kSendFlags | FI_REMOTE_CQ_DATA | FI_MORE | ((caps_ & FI_FENCE) != 0 ? FI_FENCE : 0);
  const bool injects = (call.flags & FI_INJECT) != 0;
  if (call.bytes > kMaxMessageBytes || (injects && call.bytes > kInjectBytes)) return -FI_EMSGSIZE;
  if ((call.flags & ~allowed) != 0) return -FI_EINVAL;
  const Lock lock(mutex_);
  if (!endpoint_) return -FI_EOPBADSTATE;
  Route route;
  if (const ssize_t answer = route_locked(call.to, route); answer != 0) return answer;
  const bool writes = !call.is_silent && sending_.writes(call.flags);
  const bool is_held = !route.is_asked() &&
                       ((call.flags & FI_FENCE) != 0 || behind_fence_.waits(name_of_locked(route)));
  // If a program's first message finds no peer, its entry must report that, so it isn't written
  // early. The same holds for one that a fence holds up.
  const bool may_be_early = (call.flags & kArrived) == 0 && !is_held &&
                            ((call.flags & FI_INJECT_COMPLETE) != 0 || has_met_locked(route));
  const bool early = writes && may_be_early && call.bytes <= kInjectBytes &&
                     (injects ? pools_.injects : pools_.copied).has_room();
  Operation* const entry = early ? pools_.sends.take(*this) : nullptr;
  if (early && entry == nullptr) return no_room_locked(kSends);
  const bool copies = injects || early;
  OperationPool& pool = injects ? pools_.injects : early ? pools_.copied : pools_.sends;
  Operation* const operation = pool.take(*this);
  if (operation == nullptr) return no_room_locked(injects ? "injected messages (4096)" : kSends);

  operation->is_send = true;
  operation->context = call.op_context;
  operation->peer = route.peer;
  operation->address = call.to;
  operation->is_by_mirror = mirror_.is(route.from);
  operation->flags = FI_SEND | (call.channel == kTaggedChannel ? FI_TAGGED : FI_MSG);
  operation->tag = call.tag;
  operation->is_silent = call.is_silent;
  operation->writes_entry = writes;
  operation->is_delivered = (call.flags & kDelivered) != 0;
  operation->buffer = copies ? copy_locked(*operation, call)
                             : static_cast<std::byte*>(const_cast<void*>(call.data));
  if (!copies) keep_vectors(*operation, call.vectors);
  operation->length = call.bytes;
  operation->data = immediate_of(call, !call.is_silent && !early);
  operation->is_fenced = (call.flags & FI_FENCE) != 0;
  ssize_t answer = 0;
  if (route.is_asked()) {
    names_.asker->push(call.to, *operation, Clock::now());
  } else if (is_held) {
    behind_fence_.push(name_of_locked(*operation), *operation);
    release_fences_locked();
  } else {
    answer = begin_send_locked(*operation, (call.flags & FI_MORE) == 0);
  }
  if (!early) return answer;
  if (answer == 0) {
    write_early_locked(*operation, *entry);
  } else {
    pools_.sends.give(*entry);
  }
  return answer;
}

// Passes a send to Hawser. Without room there it waits here; for the program this makes no
// difference.
ssize_t Endpoint::begin_send_locked(Operation& operation, bool flush) {
  PeerId name = name_of_locked(operation);
  Status status = waiting_sends_.waits(name) ? Status::again : submit_locked(operation);
  if (status == Status::unknown_peer && peers_->renew(operation.address, operation.peer)) {
    name = operation.peer;
    status = waiting_sends_.waits(name) ? Status::again : submit_locked(operation);
  }
  if (status == Status::again) {
    waiting_sends_.push(name, operation);
    return 0;
  }
  if (status != Status::ok) {
    operation.pool->give(operation);
    tell_locked(status, name);
    return status == Status::invalid_argument ? -FI_EMSGSIZE : answer_of(status);
  }
  // Flush now, so that messages are on their way while the program computes.
  if (flush && domain_.config().flush) {
    (operation.is_by_mirror ? mirror_.endpoint : endpoint_)->flush();
  }
  return 0;
}

Status Endpoint::submit_locked(Operation& operation) {
  if (shares_.submitted >= shares_.most_submitted) return Status::again;
  const bool is_tagged = (operation.flags & FI_TAGGED) != 0;
  hawser::Endpoint& from = operation.is_by_mirror ? *mirror_.endpoint : *endpoint_;
  const PiecesOf<SendPiece> pieces(operation);
  const Status status =
      from.send({.peer = operation.peer,
                 .channel = is_tagged ? kTaggedChannel : kUntaggedChannel,
                 .tag = operation.tag,
                 .data = operation.buffer,
                 .bytes = pieces.bytes(operation),
                 .level = operation.is_delivered ? Level::delivered : Level::accepted,
                 .immediate = operation.data,
                 .user_data = reinterpret_cast<std::uintptr_t>(&operation),
                 .owner = ChannelOwner::adapter,
                 .pieces = pieces.list()},
                operation.id);
  if (status == Status::again || status == Status::unknown_peer) return status;
  if (status == Status::ok) {
    ++shares_.submitted;
    ++shares_.under_way[peer_place(name_of_locked(operation))];
  }
  operation.buffer = nullptr;
  operation.length = operation.data = 0;
  return status;
}

// The peer's name at our endpoint, also for a send by the mirror.
PeerId Endpoint::name_of_locked(const Operation& operation) const {
  return operation.is_by_mirror ? mirror_.from_us : operation.peer;
}

PeerId Endpoint::name_of_locked(const Route& route) const {
  return mirror_.is(route.from) ? mirror_.from_us : route.peer;
}

void Endpoint::resume_sends_locked() {
  const bool any =
      waiting_sends_.retry([this](Operation& operation) { return submit_locked(operation); },
                           [this](Operation& operation, Status status) {
                             tell_locked(status, name_of_locked(operation));
                             fail_locked(operation, error_of(status), status);
                           });
  if (!any) {
    (void)no_room_locked(kUnderWay);
    return;
  }
  if (!domain_.config().flush) return;
  endpoint_->flush();
  if (mirror_.endpoint) mirror_.endpoint->flush();
}

// Cancels a send or one-sided operation that waits here.
bool Endpoint::cancel_send_locked(void* op_context) {
  Operation* operation = nullptr;
  for (WaitingSends* waiting : {&waiting_sends_, &waiting_one_sided_, &behind_fence_}) {
    if (operation == nullptr) operation = waiting->take(op_context);
  }
  if (operation == nullptr) return false;
  fail_locked(*operation, FI_ECANCELED, Status::cancelled);
  return true;
}

// Writes the entry of a copied send early. The program has its buffer back, and the fate of the
// copy concerns it only if it fails.
void Endpoint::write_early_locked(Operation& operation, Operation& entry) {
  entry.is_send = true;
  entry.context = operation.context;
  entry.flags = operation.flags;
  entry.tag = operation.tag;
  operation.writes_entry = false;
  operation.is_silent = true;
  operation.context = nullptr;
  sending_.queue->push(entry);
}

}  // namespace hawser::ofi
