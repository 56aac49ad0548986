// SPDX-License-Identifier: Apache-2.0
#include "hawser/collectives.hpp"

#include <algorithm>
#include <cstring>

#include "coll/communicator_state.hpp"
#include "coll/launch.hpp"
#include "coll/reduce.hpp"

namespace hawser::coll {

namespace {

// Upper bound of buffers, so that sums and products of lengths don't overflow.
constexpr std::uint64_t kMaxBufferBytes = std::uint64_t{1} << 62;

// The places are `to_at` bytes behind `to`, and `from_at` bytes behind `from`.
void copy(void* to, const void* from, std::uint64_t bytes, std::uint64_t to_at = 0,
          std::uint64_t from_at = 0) {
  if (bytes == 0) return;
  std::byte* const target = static_cast<std::byte*>(to) + to_at;
  const std::byte* const source = static_cast<const std::byte*>(from) + from_at;
  if (target != source) std::memcpy(target, source, bytes);
}

// All ranks know the length of each block.
std::uint64_t digest_of(std::span<const Segment> blocks) {
  std::uint64_t so_far = kDigestStart;
  for (const Segment& block : blocks) so_far = digest(so_far, block.bytes);
  return so_far;
}

// A block for each rank, none of them longer than `most`, and all of whole elements.
bool are_blocks(std::span<const Segment> blocks, Rank ranks, std::uint64_t most,
                std::uint64_t element_bytes) {
  return blocks.size() == ranks && std::all_of(blocks.begin(), blocks.end(), [&](const Segment& s) {
           return s.bytes <= most && s.offset <= kMaxBufferBytes && s.bytes % element_bytes == 0 &&
                  s.offset % element_bytes == 0;
         });
}

bool is_missing(const void* data, std::uint64_t bytes) { return data == nullptr && bytes > 0; }

bool are_empty(std::span<const Segment> blocks) {
  return std::all_of(blocks.begin(), blocks.end(), [](const Segment& s) { return s.bytes == 0; });
}

const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes_of(void* data) { return static_cast<std::byte*>(data); }

// A collective that moves nothing between ranks: it counts, and is complete.
Status skip(CommunicatorState& state, Request& request) {
  state.skip();
  request = {};
  return Status::ok;
}

}  // namespace

CommunicatorOptions CommunicatorOptions::within(const Tunables& tunables,
                                                std::uint32_t communicators) {
  CommunicatorOptions options;
  const std::uint32_t count = std::max(communicators, 1u);
  const std::uint64_t operations = tunables.max_operations / 2 / count;
  const std::uint64_t messages = tunables.max_messages_per_peer / count;
  const auto fits = [&] {
    const std::uint64_t sends = std::uint64_t{2} * options.pipeline * options.max_active;
    return 2 * sends + 1 <= operations && sends <= messages;
  };
  while (!fits() && options.max_active > 1) options.max_active /= 2;
  while (!fits() && options.pipeline > 1) options.pipeline /= 2;
  return options;
}

Communicator::Communicator(CompletionRouter& router, const CommunicatorConfig& config)
    : router_(router), state_(std::make_unique<CommunicatorState>(*router.router_, config)) {
  state_->advance();  // posts the receive for abort messages
}

Communicator::~Communicator() {
  const std::uint64_t mark = state_->channel().route;
  router_.router_->adopt(mark, std::move(state_));
}

Rank Communicator::rank() const noexcept { return state_->channel().rank; }
Rank Communicator::ranks() const noexcept { return state_->channel().ranks(); }
std::uint32_t Communicator::id() const noexcept { return state_->channel().id; }

Status Communicator::all_reduce(const void* in, void* out, std::uint64_t count, DataType type,
                                const Reduction& reduction, Request& request) {
  if (!is_possible(type, reduction)) return Status::invalid_argument;
  if (count > kMaxBufferBytes / size_of(type)) return Status::invalid_argument;
  const std::uint64_t bytes = count * size_of(type);
  if (is_missing(in, bytes) || is_missing(out, bytes)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  const CommunicatorOptions& options = state_->options();
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    return skip(*state_, request);
  }
  Signature signature{.kind = CollectiveKind::all_reduce,
                      .type = type,
                      .op = reduction.op,
                      .count = count,
                      .options = digest_of(options)};
  if (bytes <= options.small_bytes) {
    request = state_->launch(signature, DoublingPlan({.rank = rank(),
                                                      .ranks = ranks(),
                                                      .count = count,
                                                      .type = type,
                                                      .reduction = reduction,
                                                      .in = bytes_of(in),
                                                      .out = bytes_of(out)}));
    return Status::ok;
  }
  const AllReduceArguments arguments{.count = count,
                                     .type = type,
                                     .reduction = reduction,
                                     .in = bytes_of(in),
                                     .out = bytes_of(out)};
  const BandwidthOrder* const order = state_->order();
  if (order != nullptr && options.pipeline >= 2 && !state_->follows()) {
    signature.lengths = order->digest;
    const DividedPlan divided = divide(arguments, *order, options);
    request = state_->launch(signature, divided.plan, divided.window);
    return Status::ok;
  }
  const RingPlan ring({.collective = Collective::all_reduce,
                       .rank = rank(),
                       .ranks = ranks(),
                       .count = count,
                       .element_bytes = size_of(type),
                       .type = type,
                       .reduction = reduction,
                       .in = arguments.in,
                       .out = arguments.out,
                       .chunk_bytes = options.chunk_bytes,
                       .depth = options.pipeline});
  if (state_->follows()) return state_->launch_following(signature, ring, arguments, request);
  request = state_->launch(signature, ring);
  return Status::ok;
}

Status Communicator::reduce(const void* in, void* out, std::uint64_t count, DataType type,
                            const Reduction& reduction, Rank root, Request& request) {
  if (!is_possible(type, reduction) || root >= ranks()) return Status::invalid_argument;
  if (count > kMaxBufferBytes / size_of(type)) return Status::invalid_argument;
  if (is_missing(in, count) || (root == rank() && is_missing(out, count))) {
    return Status::invalid_argument;
  }
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || count == 0) {
    copy(out, in, count * size_of(type));
    return skip(*state_, request);
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.kind = CollectiveKind::reduce,
                            .type = type,
                            .op = reduction.op,
                            .root = root,
                            .count = count,
                            .options = digest_of(options)},
                           ReducePlan({.rank = rank(),
                                       .ranks = ranks(),
                                       .root = root,
                                       .count = count,
                                       .type = type,
                                       .reduction = reduction,
                                       .in = bytes_of(in),
                                       .out = bytes_of(out),
                                       .chunk_bytes = options.chunk_bytes,
                                       .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::reduce_scatter(const void* in, void* out, std::uint64_t count, DataType type,
                                    const Reduction& reduction, Request& request) {
  if (!is_possible(type, reduction)) return Status::invalid_argument;
  if (count > kMaxBufferBytes / size_of(type) / ranks()) return Status::invalid_argument;
  if (is_missing(in, count) || is_missing(out, count)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || count == 0) {
    copy(out, in, count * size_of(type));
    return skip(*state_, request);
  }
  request = launch_ring(
      *state_,
      {.kind = CollectiveKind::reduce_scatter, .type = type, .op = reduction.op, .count = count},
      {.collective = Collective::reduce_scatter,
       .count = count,
       .element_bytes = size_of(type),
       .type = type,
       .reduction = reduction,
       .in = bytes_of(in),
       .out = bytes_of(out)});
  return Status::ok;
}

Status Communicator::reduce_scatter_v(const void* in, std::span<const Segment> blocks, void* out,
                                      DataType type, const Reduction& reduction, Request& request) {
  if (!is_possible(type, reduction)) return Status::invalid_argument;
  if (!are_blocks(blocks, ranks(), kMaxBufferBytes / ranks(), size_of(type))) {
    return Status::invalid_argument;
  }
  if (is_missing(in, are_empty(blocks) ? 0 : 1)) return Status::invalid_argument;
  if (is_missing(out, blocks[rank()].bytes)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || are_empty(blocks)) {
    copy(out, in, blocks[rank()].bytes, 0, blocks[rank()].offset);
    return skip(*state_, request);
  }
  request = launch_ring(*state_,
                        {.kind = CollectiveKind::reduce_scatter,
                         .type = type,
                         .op = reduction.op,
                         .lengths = digest_of(blocks)},
                        {.collective = Collective::reduce_scatter,
                         .blocks = blocks,
                         .element_bytes = size_of(type),
                         .type = type,
                         .reduction = reduction,
                         .in = bytes_of(in),
                         .out = bytes_of(out)});
  return Status::ok;
}

Status Communicator::all_gather(const void* in, void* out, std::uint64_t bytes, Request& request) {
  if (bytes > kMaxBufferBytes / ranks()) return Status::invalid_argument;
  if (is_missing(in, bytes) || is_missing(out, bytes)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    return skip(*state_, request);
  }
  request = launch_ring(*state_, {.kind = CollectiveKind::all_gather, .count = bytes},
                        {.collective = Collective::all_gather,
                         .count = bytes,
                         .in = bytes_of(in),
                         .out = bytes_of(out)});
  return Status::ok;
}

Status Communicator::all_gather_v(const void* in, void* out, std::span<const Segment> blocks,
                                  Request& request) {
  if (!are_blocks(blocks, ranks(), kMaxBufferBytes / ranks(), 1)) return Status::invalid_argument;
  if (is_missing(in, blocks[rank()].bytes)) return Status::invalid_argument;
  if (is_missing(out, are_empty(blocks) ? 0 : 1)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || are_empty(blocks)) {
    copy(out, in, blocks[rank()].bytes, blocks[rank()].offset);
    return skip(*state_, request);
  }
  request = launch_ring(*state_, {.kind = CollectiveKind::all_gather, .lengths = digest_of(blocks)},
                        {.collective = Collective::all_gather,
                         .blocks = blocks,
                         .in = bytes_of(in),
                         .out = bytes_of(out)});
  return Status::ok;
}

Status Communicator::all_to_all(const void* in, void* out, std::uint64_t bytes, Request& request) {
  if (bytes > kMaxMessageBytes) return Status::invalid_argument;
  if (is_missing(in, bytes) || is_missing(out, bytes)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    return skip(*state_, request);
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.kind = CollectiveKind::all_to_all,
                            .in_place = in == out,
                            .count = bytes,
                            .options = digest_of(options)},
                           ExchangePlan({.rank = rank(),
                                         .ranks = ranks(),
                                         .in = bytes_of(in),
                                         .out = bytes_of(out),
                                         .block_bytes = bytes,
                                         .chunk_bytes = options.chunk_bytes,
                                         .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::all_to_all_v(const void* in, std::span<const Segment> to, void* out,
                                  std::span<const Segment> from, Request& request) {
  if (!are_blocks(to, ranks(), kMaxMessageBytes, 1)) return Status::invalid_argument;
  if (!are_blocks(from, ranks(), kMaxMessageBytes, 1)) return Status::invalid_argument;
  if (to[rank()].bytes != from[rank()].bytes) return Status::invalid_argument;
  const bool sends = !are_empty(to);
  const bool receives = !are_empty(from);
  if (is_missing(in, sends ? 1 : 0) || is_missing(out, receives ? 1 : 0)) {
    return Status::invalid_argument;
  }
  if (in == out && in != nullptr && (sends || receives)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  // Even if all lengths here are 0, other ranks may exchange data. Only a single rank needs no
  // plan.
  if (ranks() == 1) {
    copy(out, in, to[0].bytes, from[0].offset, to[0].offset);
    return skip(*state_, request);
  }
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.kind = CollectiveKind::all_to_all, .options = digest_of(options)},
                           ExchangePlan({.rank = rank(),
                                         .ranks = ranks(),
                                         .in = bytes_of(in),
                                         .out = bytes_of(out),
                                         .to = to,
                                         .from = from,
                                         .chunk_bytes = options.chunk_bytes,
                                         .depth = options.pipeline}));
  return Status::ok;
}

Status Communicator::broadcast(void* data, std::uint64_t bytes, Rank root, Request& request) {
  if (bytes > kMaxBufferBytes || root >= ranks()) return Status::invalid_argument;
  if (is_missing(data, bytes)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) return skip(*state_, request);
  const CommunicatorOptions& options = state_->options();
  request = state_->launch({.kind = CollectiveKind::broadcast,
                            .root = root,
                            .count = bytes,
                            .options = digest_of(options)},
                           BroadcastPlan({.rank = rank(),
                                          .ranks = ranks(),
                                          .root = root,
                                          .data = bytes_of(data),
                                          .bytes = bytes,
                                          .chunk_bytes = options.chunk_bytes}));
  return Status::ok;
}

Status Communicator::gather(const void* in, void* out, std::uint64_t bytes, Rank root,
                            Request& request) {
  if (bytes > kMaxMessageBytes || root >= ranks()) return Status::invalid_argument;
  if (is_missing(in, bytes) || (root == rank() && is_missing(out, bytes))) {
    return Status::invalid_argument;
  }
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    return skip(*state_, request);
  }
  request = launch_rooted(*state_, {.kind = CollectiveKind::gather, .root = root, .count = bytes},
                          {.to_root = true,
                           .root = root,
                           .in = bytes_of(in),
                           .out = bytes_of(out),
                           .block_bytes = bytes});
  return Status::ok;
}

// Checks what a root gives to a gather or scatter with lengths: blocks, long buffer, own length.
bool Communicator::is_right_at_root(std::span<const Segment> blocks, const void* buffer,
                                    std::uint64_t bytes) const noexcept {
  return are_blocks(blocks, ranks(), kMaxMessageBytes, 1) && blocks[rank()].bytes == bytes &&
         !is_missing(buffer, are_empty(blocks) ? 0 : 1);
}

Status Communicator::gather_v(const void* in, std::uint64_t bytes, void* out,
                              std::span<const Segment> blocks, Rank root, Request& request) {
  if (bytes > kMaxMessageBytes || root >= ranks()) return Status::invalid_argument;
  if (is_missing(in, bytes)) return Status::invalid_argument;
  if (root == rank() && !is_right_at_root(blocks, out, bytes)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1) {
    copy(out, in, bytes, blocks[0].offset);
    return skip(*state_, request);
  }
  request = launch_rooted(*state_, {.kind = CollectiveKind::gather, .root = root},
                          {.to_root = true,
                           .root = root,
                           .in = bytes_of(in),
                           .out = bytes_of(out),
                           .block_bytes = bytes,
                           .has_lengths = true,
                           .blocks = root == rank() ? blocks : std::span<const Segment>()});
  return Status::ok;
}

Status Communicator::scatter(const void* in, void* out, std::uint64_t bytes, Rank root,
                             Request& request) {
  if (bytes > kMaxMessageBytes || root >= ranks()) return Status::invalid_argument;
  if (is_missing(out, bytes) || (root == rank() && is_missing(in, bytes))) {
    return Status::invalid_argument;
  }
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1 || bytes == 0) {
    copy(out, in, bytes);
    return skip(*state_, request);
  }
  request = launch_rooted(*state_, {.kind = CollectiveKind::scatter, .root = root, .count = bytes},
                          {.to_root = false,
                           .root = root,
                           .in = bytes_of(in),
                           .out = bytes_of(out),
                           .block_bytes = bytes});
  return Status::ok;
}

Status Communicator::scatter_v(const void* in, std::span<const Segment> blocks, void* out,
                               std::uint64_t bytes, Rank root, Request& request) {
  if (bytes > kMaxMessageBytes || root >= ranks()) return Status::invalid_argument;
  if (is_missing(out, bytes)) return Status::invalid_argument;
  if (root == rank() && !is_right_at_root(blocks, in, bytes)) return Status::invalid_argument;
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1) {
    copy(out, in, bytes, 0, blocks[0].offset);
    return skip(*state_, request);
  }
  request = launch_rooted(*state_, {.kind = CollectiveKind::scatter, .root = root},
                          {.to_root = false,
                           .root = root,
                           .in = bytes_of(in),
                           .out = bytes_of(out),
                           .block_bytes = bytes,
                           .has_lengths = true,
                           .blocks = root == rank() ? blocks : std::span<const Segment>()});
  return Status::ok;
}

Status Communicator::barrier(Request& request) {
  if (const Status status = state_->admit(); status != Status::ok) return status;
  if (ranks() == 1) return skip(*state_, request);
  request =
      state_->launch({.kind = CollectiveKind::barrier, .options = digest_of(state_->options())},
                     BarrierPlan(rank(), ranks()));
  return Status::ok;
}

Status Communicator::send(const void* data, std::uint64_t bytes, Rank to, std::uint32_t tag,
                          Request& request) {
  if (bytes > kMaxMessageBytes || to >= ranks() || to == rank()) return Status::invalid_argument;
  if (is_missing(data, bytes)) return Status::invalid_argument;
  return state_->send(data, bytes, to, tag, request);
}

Status Communicator::receive(void* data, std::uint64_t bytes, Rank from, std::uint32_t tag,
                             Request& request) {
  if (bytes > kMaxMessageBytes || is_missing(data, bytes)) return Status::invalid_argument;
  if (from != kAnyRank && (from >= ranks() || from == rank())) return Status::invalid_argument;
  return state_->receive(data, bytes, from, tag, request);
}

std::span<const std::uint8_t> Communicator::bandwidths() const noexcept {
  const BandwidthOrder* const order = state_->order();
  if (order == nullptr) return {};
  return order->by_rank;
}

Status Communicator::set_bandwidths(std::span<const std::uint8_t> by_rank) {
  return state_->set_bandwidths(by_rank);
}

void Communicator::progress() { router_.progress(); }

Status Communicator::test(const Request& request, Received* received) {
  return state_->test(request, received);
}

Status Communicator::wait(const Request& request, Received* received) {
  for (;;) {
    const Status status = test(request, received);
    if (status != Status::again) return status;
    router_.wait(kWait_ns);
  }
}

bool Communicator::released(const Request& request) const { return state_->released(request); }

void Communicator::abort(Rank failed, Status reason) { state_->abort(failed, reason); }

const Failure* Communicator::failure() const noexcept { return state_->failure(); }

bool Communicator::idle() const noexcept { return state_->idle(); }

}  // namespace hawser::coll
