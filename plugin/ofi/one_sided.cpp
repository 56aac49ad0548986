// SPDX-License-Identifier: Apache-2.0
// One-sided operations of an endpoint, and fences.
//
// An operation waits in a queue a peer until its key is known (key_exchange.hpp) and Hawser has
// room. A refused one asks for its key once more: a program may give the same key to other memory
// after it closed a registration. A refusal says that nothing was touched, so the operation can be
// repeated.
//
// A fenced operation (FI_FENCE) waits until no other of its peer is under way or waits, sends
// included. All that is posted to the peer meanwhile queues up behind it.
//
// Invariant: `shares_.under_way` counts what Hawser has, by the peer's place, and
// `shares_.submitted` counts it for all peers.
#include "plugin/ofi/one_sided.hpp"

#include <rdma/fi_errno.h>

#include <cstring>
#include <utility>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/info.hpp"

namespace hawser::ofi {
namespace {

constexpr const char* kOperations = "operations (tx_attr->size; FI_HAWSER_MAX_OPERATIONS)";

std::uint64_t entry_flags(const OneSidedCall& call) {
  if (call.act == Act::atomic) return FI_ATOMIC | (call.word.fetches ? FI_READ : FI_WRITE);
  return FI_RMA | (call.act == Act::read ? FI_READ : FI_WRITE);
}

bool is_refusal(Status status) {
  return status == Status::access_denied || status == Status::stale_region;
}

// Sets the fields that are the same in all parts of a call, and those of this part.
void fill(Operation& operation, const OneSidedCall& call, const OneSidedPart& part) {
  operation.is_send = true;
  operation.act = call.act;
  operation.word = call.word;
  operation.address = call.to;
  operation.buffer = part.local;
  operation.length = part.bytes;
  operation.tag = part.address;
  operation.ignore = part.key;
  operation.data = part.operand;
  operation.overflow = part.compare;
}

}  // namespace

std::uint64_t Endpoint::one_sided_flags(Act act) const {
  const std::uint64_t others = FI_MATCH_COMPLETE | (act == Act::write ? 0 : FI_INJECT);
  return send_flags_ & ~others;
}

ssize_t Endpoint::start(const OneSidedCall& call) {
  constexpr std::uint64_t kLevels =
      FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
  const bool injects = (call.flags & FI_INJECT) != 0;
  const std::uint64_t others = (call.act == Act::write ? FI_REMOTE_CQ_DATA : 0) |
                               (call.act == Act::read || call.word.fetches ? 0 : FI_INJECT);
  if ((call.flags & ~(kLevels | FI_MORE | FI_FENCE | others)) != 0) return -FI_EINVAL;
  std::uint64_t bytes = 0;
  for (const OneSidedPart& part : call.parts) {
    if (part.bytes > kMaxMessageBytes) return -FI_EMSGSIZE;
    bytes += part.bytes;
  }
  if (bytes > kMaxMessageBytes || (injects && bytes > kInjectBytes)) return -FI_EMSGSIZE;
  const Lock lock(mutex_);
  if (!endpoint_) return -FI_EOPBADSTATE;
  Route route;
  if (const ssize_t answer = route_locked(call.to, route); answer != 0) return answer;
  Operation* const operation = new_one_sided_locked(call, route);
  if (operation == nullptr) return no_room_locked(injects ? "injected messages" : kOperations);
  if (route.is_asked()) {
    names_.asker->push(call.to, *operation, Clock::now());
    return 0;
  }
  const PeerId name = name_of_locked(*operation);
  if (operation->is_fenced || behind_fence_.waits(name)) {
    behind_fence_.push(name, *operation);
    release_fences_locked();
    return 0;
  }
  const Status status = begin_one_sided_locked(*operation, (call.flags & FI_MORE) == 0);
  if (status == Status::ok || status == Status::again) return 0;
  tell_locked(status, name_of_locked(*operation));
  // Only the end of the session is told by the call. A refusal has an entry, whether or not the key
  // was known before.
  if (call.is_silent || is_end_of_session(status) || status == Status::endpoint_closed) {
    operation->pool->give(*operation);
    return answer_of(status);
  }
  end_part_locked(*operation, status);
  return 0;
}

// Makes the record of a call, and those of its parts if it has several. Null: there is no room.
Operation* Endpoint::new_one_sided_locked(const OneSidedCall& call, const Route& route) {
  const bool injects = (call.flags & FI_INJECT) != 0;
  const std::size_t parts = call.parts.size() > 1 ? call.parts.size() : 0;
  if (parts > 0 && !pools_.extras.reserve(parts)) return nullptr;
  Operation* const operation = (injects ? pools_.injects : pools_.sends).take(*this);
  if (operation == nullptr) return nullptr;
  fill(*operation, call, call.parts.front());
  operation->context = call.op_context;
  operation->peer = route.peer;
  operation->is_by_mirror = mirror_.is(route.from);
  operation->flags = entry_flags(call);
  operation->is_silent = call.is_silent;
  operation->writes_entry = !call.is_silent && sending_.writes(call.flags);
  operation->is_fenced = (call.flags & FI_FENCE) != 0;
  operation->notifies = (call.flags & FI_REMOTE_CQ_DATA) != 0;
  if (operation->notifies) {
    operation->data = kHasData | (call.remote_data & kDataMask);
    if (!call.is_silent) operation->data |= kSenderWaits;
  }
  if (injects && call.act == Act::write) copy_parts_locked(*operation, call);
  // The parts are linked from the last to the first, so that the list begins with the first.
  const std::uint64_t immediate = operation->data;
  std::uint64_t before = call.act == Act::write ? operation->filled : 0;
  if (parts > 0) operation->length = 0;
  for (std::size_t i = parts; i-- > 0;) {
    Operation* const part = pools_.extras.take(*this);
    fill(*part, call, call.parts[i]);
    part->parent = operation;
    part->is_silent = true;
    operation->length += part->length;
    part->next = std::exchange(operation->parts, part);
    if (injects && call.act == Act::write) {
      before -= call.parts[i].bytes;
      part->buffer = operation->buffer + before;
    }
    // The target hears of the last part, which begins once the others have ended.
    if (!operation->notifies || i + 1 != parts) continue;
    part->notifies = true;
    part->data = immediate;
  }
  return operation;
}

// Copies the bytes of all parts to the place that belongs to `operation`.
void Endpoint::copy_parts_locked(Operation& operation, const OneSidedCall& call) {
  std::byte* const place = pools_.copies.get() + pools_.injects.index_of(operation) * kInjectBytes;
  for (const OneSidedPart& part : call.parts) {
    if (part.bytes > 0) std::memcpy(place + operation.filled, part.local, part.bytes);
    operation.filled += part.bytes;
  }
  operation.buffer = place;
}

// Hands an operation, or its parts, to Hawser, or to the queue of its peer. Parts that fail end by
// themselves, and the answer is `ok`.
Status Endpoint::begin_one_sided_locked(Operation& operation, bool flush) {
  if (operation.parts == nullptr) return begin_part_locked(operation, flush);
  operation.children = 1;  // while the parts begin, none of them ends the operation
  Operation* part = std::exchange(operation.parts, nullptr);
  while (part != nullptr) {
    Operation* const next = std::exchange(part->next, nullptr);
    part->peer = operation.peer;
    part->is_by_mirror = operation.is_by_mirror;
    ++operation.children;
    if (part->notifies) {
      operation.parts = part;
    } else {
      const Status status = begin_part_locked(*part, flush && next == nullptr);
      operation.peer = part->peer;  // perhaps connected anew
      if (status != Status::ok && status != Status::again) end_part_locked(*part, status);
    }
    part = next;
  }
  --operation.children;
  settle_parent_locked(operation);
  return Status::ok;
}

Status Endpoint::begin_part_locked(Operation& operation, bool flush) {
  const auto submit = [&] {
    return waiting_one_sided_.waits(name_of_locked(operation)) ? Status::again
                                                               : submit_one_sided_locked(operation);
  };
  Status status = submit();
  if (status == Status::unknown_peer && peers_->renew(operation.address, operation.peer)) {
    status = submit();
  }
  if (status == Status::again) {
    waiting_one_sided_.push(name_of_locked(operation), operation);
  } else if (status == Status::ok && flush && domain_.config().flush) {
    (operation.is_by_mirror ? mirror_.endpoint : endpoint_)->flush();
  }
  return status;
}

// Repeats a refused operation with a new key, once. False: the refusal stands.
bool Endpoint::ask_again_locked(Operation& operation) {
  if (operation.is_by_mirror || std::exchange(operation.is_asked_again, true)) return false;
  keys_->forget(operation.peer, operation.ignore, operation.secret);
  return true;
}

Status Endpoint::submit_one_sided_locked(Operation& operation) {
  if (shares_.submitted >= shares_.most_submitted) return Status::again;
  KeyAnswer region;
  const Status found = operation.is_by_mirror
                           ? keys_->find_own(operation.ignore, region)
                           : keys_->find(operation.peer, operation.ignore, region);
  if (found != Status::ok) return found;
  if (operation.is_asked_again && region.key.secret == operation.secret) {
    return Status::access_denied;
  }
  operation.secret = region.key.secret;
  const std::uint64_t offset = operation.tag - region.base;
  if (operation.tag < region.base || offset > region.key.bytes ||
      operation.length > region.key.bytes - offset) {
    return ask_again_locked(operation) ? Status::again : Status::access_denied;
  }
  const Status status = post_one_sided_locked(operation, region.key, offset);
  if (is_refusal(status) && ask_again_locked(operation)) return Status::again;
  if (status == Status::ok) {
    ++shares_.submitted;
    ++shares_.under_way[peer_place(name_of_locked(operation))];
  }
  return status;
}

Status Endpoint::post_one_sided_locked(Operation& operation, const RegionKey& key,
                                       std::uint64_t offset) {
  hawser::Endpoint& from = operation.is_by_mirror ? *mirror_.endpoint : *endpoint_;
  const auto user_data = reinterpret_cast<std::uintptr_t>(&operation);
  switch (operation.act) {
    case Act::write:
      return from.write({.peer = operation.peer,
                         .channel = kOneSidedChannel,
                         .key = key,
                         .offset = offset,
                         .data = operation.buffer,
                         .bytes = operation.length,
                         .notifies = operation.notifies,
                         .immediate = operation.notifies ? operation.data : 0,
                         .user_data = user_data,
                         .owner = ChannelOwner::adapter},
                        operation.id);
    case Act::read:
      return from.read({.peer = operation.peer,
                        .channel = kOneSidedChannel,
                        .key = key,
                        .offset = offset,
                        .data = operation.buffer,
                        .bytes = operation.length,
                        .user_data = user_data,
                        .owner = ChannelOwner::adapter},
                       operation.id);
    default:
      return from.atomic({.peer = operation.peer,
                          .channel = kOneSidedChannel,
                          .key = key,
                          .offset = offset,
                          .word = {.operation = operation.word.operation,
                                   .width = operation.word.width,
                                   .operand = operation.data,
                                   .compare = operation.overflow},
                          .fetches = operation.word.fetches,
                          .user_data = user_data,
                          .owner = ChannelOwner::adapter},
                         operation.id);
  }
}

void Endpoint::finish_one_sided_locked(Operation& operation, const Completion& completion) {
  const PeerId name = name_of_locked(operation);
  operation.id = kNoOperation;
  --shares_.submitted;
  --shares_.under_way[peer_place(name)];
  if (is_refusal(completion.status) && ask_again_locked(operation)) {
    waiting_one_sided_.push(name, operation);
    return;
  }
  if (completion.status == Status::ok) {
    if (!operation.is_by_mirror) peers_->met(operation.peer);
    if (operation.word.fetches) {
      std::memcpy(operation.buffer, &completion.immediate, operation.word.width);
    }
  }
  tell_locked(completion.status, name);
  if (is_end_of_session(completion.status)) fail_waiting_locked(name, completion.status);
  end_part_locked(operation, completion.status);
}

// Ends an operation of Hawser's, and the call that it belongs to if it was the last.
void Endpoint::end_part_locked(Operation& operation, Status status) {
  Operation* const parent = operation.parent;
  Operation& told = parent != nullptr ? *parent : operation;
  if (status != Status::ok && told.error == 0) {
    told.status = status;
    told.error = error_of(status);
  }
  if (parent == nullptr) return end_one_sided_locked(operation);
  pools_.extras.give(operation);
  --parent->children;
  settle_parent_locked(*parent);
}

// The part that tells the target begins when only it is left. If another has failed, the target
// hears nothing.
void Endpoint::settle_parent_locked(Operation& parent) {
  if (parent.children == 1 && parent.parts != nullptr) {
    Operation* const last = std::exchange(parent.parts, nullptr);
    if (parent.error == 0) {
      last->peer = parent.peer;
      waiting_one_sided_.push(name_of_locked(*last), *last);
      return;
    }
    pools_.extras.give(*last);
    --parent.children;
  }
  if (parent.children == 0) end_one_sided_locked(parent);
}

void Endpoint::end_one_sided_locked(Operation& operation) {
  operation.buffer = nullptr;
  operation.tag = operation.data = operation.overflow = 0;
  if (operation.error != 0) operation.length = 0;
  end_locked(operation);
}

// Ends an operation that Hawser does not have.
void Endpoint::fail_one_sided_locked(Operation& operation, int error, Status status) {
  while (operation.parts != nullptr) {
    Operation* const part = std::exchange(operation.parts, operation.parts->next);
    pools_.extras.give(*part);
  }
  if (operation.parent == nullptr) operation.error = error;
  if (operation.parent == nullptr) operation.status = status;
  end_part_locked(operation, status);
}

void Endpoint::resume_one_sided_locked() {
  const bool any = waiting_one_sided_.retry(
      [this](Operation& operation) { return submit_one_sided_locked(operation); },
      [this](Operation& operation, Status status) {
        tell_locked(status, name_of_locked(operation));
        end_part_locked(operation, status);
      });
  keys_->forget_refusals();
  if (!any || !domain_.config().flush) return;
  endpoint_->flush();
  if (mirror_.endpoint) mirror_.endpoint->flush();
}

// Queues an operation whose peer was not known when it was posted, or that a fence held up.
void Endpoint::queue_locked(Operation& operation) {
  const PeerId name = name_of_locked(operation);
  if (operation.act == Act::message) return waiting_sends_.push(name, operation);
  const Status status = begin_one_sided_locked(operation, true);
  if (status == Status::ok || status == Status::again) return;
  tell_locked(status, name);
  end_part_locked(operation, status);
}

// True if nothing to the peer is under way or waits, apart from what waits behind a fence.
bool Endpoint::is_idle_locked(PeerId name) const {
  return shares_.under_way[peer_place(name)] == 0 && !waiting_sends_.waits(name) &&
         !waiting_one_sided_.waits(name);
}

void Endpoint::release_fences_locked() {
  behind_fence_.release(
      [this](PeerId name, const Operation& operation) {
        return !operation.is_fenced || is_idle_locked(name);
      },
      [this](Operation& operation) { queue_locked(operation); });
  if (!waiting_sends_.empty()) resume_sends_locked();
}

// A write that told so was placed in a region of ours. One whose session ended, with a part of its
// bytes placed, has an error entry.
void Endpoint::notice_locked(const Completion& completion) {
  if (completion.status != Status::ok) tell_locked(completion.status, completion.peer);
  if ((completion.immediate & kHasData) == 0) return;
  Operation* const entry = pools_.notices.take(*this);
  if (entry == nullptr) return;  // turn_locked made sure that there is one
  entry->flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  entry->length = completion.bytes;
  entry->data = completion.immediate & kDataMask;
  entry->status = completion.status;
  entry->error = error_of(completion.status);
  entry->peer = completion.peer;
  if ((caps_ & FI_SOURCE) != 0) entry->source = peers_->source_of(completion.peer);
  write_received_locked(*entry);
}

bool Endpoint::withdraw(std::uint64_t key) {
  const Lock lock(mutex_);
  if (!keys_ || owner_ != ::getpid()) return true;
  const bool is_gone = keys_->withdraw(key);
  if (!is_gone) progress_locked();
  return is_gone;
}

}  // namespace hawser::ofi
