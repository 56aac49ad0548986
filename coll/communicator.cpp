// SPDX-License-Identifier: Apache-2.0
#include "coll/communicator.hpp"

#include <algorithm>
#include <cstring>

#include "coll/communicator_state.hpp"

namespace hawser::coll {
namespace {

// One turn of `wait` blocks at most this long. A completion ends it; it waits for nothing else.
constexpr std::uint64_t kWait_ns = 100'000'000;

// Upper bound of buffers, so that sums and products of lengths don't overflow.
constexpr std::uint64_t kMaxBufferBytes = std::uint64_t{1} << 62;

void copy(void* to, const void* from, std::uint64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

std::uint64_t digest(const CommunicatorOptions& options) {
  return static_cast<std::uint64_t>(options.chunk_bytes) << 32 ^
         static_cast<std::uint64_t>(options.small_bytes) << 8 ^ options.pipeline;
}

}  // namespace

CommunicatorOptions CommunicatorOptions::within(const Tunables& tunables,
                                                std::uint32_t communicators) {
  CommunicatorOptions options;
  const std::uint64_t operations = tunables.max_operations / 2 / communicators;
  const std::uint64_t messages = tunables.max_messages_per_peer / communicators;
  const auto fits = [&] {
    const std::uint64_t sends = std::uint64_t{2} * options.pipeline * options.max_active;
    return 2 * sends + 1 <= operations && sends <= messages;
  };
  while (!fits() && options.max_active > 1) options.max_active /= 2;
  while (!fits() && options.pipeline > 1) options.pipeline /= 2;
  return options;
}

Communicator::Communicator(CompletionRouter& router, const CommunicatorConfig& config)
    : router_(router), state_(std::make_unique<CommunicatorState>(router, config)) {
  state_->advance();  // posts the receive for abort messages
}

Communicator::~Communicator() {
  const std::uint64_t mark = state_->channel().route;
  router_.adopt(mark, std::move(state_));
}

Rank Communicator::rank() const noexcept { return state_->channel().rank; }
Rank Communicator::ranks() const noexcept { return state_->channel().ranks(); }

Status Communicator::all_reduce(const void* in, void* out, std::uint64_t count, DataType type,
                                ReduceOp op, Request& request) {
  if (count > kMaxBufferBytes / size_of(type)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  const CommunicatorOptions& options = state_->options();
  const std::uint64_t bytes = count * size_of(type);
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    state_->skip();
    request = {};
    return Status::ok;
  }
  const Signature signature{.collective = Collective::all_reduce,
                            .type = type,
                            .op = op,
                            .count = count,
                            .options = digest(options)};
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  if (bytes <= options.small_bytes) {
    request = state_->launch(signature, DoublingPlan({.rank = rank(),
                                                      .ranks = ranks(),
                                                      .count = count,
                                                      .type = type,
                                                      .op = op,
                                                      .in = from,
                                                      .out = to}));
    return Status::ok;
  }
  request = state_->launch(signature, RingPlan({.collective = Collective::all_reduce,
                                                .rank = rank(),
                                                .ranks = ranks(),
                                                .count = count,
                                                .element_bytes = size_of(type),
                                                .type = type,
                                                .op = op,
                                                .in = from,
                                                .out = to,
                                                .chunk_bytes = options.chunk_bytes,
                                                .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::reduce(const void* in, void* out, std::uint64_t count, DataType type,
                            ReduceOp op, Rank root, Request& request) {
  if (count > kMaxBufferBytes / size_of(type) || root >= ranks()) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || count == 0) {
    copy(out, in, count * size_of(type));
    state_->skip();
    request = {};
    return Status::ok;
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.collective = Collective::all_reduce,
                            .type = type,
                            .op = op,
                            .root = root,
                            .to_root = true,
                            .count = count,
                            .options = digest(options)},
                           ReducePlan({.rank = rank(),
                                       .ranks = ranks(),
                                       .root = root,
                                       .count = count,
                                       .type = type,
                                       .op = op,
                                       .in = static_cast<const std::byte*>(in),
                                       .out = static_cast<std::byte*>(out),
                                       .chunk_bytes = options.chunk_bytes,
                                       .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::reduce_scatter(const void* in, void* out, std::uint64_t count, DataType type,
                                    ReduceOp op, Request& request) {
  if (count > kMaxBufferBytes / size_of(type) / ranks()) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || count == 0) {
    copy(out, in, count * size_of(type));
    state_->skip();
    request = {};
    return Status::ok;
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.collective = Collective::reduce_scatter,
                            .type = type,
                            .op = op,
                            .count = count,
                            .options = digest(options)},
                           RingPlan({.collective = Collective::reduce_scatter,
                                     .rank = rank(),
                                     .ranks = ranks(),
                                     .count = count,
                                     .element_bytes = size_of(type),
                                     .type = type,
                                     .op = op,
                                     .in = static_cast<const std::byte*>(in),
                                     .out = static_cast<std::byte*>(out),
                                     .chunk_bytes = options.chunk_bytes,
                                     .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::all_gather(const void* in, void* out, std::uint64_t bytes, Request& request) {
  if (bytes > kMaxBufferBytes / ranks()) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    state_->skip();
    request = {};
    return Status::ok;
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch(
      {.collective = Collective::all_gather, .count = bytes, .options = digest(options)},
      RingPlan({.collective = Collective::all_gather,
                .rank = rank(),
                .ranks = ranks(),
                .count = bytes,
                .in = static_cast<const std::byte*>(in),
                .out = static_cast<std::byte*>(out),
                .chunk_bytes = options.chunk_bytes,
                .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::all_to_all(const void* in, void* out, std::uint64_t bytes, Request& request) {
  if (bytes > kMaxMessageBytes) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    state_->skip();
    request = {};
    return Status::ok;
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.collective = Collective::all_to_all,
                            .in_place = in == out,
                            .count = bytes,
                            .options = digest(options)},
                           ExchangePlan({.rank = rank(),
                                         .ranks = ranks(),
                                         .in = static_cast<const std::byte*>(in),
                                         .out = static_cast<std::byte*>(out),
                                         .block_bytes = bytes,
                                         .chunk_bytes = options.chunk_bytes,
                                         .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::all_to_all_v(const void* in, std::span<const Segment> to, void* out,
                                  std::span<const Segment> from, Request& request) {
  if (to.size() != ranks() || from.size() != ranks()) return Status::invalid_argument;
  if (to[rank()].bytes != from[rank()].bytes) return Status::invalid_argument;
  if (in == out && in != nullptr) return Status::invalid_argument;
  const auto too_long = [](const Segment& one) { return one.bytes > kMaxMessageBytes; };
  if (std::any_of(to.begin(), to.end(), too_long)) return Status::invalid_argument;
  if (std::any_of(from.begin(), from.end(), too_long)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  // Even if all lengths here are 0, other ranks may exchange data. Only a single rank needs no
  // plan.
  if (ranks() == 1) {
    copy(static_cast<std::byte*>(out) + from[0].offset,
         static_cast<const std::byte*>(in) + to[0].offset, to[0].bytes);
    state_->skip();
    request = {};
    return Status::ok;
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.collective = Collective::all_to_all, .options = digest(options)},
                           ExchangePlan({.rank = rank(),
                                         .ranks = ranks(),
                                         .in = static_cast<const std::byte*>(in),
                                         .out = static_cast<std::byte*>(out),
                                         .to = to,
                                         .from = from,
                                         .chunk_bytes = options.chunk_bytes,
                                         .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::broadcast(void* data, std::uint64_t bytes, Rank root, Request& request) {
  if (bytes > kMaxBufferBytes || root >= ranks()) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) {
    state_->skip();
    request = {};
    return Status::ok;
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.collective = Collective::broadcast,
                            .root = root,
                            .count = bytes,
                            .options = digest(options)},
                           BroadcastPlan({.rank = rank(),
                                          .ranks = ranks(),
                                          .root = root,
                                          .data = static_cast<std::byte*>(data),
                                          .bytes = bytes,
                                          .chunk_bytes = options.chunk_bytes}));
  return Status::ok;
}

Status Communicator::barrier(Request& request) {
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1) {
    state_->skip();
    request = {};
    return Status::ok;
  }
  request =
      state_->launch({.collective = Collective::barrier, .options = digest(state_->options())},
                     BarrierPlan(rank(), ranks()));
  return Status::ok;
}

void Communicator::progress() { router_.progress(); }

Status Communicator::test(const Request& request) const { return state_->test(request); }

Status Communicator::wait(const Request& request) {
  for (;;) {
    const Status status = test(request);
    if (status != Status::again) return status;
    router_.wait(kWait_ns);
  }
}

bool Communicator::released(const Request& request) const { return state_->released(request); }

void Communicator::abort(Rank failed, Status reason) { state_->abort(failed, reason); }

const Failure* Communicator::failure() const noexcept { return state_->failure(); }

bool Communicator::idle() const noexcept { return state_->idle(); }

}  // namespace hawser::coll
