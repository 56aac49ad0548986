// SPDX-License-Identifier: Apache-2.0
// The C API, hawser.h, over engine.hpp: one-sided operations.
#include "engine/c_api/c_api.hpp"

template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_expose_request> = 40;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_write_request> = 104;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_read_request> = 80;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_atomic_request> = 96;
template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_flush_request> = 24;

namespace {

using hawser::AtomicOperation;
using hawser::RegionAccess;
using hawser::Status;
using hawser::c_api::code;
using hawser::c_api::is_of_this_version;
using hawser::c_api::same;
using hawser::c_api::take;

static_assert(same(RegionAccess::write, HAWSER_REMOTE_WRITE) &&
              same(RegionAccess::read, HAWSER_REMOTE_READ) &&
              same(RegionAccess::atomic, HAWSER_REMOTE_ATOMIC));
static_assert(same(AtomicOperation::load, HAWSER_LOAD) &&
              same(AtomicOperation::store, HAWSER_STORE) &&
              same(AtomicOperation::swap, HAWSER_SWAP) &&
              same(AtomicOperation::compare_and_swap, HAWSER_COMPARE_AND_SWAP) &&
              same(AtomicOperation::add, HAWSER_ADD) &&
              same(AtomicOperation::bit_and, HAWSER_BIT_AND) &&
              same(AtomicOperation::bit_or, HAWSER_BIT_OR) &&
              same(AtomicOperation::bit_xor, HAWSER_BIT_XOR) &&
              same(AtomicOperation::min_signed, HAWSER_MIN_SIGNED) &&
              same(AtomicOperation::max_signed, HAWSER_MAX_SIGNED) &&
              same(AtomicOperation::min_unsigned, HAWSER_MIN_UNSIGNED) &&
              same(AtomicOperation::max_unsigned, HAWSER_MAX_UNSIGNED));
static_assert(static_cast<std::uint64_t>(hawser::kNoRegion) == HAWSER_NO_REGION);
// The sizes are part of the ABI.
static_assert(sizeof(hawser_region_key) == 32 && sizeof(hawser_word_operation) == 24 &&
              sizeof(hawser_signal) == 64 && sizeof(hawser_region_stats) == 24 &&
              sizeof(hawser_expose_request) == 40 && sizeof(hawser_write_request) == 104 &&
              sizeof(hawser_read_request) == 80 && sizeof(hawser_atomic_request) == 96 &&
              sizeof(hawser_flush_request) == 24);

hawser::RegionKey key_of(const hawser_region_key& key) {
  return {key.region, key.generation, key.secret, key.bytes, key.process};
}

hawser::WordOperation word_of(const hawser_word_operation& word) {
  return {static_cast<AtomicOperation>(word.operation), word.width, word.operand, word.compare};
}

// Each turns a request into that of the C++ API. Returns false if the request is missing, or is of
// a later version.
bool convert(const hawser_expose_request* given, hawser::ExposeRequest& request) {
  hawser_expose_request taken;
  if (given == nullptr || !take(given, taken)) return false;
  request = {.data = taken.data,
             .bytes = taken.bytes,
             .access = static_cast<RegionAccess>(taken.access),
             .user_data = taken.user_data};
  return true;
}

bool convert(const hawser_write_request* given, hawser::WriteRequest& request) {
  hawser_write_request taken;
  if (given == nullptr || !take(given, taken)) return false;
  request = {.peer = hawser::PeerId{taken.peer},
             .channel = taken.channel,
             .key = key_of(taken.key),
             .offset = taken.offset,
             .data = taken.data,
             .bytes = taken.bytes,
             .notifies = taken.notifies != 0,
             .strong = taken.strong != 0,
             .immediate = taken.immediate,
             .user_data = taken.user_data,
             .owner = static_cast<hawser::ChannelOwner>(taken.owner)};
  if (taken.signal != nullptr) {
    if (!is_of_this_version(taken.signal->word)) return false;
    request.signal = {.key = key_of(taken.signal->key),
                      .offset = taken.signal->offset,
                      .word = word_of(taken.signal->word)};
  }
  return true;
}

bool convert(const hawser_read_request* given, hawser::ReadRequest& request) {
  hawser_read_request taken;
  if (given == nullptr || !take(given, taken)) return false;
  request = {.peer = hawser::PeerId{taken.peer},
             .channel = taken.channel,
             .key = key_of(taken.key),
             .offset = taken.offset,
             .data = taken.data,
             .bytes = taken.bytes,
             .strong = taken.strong != 0,
             .user_data = taken.user_data,
             .owner = static_cast<hawser::ChannelOwner>(taken.owner)};
  return true;
}

bool convert(const hawser_atomic_request* given, hawser::AtomicRequest& request) {
  hawser_atomic_request taken;
  if (given == nullptr || !take(given, taken) || !is_of_this_version(taken.word)) return false;
  request = {.peer = hawser::PeerId{taken.peer},
             .channel = taken.channel,
             .key = key_of(taken.key),
             .offset = taken.offset,
             .word = word_of(taken.word),
             .fetches = taken.fetches != 0,
             .strong = taken.strong != 0,
             .user_data = taken.user_data,
             .owner = static_cast<hawser::ChannelOwner>(taken.owner)};
  return true;
}

bool convert(const hawser_flush_request* given, hawser::FlushRequest& request) {
  hawser_flush_request taken;
  if (given == nullptr || !take(given, taken)) return false;
  request = {.peer = hawser::PeerId{taken.peer},
             .channel = taken.channel,
             .user_data = taken.user_data,
             .owner = static_cast<hawser::ChannelOwner>(taken.owner)};
  return true;
}

// Posts an operation by one of the calls of the C++ API.
template <class Request, class Given>
hawser_status post(hawser_endpoint* endpoint, const Given* given, hawser_operation* operation,
                   Status (hawser::Endpoint::*call)(const Request&, hawser::OperationId&)) {
  Request asked;
  if (!convert(given, asked)) return HAWSER_INVALID_ARGUMENT;
  hawser::OperationId named = hawser::kNoOperation;
  const Status status = (endpoint->endpoint.get()->*call)(asked, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

}  // namespace

extern "C" {

hawser_status hawser_expose(hawser_endpoint* endpoint, const hawser_expose_request* request,
                            hawser_region* region) {
  hawser::ExposeRequest asked;
  if (!convert(request, asked)) return HAWSER_INVALID_ARGUMENT;
  hawser::RegionId named = hawser::kNoRegion;
  const Status status = endpoint->endpoint->expose(asked, named);
  if (status == Status::ok) *region = static_cast<hawser_region>(named);
  return code(status);
}

hawser_status hawser_endpoint_region_key(const hawser_endpoint* endpoint, hawser_region region,
                                         hawser_region_key* key) {
  hawser::RegionKey made;
  const Status status = endpoint->endpoint->region_key(hawser::RegionId{region}, made);
  if (status == Status::ok)
    *key = {made.region, made.generation, made.secret, made.bytes, made.process};
  return code(status);
}

hawser_status hawser_endpoint_region_stats(const hawser_endpoint* endpoint, hawser_region region,
                                           hawser_region_stats* stats) {
  hawser::RegionStats found;
  const Status status = endpoint->endpoint->region_stats(hawser::RegionId{region}, found);
  if (status == Status::ok)
    *stats = {found.unfinished_writes, found.unfinished_from, found.unfinished_to};
  return code(status);
}

hawser_status hawser_withdraw(hawser_endpoint* endpoint, hawser_region region, uint64_t user_data,
                              hawser_operation* operation) {
  hawser::OperationId named = hawser::kNoOperation;
  const Status status = endpoint->endpoint->withdraw(hawser::RegionId{region}, user_data, named);
  if (status == Status::ok) *operation = static_cast<hawser_operation>(named);
  return code(status);
}

hawser_status hawser_write(hawser_endpoint* endpoint, const hawser_write_request* request,
                           hawser_operation* operation) {
  return post(endpoint, request, operation, &hawser::Endpoint::write);
}

hawser_status hawser_read(hawser_endpoint* endpoint, const hawser_read_request* request,
                          hawser_operation* operation) {
  return post(endpoint, request, operation, &hawser::Endpoint::read);
}

hawser_status hawser_atomic(hawser_endpoint* endpoint, const hawser_atomic_request* request,
                            hawser_operation* operation) {
  return post(endpoint, request, operation, &hawser::Endpoint::atomic);
}

hawser_status hawser_flush_channel(hawser_endpoint* endpoint, const hawser_flush_request* request,
                                   hawser_operation* operation) {
  return post(endpoint, request, operation, &hawser::Endpoint::flush_channel);
}
}  // extern "C"
