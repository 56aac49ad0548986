// Sends. Who injects has his bytes copied, to a place of the record's own; all others lend them.
#include <rdma/fi_errno.h>

#include <cstring>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/finished.hpp"
#include "plugin/ofi/info.hpp"

namespace hawser::ofi {
namespace {

constexpr std::uint64_t kDelivered = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;

std::uint64_t immediate_of(const SendCall& call) {
  const std::uint64_t waits = call.is_silent ? 0 : kSenderWaits;
  if ((call.flags & FI_REMOTE_CQ_DATA) == 0) return waits;
  return waits | kHasData | (call.remote_data & kDataMask);
}

}  // namespace

// Where `operation` may lay its bytes.
std::byte* Endpoint::copy_locked(const Operation& operation, const SendCall& call) {
  std::byte* const place = copies_.get() + sends_.index_of(operation) * kInjectBytes;
  if (call.bytes > 0) std::memcpy(place, call.data, call.bytes);
  return place;
}

ssize_t Endpoint::send(const SendCall& call) {
  constexpr std::uint64_t kFlags = kSendFlags | FI_REMOTE_CQ_DATA | FI_MORE;
  const bool injects = (call.flags & FI_INJECT) != 0;
  if (call.bytes > kMaxMessageBytes || (injects && call.bytes > kInjectBytes)) return -FI_EMSGSIZE;
  if ((call.flags & ~kFlags) != 0) return -FI_EINVAL;
  const Lock lock(mutex_);
  if (!endpoint_) return -FI_EOPBADSTATE;
  Route route;
  if (const ssize_t answer = route_locked(call.to, route); answer != 0) return answer;
  Operation* const operation = sends_.take(*this);
  if (operation == nullptr) return -FI_EAGAIN;

  operation->is_send = true;
  operation->context = call.op_context;
  operation->peer = route.peer;
  operation->is_by_mirror = route.from == mirror_.get();
  operation->flags = FI_SEND | (call.context == kTaggedContext ? FI_TAGGED : FI_MSG);
  operation->tag = call.tag;
  operation->is_silent = call.is_silent;
  operation->writes_entry = !call.is_silent && sending_.writes(call.flags);
  const bool early = operation->writes_entry && (call.flags & FI_INJECT_COMPLETE) != 0 &&
                     call.bytes <= kInjectBytes && extras_.has_room();
  const void* data = call.data;
  if (injects || early) data = copy_locked(*operation, call);
  SendOptions options;
  options.level = (call.flags & kDelivered) != 0 ? Level::delivered : Level::accepted;
  options.immediate = immediate_of(call);
  options.user_data = reinterpret_cast<std::uintptr_t>(operation);
  const Status status = route.from->send(route.peer, call.context, call.tag, data, call.bytes,
                                         options, operation->id);
  if (status != Status::ok) {
    sends_.give(*operation);
    return status == Status::invalid_argument ? -FI_EMSGSIZE : answer_of(status);
  }
  // Now: a program that goes on to compute has its messages on their way.
  if (domain_.config().flush && (call.flags & FI_MORE) == 0) route.from->flush();
  if (early) write_early_locked(*operation);
  return 0;
}

// The program has its buffer back; what becomes of the copy concerns it only if it fails.
void Endpoint::write_early_locked(Operation& operation) {
  Operation* const entry = extras_.take(*this);
  entry->is_send = true;
  entry->context = operation.context;
  entry->flags = operation.flags;
  entry->tag = operation.tag;
  operation.writes_entry = false;
  operation.is_silent = true;
  operation.context = nullptr;
  sending_.queue->push(*entry);
}

}  // namespace hawser::ofi
