// SPDX-License-Identifier: Apache-2.0
// The C API of collectives, collectives.h, over collectives.hpp.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "engine/c_api/c_api.hpp"
#include "hawser/collectives.h"
#include "hawser/collectives.hpp"

template <>
constexpr std::size_t hawser::c_api::kFirstSize<hawser_coll_config> = 48;

struct hawser_coll_router {
  explicit hawser_coll_router(hawser::Endpoint& endpoint) : router(endpoint) {}
  hawser::coll::CompletionRouter router;
};

struct hawser_coll_communicator {
  std::unique_ptr<hawser::coll::Communicator> communicator;
};

namespace {

using hawser::Status;
using hawser::c_api::code;
using hawser::c_api::copy_text;
using hawser::c_api::guarded;
using hawser::c_api::same;
using hawser::c_api::take;
using hawser::coll::Communicator;
using hawser::coll::DataType;
using hawser::coll::ReduceOp;
using hawser::coll::Reduction;
using hawser::coll::Request;
using hawser::coll::Segment;

static_assert(same(DataType::f32, HAWSER_COLL_F32) && same(DataType::f64, HAWSER_COLL_F64) &&
              same(DataType::f16, HAWSER_COLL_F16) && same(DataType::bf16, HAWSER_COLL_BF16) &&
              same(DataType::i32, HAWSER_COLL_I32) && same(DataType::i64, HAWSER_COLL_I64) &&
              same(DataType::i8, HAWSER_COLL_I8) && same(DataType::u8, HAWSER_COLL_U8) &&
              same(DataType::f8e4m3, HAWSER_COLL_F8E4M3) &&
              same(DataType::f8e5m2, HAWSER_COLL_F8E5M2) &&
              hawser::coll::kDataTypes == HAWSER_COLL_F8E5M2 + 1);
static_assert(same(ReduceOp::sum, HAWSER_COLL_SUM) && same(ReduceOp::prod, HAWSER_COLL_PROD) &&
              same(ReduceOp::min, HAWSER_COLL_MIN) && same(ReduceOp::max, HAWSER_COLL_MAX) &&
              same(ReduceOp::average, HAWSER_COLL_AVERAGE) &&
              same(ReduceOp::bit_and, HAWSER_COLL_BIT_AND) &&
              same(ReduceOp::bit_or, HAWSER_COLL_BIT_OR) &&
              same(ReduceOp::bit_xor, HAWSER_COLL_BIT_XOR) &&
              same(ReduceOp::function, HAWSER_COLL_FUNCTION) &&
              hawser::coll::kReduceOps == HAWSER_COLL_FUNCTION + 1);
static_assert(hawser::coll::kAnyRank == HAWSER_COLL_ANY_RANK &&
              hawser::coll::Communicator::kMaxStarted == HAWSER_COLL_MAX_STARTED &&
              hawser::coll::Communicator::kMaxMessages == HAWSER_COLL_MAX_MESSAGES &&
              hawser::coll::Communicator::kNoColour == HAWSER_COLL_NO_COLOUR);
// The sizes are part of the ABI.
static_assert(sizeof(hawser_coll_reduction) == 24 && sizeof(hawser_coll_segment) == 16 &&
              sizeof(hawser_coll_request) == 8 && sizeof(hawser_coll_received) == 16 &&
              sizeof(hawser_coll_config) == 56);
// An array of one may be read as an array of the other.
static_assert(sizeof(Segment) == sizeof(hawser_coll_segment) &&
              offsetof(Segment, bytes) == offsetof(hawser_coll_segment, bytes));
static_assert(std::is_same_v<hawser_coll_type, std::underlying_type_t<DataType>>);

constexpr std::uint32_t kMostRanks = 65536;  // an endpoint has no more peers

std::span<const Segment> segments(const hawser_coll_segment* given,
                                  const hawser_coll_communicator& of) {
  if (given == nullptr) return {};
  return {reinterpret_cast<const Segment*>(given), of.communicator->ranks()};
}

// Calls the caller's function, which takes C's element type. The context is the caller's struct.
void call_function(void* context, void* out, const void* left, const void* right,
                   std::uint64_t count, DataType type) {
  const auto* given = static_cast<const hawser_coll_reduction*>(context);
  given->function(given->context, out, left, right, count, static_cast<hawser_coll_type>(type));
}

Reduction reduction_of(const hawser_coll_reduction& given) {
  Reduction made(static_cast<ReduceOp>(given.op));
  if (given.function != nullptr) {
    made.function = call_function;
    made.context = const_cast<hawser_coll_reduction*>(&given);
  }
  return made;
}

// Makes a communicator of some ranks of another. `call` may make none.
template <class Call>
hawser_status make(hawser_coll_communicator** made, char* error, std::size_t error_bytes,
                   Call&& call) {
  return guarded(error, error_bytes, [&] {
    auto handle = std::make_unique<hawser_coll_communicator>();
    const Status status = call(handle->communicator);
    if (status == Status::ok) *made = handle->communicator != nullptr ? handle.release() : nullptr;
    return code(status);
  });
}

// Starts a collective or a message.
template <class Start>
hawser_status start(hawser_coll_request* request, Start&& call) {
  Request made;
  const Status status = call(made);
  // In C++ the slot of no request is the greatest number, and in C it is 0.
  if (status == Status::ok) *request = {made.slot + 1, made.generation};
  return code(status);
}

template <class Start>
hawser_status start_reduction(const hawser_coll_reduction* reduction, hawser_coll_request* request,
                              Start&& call) {
  if (reduction == nullptr || !hawser::c_api::is_of_this_version(*reduction)) {
    return HAWSER_INVALID_ARGUMENT;
  }
  const Reduction made = reduction_of(*reduction);
  return start(request, [&](Request& named) { return call(made, named); });
}

Request request_of(const hawser_coll_request& given) { return {given.slot - 1, given.generation}; }

template <class Ask>
hawser_status ask(hawser_coll_received* received, Ask&& call) {
  if (received == nullptr) return code(call(nullptr));
  hawser::coll::Received found{received->from, received->bytes};
  const Status status = call(&found);
  *received = {found.bytes, found.from, 0};
  return code(status);
}

template <typename Option>
void set_if(Option value, Option& option) {
  if (value != 0) option = value;
}

}  // namespace

extern "C" {

size_t hawser_coll_type_bytes(hawser_coll_type type) {
  return hawser::coll::size_of(static_cast<DataType>(type));
}

hawser_status hawser_coll_router_create(hawser_endpoint* endpoint, hawser_coll_router** router,
                                        char* error, size_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    *router = new hawser_coll_router(*endpoint->endpoint);
    return HAWSER_OK;
  });
}

void hawser_coll_router_destroy(hawser_coll_router* router) { delete router; }
void hawser_coll_router_progress(hawser_coll_router* router) { router->router.progress(); }

void hawser_coll_router_wait(hawser_coll_router* router, uint64_t timeout_ns) {
  router->router.wait(timeout_ns);
}

size_t hawser_coll_router_take(hawser_coll_router* router, hawser_completion* completions,
                               size_t count) {
  hawser::Completion one;
  size_t taken = 0;
  while (taken < count && router->router.take({&one, 1}) == 1) {
    completions[taken++] = hawser::c_api::completion_of(one);
  }
  return taken;
}

int hawser_coll_router_quiet(const hawser_coll_router* router) {
  return router->router.quiet() ? 1 : 0;
}

void hawser_coll_fit(hawser_coll_config* config, uint32_t max_operations,
                     uint32_t max_messages_per_peer, uint32_t communicators) {
  hawser::Tunables tunables;
  tunables.max_operations = max_operations;
  tunables.max_messages_per_peer = max_messages_per_peer;
  const auto options =
      hawser::coll::CommunicatorOptions::within(tunables, std::max(communicators, 1u));
  config->chunk_bytes = options.chunk_bytes;
  config->pipeline = options.pipeline;
  config->max_active = options.max_active;
  config->small_bytes = options.small_bytes;
}

hawser_status hawser_coll_create(hawser_coll_router* router, const hawser_coll_config* config,
                                 hawser_coll_communicator** communicator, char* error,
                                 size_t error_bytes) {
  hawser_coll_config taken;
  if (config == nullptr || !take(config, taken)) {
    copy_text("The configuration is missing, or of a later version", error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  }
  if (taken.peers == nullptr || taken.ranks > kMostRanks) {
    copy_text("The peers are missing, or more than 65536", error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  }
  if (taken.follow_bandwidths > 1) {
    copy_text("follow_bandwidths must be 0 or 1", error, error_bytes);
    return HAWSER_INVALID_ARGUMENT;
  }
  return guarded(error, error_bytes, [&] {
    hawser::coll::CommunicatorConfig made{.id = taken.id, .rank = taken.rank};
    for (uint32_t rank = 0; rank < taken.ranks; ++rank) {
      made.peers.push_back(hawser::PeerId{taken.peers[rank]});
    }
    set_if(taken.chunk_bytes, made.options.chunk_bytes);
    set_if(taken.pipeline, made.options.pipeline);
    set_if(taken.max_active, made.options.max_active);
    set_if(taken.small_bytes, made.options.small_bytes);
    if (taken.small_bytes == UINT32_MAX) made.options.small_bytes = 0;
    made.options.follow_bandwidths = taken.follow_bandwidths != 0;
    set_if(taken.check_bytes, made.options.check_bytes);
    auto handle = std::make_unique<hawser_coll_communicator>();
    handle->communicator = std::make_unique<hawser::coll::Communicator>(router->router, made);
    *communicator = handle.release();
    return HAWSER_OK;
  });
}

void hawser_coll_destroy(hawser_coll_communicator* communicator) { delete communicator; }

hawser_coll_rank hawser_coll_rank_of(const hawser_coll_communicator* communicator) {
  return communicator->communicator->rank();
}

uint32_t hawser_coll_id(const hawser_coll_communicator* communicator) {
  return communicator->communicator->id();
}

uint32_t hawser_coll_ranks(const hawser_coll_communicator* communicator) {
  return communicator->communicator->ranks();
}

hawser_status hawser_coll_all_reduce(hawser_coll_communicator* communicator, const void* in,
                                     void* out, uint64_t count, hawser_coll_type type,
                                     const hawser_coll_reduction* reduction,
                                     hawser_coll_request* request) {
  return start_reduction(reduction, request, [&](const Reduction& made, Request& named) {
    return communicator->communicator->all_reduce(in, out, count, static_cast<DataType>(type), made,
                                                  named);
  });
}

hawser_status hawser_coll_reduce(hawser_coll_communicator* communicator, const void* in, void* out,
                                 uint64_t count, hawser_coll_type type,
                                 const hawser_coll_reduction* reduction, hawser_coll_rank root,
                                 hawser_coll_request* request) {
  return start_reduction(reduction, request, [&](const Reduction& made, Request& named) {
    return communicator->communicator->reduce(in, out, count, static_cast<DataType>(type), made,
                                              root, named);
  });
}

hawser_status hawser_coll_reduce_scatter(hawser_coll_communicator* communicator, const void* in,
                                         void* out, uint64_t count, hawser_coll_type type,
                                         const hawser_coll_reduction* reduction,
                                         hawser_coll_request* request) {
  return start_reduction(reduction, request, [&](const Reduction& made, Request& named) {
    return communicator->communicator->reduce_scatter(in, out, count, static_cast<DataType>(type),
                                                      made, named);
  });
}

hawser_status hawser_coll_reduce_scatter_v(hawser_coll_communicator* communicator, const void* in,
                                           const hawser_coll_segment* blocks, void* out,
                                           hawser_coll_type type,
                                           const hawser_coll_reduction* reduction,
                                           hawser_coll_request* request) {
  return start_reduction(reduction, request, [&](const Reduction& made, Request& named) {
    return communicator->communicator->reduce_scatter_v(in, segments(blocks, *communicator), out,
                                                        static_cast<DataType>(type), made, named);
  });
}

hawser_status hawser_coll_all_gather(hawser_coll_communicator* communicator, const void* in,
                                     void* out, uint64_t bytes, hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->all_gather(in, out, bytes, named);
  });
}

hawser_status hawser_coll_all_gather_v(hawser_coll_communicator* communicator, const void* in,
                                       void* out, const hawser_coll_segment* blocks,
                                       hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->all_gather_v(in, out, segments(blocks, *communicator),
                                                    named);
  });
}

hawser_status hawser_coll_all_to_all(hawser_coll_communicator* communicator, const void* in,
                                     void* out, uint64_t bytes, hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->all_to_all(in, out, bytes, named);
  });
}

hawser_status hawser_coll_all_to_all_v(hawser_coll_communicator* communicator, const void* in,
                                       const hawser_coll_segment* to, void* out,
                                       const hawser_coll_segment* from,
                                       hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->all_to_all_v(in, segments(to, *communicator), out,
                                                    segments(from, *communicator), named);
  });
}

hawser_status hawser_coll_broadcast(hawser_coll_communicator* communicator, void* data,
                                    uint64_t bytes, hawser_coll_rank root,
                                    hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->broadcast(data, bytes, root, named);
  });
}

hawser_status hawser_coll_gather(hawser_coll_communicator* communicator, const void* in, void* out,
                                 uint64_t bytes, hawser_coll_rank root,
                                 hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->gather(in, out, bytes, root, named);
  });
}

hawser_status hawser_coll_gather_v(hawser_coll_communicator* communicator, const void* in,
                                   uint64_t bytes, void* out, const hawser_coll_segment* blocks,
                                   hawser_coll_rank root, hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->gather_v(in, bytes, out, segments(blocks, *communicator),
                                                root, named);
  });
}

hawser_status hawser_coll_scatter(hawser_coll_communicator* communicator, const void* in, void* out,
                                  uint64_t bytes, hawser_coll_rank root,
                                  hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->scatter(in, out, bytes, root, named);
  });
}

hawser_status hawser_coll_scatter_v(hawser_coll_communicator* communicator, const void* in,
                                    const hawser_coll_segment* blocks, void* out, uint64_t bytes,
                                    hawser_coll_rank root, hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->scatter_v(in, segments(blocks, *communicator), out, bytes,
                                                 root, named);
  });
}

hawser_status hawser_coll_barrier(hawser_coll_communicator* communicator,
                                  hawser_coll_request* request) {
  return start(request, [&](Request& named) { return communicator->communicator->barrier(named); });
}

hawser_status hawser_coll_set_bandwidths(hawser_coll_communicator* communicator,
                                         const uint8_t* by_rank) {
  if (by_rank == nullptr) return HAWSER_INVALID_ARGUMENT;
  return guarded(nullptr, 0, [&] {
    return code(
        communicator->communicator->set_bandwidths({by_rank, communicator->communicator->ranks()}));
  });
}

int hawser_coll_bandwidths(const hawser_coll_communicator* communicator, uint8_t* by_rank) {
  const std::span<const uint8_t> bandwidths = communicator->communicator->bandwidths();
  std::ranges::copy(bandwidths, by_rank);
  return bandwidths.empty() ? 0 : 1;
}

hawser_status hawser_coll_send(hawser_coll_communicator* communicator, const void* data,
                               uint64_t bytes, hawser_coll_rank to, uint32_t tag,
                               hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->send(data, bytes, to, tag, named);
  });
}

hawser_status hawser_coll_receive(hawser_coll_communicator* communicator, void* data,
                                  uint64_t bytes, hawser_coll_rank from, uint32_t tag,
                                  hawser_coll_request* request) {
  return start(request, [&](Request& named) {
    return communicator->communicator->receive(data, bytes, from, tag, named);
  });
}

void hawser_coll_progress(hawser_coll_communicator* communicator) {
  communicator->communicator->progress();
}

hawser_status hawser_coll_test(hawser_coll_communicator* communicator, hawser_coll_request request,
                               hawser_coll_received* received) {
  return ask(received, [&](hawser::coll::Received* found) {
    return communicator->communicator->test(request_of(request), found);
  });
}

hawser_status hawser_coll_wait(hawser_coll_communicator* communicator, hawser_coll_request request,
                               hawser_coll_received* received) {
  return ask(received, [&](hawser::coll::Received* found) {
    return communicator->communicator->wait(request_of(request), found);
  });
}

int hawser_coll_released(const hawser_coll_communicator* communicator,
                         hawser_coll_request request) {
  return communicator->communicator->released(request_of(request)) ? 1 : 0;
}

hawser_status hawser_coll_split(hawser_coll_communicator* communicator, uint32_t colour,
                                uint32_t key, hawser_coll_communicator** made, char* error,
                                size_t error_bytes) {
  return make(made, error, error_bytes, [&](std::unique_ptr<Communicator>& result) {
    return communicator->communicator->split(colour, key, result);
  });
}

hawser_status hawser_coll_shrink(hawser_coll_communicator* communicator,
                                 const hawser_coll_rank* without, uint64_t count,
                                 hawser_coll_communicator** made, char* error, size_t error_bytes) {
  if (without == nullptr && count > 0) return HAWSER_INVALID_ARGUMENT;
  return make(made, error, error_bytes, [&](std::unique_ptr<Communicator>& result) {
    return communicator->communicator->shrink({without, count}, result);
  });
}

void hawser_coll_abort(hawser_coll_communicator* communicator, hawser_coll_rank failed,
                       hawser_status reason) {
  communicator->communicator->abort(failed, static_cast<Status>(reason));
}

hawser_status hawser_coll_failure(const hawser_coll_communicator* communicator,
                                  hawser_coll_rank* rank, const char** text) {
  const hawser::coll::Failure* failure = communicator->communicator->failure();
  if (failure == nullptr) return HAWSER_OK;
  if (rank != nullptr) *rank = failure->rank;
  if (text != nullptr) *text = failure->text.c_str();
  return code(failure->status);
}

int hawser_coll_idle(const hawser_coll_communicator* communicator) {
  return communicator->communicator->idle() ? 1 : 0;
}
}  // extern "C"
