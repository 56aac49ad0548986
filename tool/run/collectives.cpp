// SPDX-License-Identifier: Apache-2.0
#include "tool/run/collectives.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "coll/layout.hpp"
#include "tool/run/clock.hpp"

namespace hawser::tool {
namespace {

// How long a failure may take to reach the other ranks.
constexpr std::uint64_t kTellNs = 2'000'000'000;
// The channel of the transfers between stages: coll/ has no collective for them.
constexpr std::uint16_t kShiftChannel = 1;

void copy_blocks(std::span<const Block> blocks, std::vector<coll::Segment>& segments) {
  segments.clear();
  std::transform(blocks.begin(), blocks.end(), std::back_inserter(segments),
                 [](const Block& block) {
                   return coll::Segment{block.offset, block.bytes};
                 });
}

// An id that no other communicator has or had.
std::uint32_t communicator_id(std::uint64_t generation, std::size_t kind) {
  return static_cast<std::uint32_t>(generation * kGroupKinds + kind + 1);
}

bool spans_world(const GroupLayout& layout, GroupKind kind) {
  return layout[kind].size == layout.ranks;
}

RankFailure interruption() {
  RankFailure failure;
  failure.code = ExitCode::interrupted;
  failure.text = "interrupted";
  return failure;
}

}  // namespace

Collectives::Collectives(coll::CompletionRouter& router, const Schedule& schedule,
                         std::uint32_t rank, const std::vector<PeerId>& peers,
                         const RunOptions& options, std::uint64_t generation, Monitor& monitor,
                         const volatile std::sig_atomic_t& interrupted)
    : router_(router),
      layout_(schedule.layout),
      rank_(rank),
      peers_(peers),
      generation_(generation),
      monitor_(monitor),
      interrupted_(interrupted),
      patience_ns_(1'000'000 *
                   (options.tunables.peer_timeout_ms + options.tunables.longest_absence_ms)) {
  std::array<bool, kGroupKinds> used{};
  used[static_cast<std::size_t>(GroupKind::world)] = true;
  for (const auto* tasks : {&schedule.init, &schedule.step}) {
    for (const Task& task : *tasks) {
      if (!spans_world(layout_, task.group)) used[static_cast<std::size_t>(task.group)] = true;
    }
  }
  const auto count = static_cast<std::uint32_t>(std::count(used.begin(), used.end(), true));
  for (std::size_t i = 0; i < kGroupKinds; ++i) {
    const auto kind = static_cast<GroupKind>(i);
    groups_[i].members = layout_.members(kind, rank);
    if (!used[i]) continue;
    coll::CommunicatorConfig config;
    // Groups of a kind do not share endpoints, so the kind is enough of a name.
    config.id = communicator_id(generation, i);
    config.rank = layout_.index_in_group(kind, rank);
    for (const std::uint32_t member : groups_[i].members) config.peers.push_back(peers[member]);
    config.options = coll::CommunicatorOptions::within(options.tunables, count);
    config.options.follow_bandwidths = options.follow_bandwidths;
    config.options.check_bytes = options.check_bytes;
    groups_[i].communicator = std::make_unique<coll::Communicator>(router, config);
  }
}

std::vector<std::uint16_t> Collectives::channels(std::uint64_t generation) {
  std::vector<std::uint16_t> all{kShiftChannel};
  for (std::size_t kind = 0; kind < kGroupKinds; ++kind) {
    all.push_back(coll::channel_of(communicator_id(generation, kind)));
  }
  return all;
}

std::vector<std::uint8_t> Collectives::bandwidths() {
  const std::span<const std::uint8_t> now = communicator(GroupKind::world).bandwidths();
  return {now.begin(), now.end()};
}

void Collectives::give_up() {
  for (const Group& group : groups_) {
    if (group.communicator)
      group.communicator->abort(group.communicator->rank(), Status::cancelled);
  }
  // The receive may have completed, or be too late to cancel: its completion comes in any case.
  if (shift_receive_ != kNoOperation) (void)router_.endpoint().cancel(shift_receive_);
  shift_receive_ = kNoOperation;
  const auto all_told = [&] {
    return std::all_of(groups_.begin(), groups_.end(), [](const Group& group) {
      return !group.communicator || group.communicator->idle();
    });
  };
  const std::uint64_t deadline = now_ns() + kTellNs;
  while (!all_told() && now_ns() < deadline && !interrupted_) router_.wait(kTurnNs);
}

coll::Communicator& Collectives::communicator(GroupKind kind) {
  Group& group = groups_[static_cast<std::size_t>(kind)];
  return group.communicator ? *group.communicator
                            : *groups_[static_cast<std::size_t>(GroupKind::world)].communicator;
}

void Collectives::expose(const Exposure& exposure, OperationTimes& times) {
  one_sided_ = std::make_unique<OneSided>(
      router_, layout_, rank_, peers_, generation_, exposure, times,
      OneSided::Host{[this](std::uint64_t wait_ns) { turn(wait_ns); },
                     [this](std::uint32_t rank, Status status) { fail_with(rank, status); },
                     [] { return now_ns(); }});
  coll::Communicator& world = communicator(GroupKind::world);
  coll::Request request;
  Status status;
  while ((status = world.all_gather(&exposure.keys(), one_sided_->keys().data(),
                                    sizeof(ExposedKeys), request)) == Status::again) {
    turn();
  }
  if (status != Status::ok) fail(GroupKind::world, *world.failure());
  complete(world, GroupKind::world, request);
}

void Collectives::exchange_records(const TaskBuffers& buffers) {
  coll::Communicator& group = communicator(buffers.task().group);
  const std::uint64_t block_bytes = buffers.in().size() / buffers.size();
  coll::Request request;
  Status status;
  while ((status = group.all_to_all(buffers.in().data(), buffers.out().data(), block_bytes,
                                    request)) == Status::again) {
    turn();
  }
  if (status != Status::ok) fail(buffers.task().group, *group.failure());
  complete(group, buffers.task().group, request);
}

std::vector<std::string> Collectives::wrong_counters() const {
  return one_sided_ ? one_sided_->wrong_counters() : std::vector<std::string>();
}

void Collectives::run(const TaskBuffers& buffers) {
  const Task& task = buffers.task();
  if (is_one_sided(task.operation)) return one_sided_->run(buffers, monitor_.when());
  if (task.operation == Operation::shift_next || task.operation == Operation::shift_prev) {
    shift(buffers);
    return;
  }
  coll::Communicator& group = communicator(task.group);
  coll::Request request;
  Status status;
  while ((status = start(buffers, group, request)) == Status::again) turn();
  if (status == Status::invalid_argument) {
    throw ReplayError({ExitCode::wrong, "invalid_argument", std::nullopt,
                       fmt::format("{} was refused: {}", task.stage, to_string(status))});
  }
  if (status != Status::ok) fail(task.group, *group.failure());
  complete(group, task.group, request);
}

Status Collectives::start(const TaskBuffers& buffers, coll::Communicator& group,
                          coll::Request& request) {
  const Task& task = buffers.task();
  const std::byte* const in = buffers.in().data();
  std::byte* const out = buffers.out().data();
  const std::uint64_t block_bytes = task.bytes() / buffers.size();
  const coll::Reduction sum = coll::ReduceOp::sum;
  switch (task.operation) {
    case Operation::all_reduce:
      return group.all_reduce(in, out, task.elements, task.type, sum, request);
    case Operation::reduce_scatter:
      return group.reduce_scatter(in, out, task.elements / buffers.size(), task.type, sum, request);
    case Operation::all_gather: return group.all_gather(in, out, block_bytes, request);
    case Operation::all_to_all:
      if (task.split == Split::even) return group.all_to_all(in, out, block_bytes, request);
      copy_blocks(buffers.to(), to_);
      copy_blocks(buffers.from(), from_);
      return group.all_to_all_v(in, to_, out, from_, request);
    case Operation::broadcast: return group.broadcast(out, task.bytes(), 0, request);
    case Operation::reduce: return group.reduce(in, out, task.elements, task.type, sum, 0, request);
    case Operation::gather: return group.gather(in, out, block_bytes, 0, request);
    case Operation::scatter: return group.scatter(in, out, block_bytes, 0, request);
    case Operation::barrier: return group.barrier(request);
    default: break;
  }
  return Status::invalid_argument;
}

void Collectives::complete(coll::Communicator& group, GroupKind kind,
                           const coll::Request& request) {
  Status status;
  while ((status = group.test(request)) == Status::again) turn();
  if (status != Status::ok) fail(kind, *group.failure());
}

void Collectives::tick() {
  const std::uint64_t now = now_ns();
  if (ticked_ns_ != 0 && now - ticked_ns_ > patience_ns_) returned_ns_ = now;
  ticked_ns_ = now;
  monitor_.tick(now);
}

bool Collectives::was_away() const {
  return returned_ns_ != 0 && now_ns() - returned_ns_ < patience_ns_ + kTellNs;
}

void Collectives::turn(std::uint64_t wait_ns) {
  router_.wait(wait_ns);
  tick();
  if (interrupted_) throw ReplayError(interruption());
  const coll::Communicator& world = communicator(GroupKind::world);
  if (world.failure() != nullptr) fail(GroupKind::world, *world.failure());
}

void Collectives::progress() {
  router_.progress();
  tick();
  if (interrupted_) throw ReplayError(interruption());
}

void Collectives::barrier() {
  coll::Communicator& world = communicator(GroupKind::world);
  coll::Request request;
  while (world.barrier(request) == Status::again) turn();
  complete(world, GroupKind::world, request);
}

void Collectives::shift(const TaskBuffers& buffers) {
  const GroupKind kind = buffers.task().group;
  const Group& group = groups_[static_cast<std::size_t>(kind)];
  Endpoint& endpoint = router_.endpoint();
  const std::uint64_t tag = ++shifts_;
  const auto post = [&](std::optional<std::uint32_t> neighbour, auto call) {
    if (!neighbour) return false;
    Status status;
    while ((status = call(peers_[group.members[*neighbour]])) == Status::again) turn();
    if (status == Status::ok) return true;
    fail(kind, {*neighbour, status, fmt::format("transfer between stages: {}", to_string(status))});
  };
  OperationId operation;
  int pending = 0;
  pending += post(buffers.origin(), [&](PeerId peer) {
    return endpoint.receive({.peer = peer,
                             .channel = kShiftChannel,
                             .tag = tag,
                             .data = buffers.out().data(),
                             .bytes = buffers.out().size()},
                            operation);
  });
  shift_receive_ = pending > 0 ? operation : kNoOperation;
  pending += post(buffers.target(), [&](PeerId peer) {
    return endpoint.send({.peer = peer,
                          .channel = kShiftChannel,
                          .tag = tag,
                          .data = buffers.in().data(),
                          .bytes = buffers.in().size()},
                         operation);
  });
  std::array<Completion, 4> done;
  while (pending > 0) {
    const std::size_t n = router_.take(done);
    for (std::size_t i = 0; i < n; ++i) {
      --pending;
      if (done[i].status == Status::ok) continue;
      const auto peer = std::find(peers_.begin(), peers_.end(), done[i].peer);
      const auto rank = static_cast<std::uint32_t>(peer - peers_.begin());
      fail(GroupKind::world,
           {rank, done[i].status,
            fmt::format("transfer between stages: rank {}: {}", rank, to_string(done[i].status))});
    }
    if (n == 0) turn();
  }
  shift_receive_ = kNoOperation;
}

// A group's texts count its own members; people know the ranks of the run.
std::string Collectives::text_of(GroupKind kind, const coll::Failure& failure,
                                 std::uint32_t peer) const {
  if (peer == rank_ && is_peer_failure(failure.status)) {
    return fmt::format("declared dead by other ranks, which continued without it: {}",
                       to_string(failure.status));
  }
  if (spans_world(layout_, kind)) return failure.text;
  return fmt::format("rank {}: {} ({} group, member {}: {})", peer, to_string(failure.status),
                     to_string(kind), failure.rank, failure.text);
}

// The reason, as far as this rank's own endpoint knows it.
std::string Collectives::why(std::uint32_t peer, Status status) const {
  PeerStats stats;
  const bool known = peer != rank_ && peer < peers_.size() &&
                     router_.endpoint().peer_stats(peers_[peer], stats) == Status::ok;
  if (!known || stats.failure != status || stats.failure_reason == Reason::status) return {};
  return fmt::format(": {}", kReasonTexts[static_cast<std::size_t>(stats.failure_reason)].text);
}

void Collectives::fail_with(std::uint32_t rank, Status status) {
  const coll::Communicator& world = communicator(GroupKind::world);
  if (world.failure() != nullptr) fail(GroupKind::world, *world.failure());
  fail(GroupKind::world,
       {rank, status, fmt::format("one-sided: rank {}: {}", rank, to_string(status))});
}

void Collectives::fail(GroupKind kind, const coll::Failure& failure) {
  tick();
  const Group& group = groups_[static_cast<std::size_t>(kind)];
  RankFailure told;
  told.code = is_peer_failure(failure.status) ? ExitCode::peer_failed : ExitCode::wrong;
  told.status = to_string(failure.status);
  told.peer = failure.rank < group.members.size() ? group.members[failure.rank] : failure.rank;
  // There may be no report: a rank that gave this one up may have ended since.
  if (is_peer_failure(failure.status) && was_away()) told.peer = rank_;
  told.text = text_of(kind, failure, *told.peer) + why(*told.peer, failure.status);
  // The group has told its own members; other ranks hear it in the world. Stay until they have.
  coll::Communicator& world = communicator(GroupKind::world);
  if (world.failure() == nullptr) world.abort(*told.peer, failure.status);
  const std::uint64_t deadline = now_ns() + kTellNs;
  while (!world.idle() && now_ns() < deadline && !interrupted_) router_.wait(kTurnNs);
  throw ReplayError(std::move(told));
}

}  // namespace hawser::tool
