// SPDX-License-Identifier: Apache-2.0
// The calls for one-sided operations: checks arguments, charges limits, hands over to the owners.
#include <cstddef>

#include "proto/endpoint/owners.hpp"

namespace hawser::proto {

namespace {

// Which process of an endpoint a key is of. It keeps nobody out: the secret does that.
std::uint64_t process_of(std::uint64_t endpoint_id, std::uint64_t epoch) {
  return Random(endpoint_id ^ Random(epoch).next()).next();
}

bool is_word(const WordOperation& word) {
  return (word.width == 4 || word.width == 8) && word.operation <= AtomicOperation::max_unsigned;
}
bool is_signal(const WordOperation& word) {
  return is_word(word) &&
         (word.operation == AtomicOperation::add || word.operation == AtomicOperation::store);
}

bool lies_within(const RegionKey& key, std::uint64_t offset, std::uint64_t bytes) {
  return bytes <= kMaxMessageBytes && offset <= key.bytes && bytes <= key.bytes - offset;
}

wire::TargetPart target_of(const RegionKey& key, std::uint64_t offset, std::uint64_t bytes,
                           std::uint16_t channel) {
  wire::TargetPart target{};
  target.region = key.region;
  target.generation = key.generation;
  target.secret = key.secret;
  target.offset = offset;
  target.set_length(bytes);
  target.channel = channel;
  return target;
}

wire::OperandsPart operands_of(const WordOperation& word) {
  return {word.operand, word.compare, word.operation, word.width, {}};
}

wire::SignalPart signal_of(const Signal& signal) {
  return {signal.key.region,   signal.key.generation, signal.key.secret, signal.offset,
          signal.word.operand, signal.word.operation, signal.word.width, {}};
}

// Makes the checks that all of these calls need. Ok: `peer` takes the operation.
Status admit(Owners& owners, PeerId id, OperationId operation, std::uint64_t bytes,
             const RegionKey& key, Peer*& peer) {
  peer = owners.used_peer(id);
  if (peer == nullptr) return Status::unknown_peer;
  if (peer->session.state == SessionState::failed) return peer->session.failure;
  owners.sessions.want_session(*peer);
  if (peer->session.state != SessionState::ready) return Status::again;
  if (!peer->handshake.one_sided) return Status::unsupported;
  if (key.process != process_of(peer->identity.remote_id, peer->identity.remote_epoch))
    return Status::stale_region;
  if (!wire::fits_in_fragments(bytes, peer->session.session_bytes)) return Status::invalid_argument;
  if (owners.sessions.doubts_ways(peer->session)) owners.sessions.follow_ways(*peer);
  if (!owners.has_place_for_send(*peer)) return Status::again;
  return owners.turn.operations.is_free(operation) ? Status::ok : without_slot(operation);
}

struct Made {
  OutgoingMessage* message = nullptr;
  OneSidedSend* operation = nullptr;
};

// Makes the operation's message. Nothing: there is no place.
Made make(Owners& owners, Peer& peer, SendKind kind, OperationId operation, std::uint16_t channel,
          std::uint64_t user_data) {
  Made made;
  made.operation = owners.outgoing.make_one_sided(peer, kind, made.message);
  if (made.operation == nullptr) return made;
  made.message->operation = operation;
  made.message->channel = channel;
  made.message->options.user_data = user_data;
  return made;
}

// A signal that doesn't fit into its write. Null: there is no place, and the write is unmade.
const OutgoingMessage* make_signal(Owners& owners, Peer& peer, const Made& write,
                                   const Signal& signal) {
  const Made made = make(owners, peer, SendKind::signal, write.message->operation,
                         write.message->channel, write.message->options.user_data);
  if (made.operation == nullptr) {
    owners.outgoing.unmake(peer, *write.message);
    return nullptr;
  }
  write.message->operation = kNoOperation;
  made.operation->target =
      target_of(signal.key, signal.offset, signal.word.width, write.message->channel);
  made.operation->operands = operands_of(signal.word);
  made.operation->write_bytes = write.message->bytes;
  owners.outgoing.let_follow(*write.operation, *made.operation);
  return made.message;
}

// Everything that the caller gave is in the message. `last`: the message that completes, if
// another.
Status start(Owners& owners, Peer& peer, OutgoingMessage& message, bool strong,
             const OutgoingMessage* last = nullptr) {
  if (last == nullptr) last = &message;
  const OperationId operation = last->operation;
  // The operation may end in the call: it must have begun before.
  owners.turn.operations.begin(operation, operation_kind(last->kind),
                               owners.outgoing.index_of(*last), owners.turn.now());
  if (!owners.outgoing.begin_one_sided(peer, message, strong)) {
    owners.turn.operations.take_back(operation);
    return Status::again;
  }
  owners.touched.add(peer);
  owners.turn.ask_for_pass();
  return Status::ok;
}

}  // namespace

bool can_be_executed(const WriteRequest& request) {
  const bool has_bytes = request.data != nullptr || request.bytes == 0;
  if (!has_bytes || !lies_within(request.key, request.offset, request.bytes)) return false;
  if (!request.signal) return true;
  const Signal& signal = *request.signal;
  return is_signal(signal.word) && lies_within(signal.key, signal.offset, signal.word.width);
}

bool can_be_executed(const ReadRequest& request) {
  return (request.data != nullptr || request.bytes == 0) &&
         lies_within(request.key, request.offset, request.bytes);
}

bool can_be_executed(const AtomicRequest& request) {
  return is_word(request.word) && lies_within(request.key, request.offset, request.word.width);
}

Status Endpoint::expose(const ExposeRequest& request, Placement& placement, RegionId& region) {
  Owners& owners = *owners_;
  if (owners.sessions.closing()) return Status::endpoint_closed;
  if (request.data == nullptr || request.bytes == 0 || request.bytes > kMaxMessageBytes ||
      request.access == RegionAccess::none || !allows(RegionAccess::all, request.access)) {
    return Status::invalid_argument;
  }
  const std::uint64_t secret = owners.sessions.region_secret(++owners.exposed);
  const auto id = owners.regions.expose(request, secret, placement);
  if (!id) return Status::again;
  region = name_of(*id);
  return Status::ok;
}

Status Endpoint::region_key(RegionId region, RegionKey& key) const {
  const SlabId id = slab_id(region);
  const Region* const found = owners_->regions.find(id);
  if (found == nullptr) return Status::unknown_operation;
  key = {id.index, id.generation, found->secret, found->bytes,
         process_of(owners_->endpoint_id, owners_->epoch)};
  return Status::ok;
}

Status Endpoint::region_stats(RegionId region, RegionStats& stats) const {
  const Region* const found = owners_->regions.find(slab_id(region));
  if (found == nullptr) return Status::unknown_operation;
  stats = found->left;
  return Status::ok;
}

Status Endpoint::withdraw(Time now, RegionId region, OperationId operation,
                          std::uint64_t user_data) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  const SlabId id = slab_id(region);
  if (owners.regions.find(id) == nullptr) return Status::unknown_operation;
  if (!owners.turn.operations.is_free(operation)) return without_slot(operation);
  owners.turn.operations.begin(operation, OperationKind::withdraw, kNoIndex, owners.turn.now());
  const Withdrawal withdrawal{operation, user_data};
  if (owners.regions.withdraw(id, withdrawal)) {
    owners.outgoing.complete_withdrawal(withdrawal);
  } else {
    owners.outgoing.withdraw_replies(id);
  }
  owners.turn.ask_for_pass();
  return Status::ok;
}

Status Endpoint::write(Time now, OperationId operation, const WriteRequest& request,
                       bool readable) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  if (owners.sessions.closing()) return Status::endpoint_closed;
  if (!can_be_executed(request)) return Status::invalid_argument;
  Peer* peer = nullptr;
  const Status status = admit(owners, request.peer, operation, request.bytes, request.key, peer);
  if (status != Status::ok) return status;
  if (request.signal && request.signal->key.process != request.key.process)
    return Status::stale_region;
  const Made made =
      make(owners, *peer, SendKind::write, operation, request.channel, request.user_data);
  if (made.operation == nullptr) return Status::again;
  made.message->data = static_cast<const std::byte*>(request.data);
  made.message->bytes = request.bytes;
  made.message->readable = readable;
  wire::TargetPart& target = made.operation->target;
  target = target_of(request.key, request.offset, request.bytes, request.channel);
  if (request.notifies) {
    target.flags |= wire::kTargetNotifies;
    target.note = request.immediate;
  }
  const OutgoingMessage* last = nullptr;
  if (request.signal && request.bytes + sizeof(wire::SignalPart) <= peer->session.fragment_bytes) {
    target.flags |= wire::kTargetSignals;
    made.operation->signal = signal_of(*request.signal);
  } else if (request.signal) {
    last = make_signal(owners, *peer, made, *request.signal);
    if (last == nullptr) return Status::again;
  }
  const Status started = start(owners, *peer, *made.message, request.strong, last);
  called_to_send_ = request.bytes <= peer->session.fragment_bytes;
  return started;
}

Status Endpoint::read(Time now, OperationId operation, const ReadRequest& request) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  if (owners.sessions.closing()) return Status::endpoint_closed;
  if (!can_be_executed(request)) return Status::invalid_argument;
  Peer* peer = nullptr;
  const Status status = admit(owners, request.peer, operation, request.bytes, request.key, peer);
  if (status != Status::ok) return status;
  const Made made =
      make(owners, *peer, SendKind::read, operation, request.channel, request.user_data);
  if (made.operation == nullptr) return Status::again;
  made.operation->target = target_of(request.key, request.offset, request.bytes, request.channel);
  made.operation->into = static_cast<std::byte*>(request.data);
  owners.outgoing.await_reply(*peer, *made.operation);
  called_to_send_ = true;
  return start(owners, *peer, *made.message, request.strong);
}

Status Endpoint::flush_channel(Time now, OperationId operation, const FlushRequest& request) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  if (owners.sessions.closing()) return Status::endpoint_closed;
  Peer* const peer = owners.used_peer(request.peer);
  if (peer == nullptr) return Status::unknown_peer;
  if (peer->session.state == SessionState::failed) return peer->session.failure;
  owners.sessions.want_session(*peer);
  if (peer->session.state != SessionState::ready) return Status::again;
  if (!owners.turn.operations.is_free(operation)) return without_slot(operation);
  const Made made =
      make(owners, *peer, SendKind::flush, operation, request.channel, request.user_data);
  return made.operation == nullptr ? Status::again : start(owners, *peer, *made.message, true);
}

Status Endpoint::atomic(Time now, OperationId operation, const AtomicRequest& request) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  if (owners.sessions.closing()) return Status::endpoint_closed;
  if (!can_be_executed(request)) return Status::invalid_argument;
  Peer* peer = nullptr;
  const Status status = admit(owners, request.peer, operation, 0, request.key, peer);
  if (status != Status::ok) return status;
  const Made made =
      make(owners, *peer, SendKind::atomic, operation, request.channel, request.user_data);
  if (made.operation == nullptr) return Status::again;
  wire::TargetPart& target = made.operation->target;
  target = target_of(request.key, request.offset, request.word.width, request.channel);
  made.operation->operands = operands_of(request.word);
  if (request.fetches) {
    target.flags |= wire::kTargetFetches;
    owners.outgoing.await_reply(*peer, *made.operation);
  }
  called_to_send_ = true;
  return start(owners, *peer, *made.message, request.strong);
}

bool Endpoint::has_notices() const { return owners_->incoming.has_notices(); }

std::size_t Endpoint::poll_notices(std::span<Completion> notices) {
  return owners_->incoming.poll_notices(notices);
}

}  // namespace hawser::proto
