// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic/training.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "sim/traffic/collectives.hpp"
#include "sim/traffic/triggers.hpp"

namespace hawser::fabric {

namespace {

using What = Operation::What;
constexpr std::size_t kAxes = static_cast<std::size_t>(Axis::all) + 1;

std::string at_line(const Operation& operation) {
  return operation.line == 0 ? "" : "line " + std::to_string(operation.line) + ": ";
}

bool joins_stages(const Operation& operation, std::size_t stages) {
  if (operation.what != What::collective || stages == 1) return false;
  return operation.axis == Axis::pipeline || operation.axis == Axis::embedding ||
         operation.axis == Axis::all;
}

// The places of ranks in the grid of parallelism.
class Grid {
 public:
  Grid(const Workload& workload, const Mapping& mapping)
      : stages_(static_cast<std::uint32_t>(workload.stages.size())) {
    ranks_ = mapping.ranks > 0 ? mapping.ranks : workload.ranks;
    tensor_ = std::max(mapping.tensor > 0 ? mapping.tensor : workload.tensor, 1u);
    expert_ = std::max(mapping.expert > 0 ? mapping.expert : workload.expert, 1u);
    if (ranks_ == 0) {
      throw InputError("the workload doesn't state its number of ranks: give it in the plan");
    }
    const std::uint64_t part = std::uint64_t{tensor_} * stages_;
    if (ranks_ % part != 0) {
      throw InputError(std::to_string(ranks_) + " ranks can't be divided among " +
                       std::to_string(stages_) + " stages of tensor groups of " +
                       std::to_string(tensor_) + ": take a multiple of " + std::to_string(part));
    }
    data_ = static_cast<std::uint32_t>(ranks_ / part);
    if (data_ % expert_ != 0) {
      throw InputError("data groups have " + std::to_string(data_) + " ranks (" +
                       std::to_string(ranks_) + " / " + std::to_string(part) +
                       "), which are no multiple of expert groups of " + std::to_string(expert_));
    }
  }

  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t stages() const { return stages_; }
  std::uint32_t per_stage() const { return tensor_ * data_; }

  // The groups of an axis. They are those of all stages if the groups go through stages, else those
  // of this stage. A rank's other coordinates decide in which group it is.
  std::vector<std::vector<std::uint32_t>> groups(Axis axis, std::uint32_t stage) const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> groups;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      const std::uint32_t tensor = rank % tensor_;
      const std::uint32_t data = rank / tensor_ % data_;
      const std::uint32_t of_stage = rank / per_stage();
      const bool is_end = of_stage == 0 || of_stage + 1 == stages_;
      const bool is_through = axis == Axis::pipeline || axis == Axis::all;
      if (axis == Axis::embedding ? !is_end : !is_through && of_stage != stage) continue;
      groups[key(axis, tensor, data)].push_back(rank);
    }
    std::vector<std::vector<std::uint32_t>> all;
    for (auto& [key, group] : groups) all.push_back(std::move(group));
    return all;
  }

 private:
  std::uint32_t key(Axis axis, std::uint32_t tensor, std::uint32_t data) const {
    switch (axis) {
      case Axis::tensor: return data;
      case Axis::data: return tensor;
      case Axis::expert: return data / expert_ * tensor_ + tensor;
      case Axis::data_of_expert: return data % expert_ * tensor_ + tensor;
      case Axis::expert_tensor: return data / expert_;
      case Axis::pipeline:
      case Axis::embedding: return data * tensor_ + tensor;
      case Axis::all: break;
    }
    return 0;
  }

  std::uint32_t stages_;
  std::uint32_t ranks_ = 0;
  std::uint32_t tensor_ = 1;
  std::uint32_t expert_ = 1;
  std::uint32_t data_ = 1;
};

class TrainingMaker {
 public:
  TrainingMaker(const Workload& workload, const Mapping& mapping)
      : workload_(workload),
        mapping_(mapping),
        grid_(workload, mapping),
        builder_(grid_.ranks()),
        next_(workload.stages.size(), 0) {
    for (auto& moments : beside_) moments.assign(grid_.ranks(), kBegin);
  }

  // Stages go on as far as they can by themselves; where a group goes through stages, all of them
  // must have come to it.
  ConnectionMatrix make() {
    for (;;) {
      for (std::uint32_t stage = 0; stage < grid_.stages(); ++stage) run(stage);
      std::vector<std::uint32_t> waiting;
      for (std::uint32_t stage = 0; stage < grid_.stages(); ++stage) {
        if (operation(stage) != nullptr) waiting.push_back(stage);
      }
      if (waiting.empty()) break;
      meet(waiting);
    }
    for (const auto& [pair, moments] : awaited_) {
      if (moments.empty()) continue;
      throw InputError("rank " + std::to_string(pair.second) + " awaits more messages from rank " +
                       std::to_string(pair.first) + " than that one sends: cut elsewhere");
    }
    return std::move(builder_).finish();
  }

 private:
  using Groups = std::vector<std::vector<std::uint32_t>>;
  const Groups& groups(Axis axis, std::uint32_t stage) {
    const auto [found, is_new] = groups_.try_emplace({axis, stage});
    if (is_new) found->second = grid_.groups(axis, stage);
    return found->second;
  }

  const Operation* operation(std::uint32_t stage) const {
    const std::vector<Operation>& program = workload_.stages[stage];
    return next_[stage] < program.size() ? &program[next_[stage]] : nullptr;
  }

  void run(std::uint32_t stage) {
    while (const Operation* const one = operation(stage)) {
      if (joins_stages(*one, grid_.stages())) return;
      if (one->what == What::send || one->what == What::receive) {
        exchange(stage);
        continue;
      }
      if (one->what == What::collective) {
        for (const auto& group : groups(one->axis, stage)) collective(*one, group);
      } else {
        for_ranks(stage, *one);
      }
      ++next_[stage];
    }
  }

  void for_ranks(std::uint32_t stage, const Operation& one) {
    const Span span{one.span.ps / static_cast<std::int64_t>(mapping_.shrink)};
    for (std::uint32_t i = 0; i < grid_.per_stage(); ++i) {
      const std::uint32_t rank = stage * grid_.per_stage() + i;
      if (one.what == What::join) {
        Moment all = builder_.ready(rank);
        for (auto& moments : beside_) {
          all = builder_.both(all, std::exchange(moments[rank], kBegin));
        }
        builder_.set_ready(rank, all);
      } else if (one.beside) {
        Moment& moment = beside(one.axis)[rank];
        moment = builder_.later(builder_.both(moment, builder_.ready(rank)), span);
      } else {
        builder_.compute(rank, span);
      }
    }
  }

  // All stages of the first one's group must be at the same operation.
  void meet(const std::vector<std::uint32_t>& waiting) {
    const Operation& one = *operation(waiting.front());
    std::vector<std::uint32_t> stages;
    for (std::uint32_t stage = 0; stage < grid_.stages(); ++stage) {
      const bool is_end = stage == 0 || stage + 1 == grid_.stages();
      if (one.axis == Axis::embedding && !is_end) continue;
      const Operation* const other = operation(stage);
      if (other == nullptr || other->axis != one.axis || other->collective != one.collective ||
          other->bytes != one.bytes || other->root != one.root || other->to_root != one.to_root ||
          other->beside != one.beside) {
        throw InputError(at_line(one) + "stage " + std::to_string(waiting.front()) +
                         " waits here for all stages of the group, but stage " +
                         std::to_string(stage) + " doesn't do the same" +
                         (other == nullptr ? "" : " in line " + std::to_string(other->line)) +
                         ": cut elsewhere");
      }
      stages.push_back(stage);
    }
    for (const auto& group : groups(one.axis, 0)) collective(one, group);
    for (const std::uint32_t stage : stages) ++next_[stage];
  }

  bool is_within_host(const std::vector<std::uint32_t>& group) const {
    return std::ranges::all_of(group, [&](std::uint32_t rank) {
      return rank / mapping_.ranks_per_host == group.front() / mapping_.ranks_per_host;
    });
  }

  void collective(const Operation& one, const std::vector<std::uint32_t>& group) {
    if (group.size() == 1 || is_within_host(group)) return;
    if (!one.beside) return add(one, group);
    std::vector<Moment> before;
    std::vector<Moment>& moments = beside(one.axis);
    for (const std::uint32_t rank : group) {
      before.push_back(builder_.ready(rank));
      builder_.set_ready(rank, builder_.both(builder_.ready(rank), moments[rank]));
    }
    add(one, group);
    for (std::size_t i = 0; i < group.size(); ++i) {
      moments[group[i]] = builder_.ready(group[i]);
      builder_.set_ready(group[i], before[i]);
    }
  }

  void add(const Operation& one, const std::vector<std::uint32_t>& group) {
    const std::uint64_t bytes = shrunk(one.bytes);
    const std::size_t ranks = group.size();
    switch (one.collective) {
      case Collective::barrier: return add_barrier(builder_, group);
      case Collective::all_reduce:
        if (one.to_root) return add_rooted(one, group, bytes);
        if (bytes > mapping_.short_bytes) break;
        if (bytes > 0) add_doubling(builder_, group, bytes);
        return;
      case Collective::all_to_all: {
        const auto part = [=](std::uint32_t, std::uint32_t to) {
          return part_of(bytes, ranks, to);
        };
        return add_all_to_all(builder_, group, {.bytes = part});
      }
      case Collective::broadcast: return add_rooted(one, group, bytes);
      case Collective::all_gather:
      case Collective::reduce_scatter:
      case Collective::none: break;
    }
    if (bytes > 0) add_ring(builder_, group, one.collective, bytes, mapping_.channels);
  }

  // A collective from a root to all, or from all to it.
  void add_rooted(const Operation& one, const std::vector<std::uint32_t>& group,
                  std::uint64_t bytes) {
    if (one.root >= group.size()) {
      throw InputError(at_line(one) +
                       (one.to_root ? "a reduce to rank " : "a broadcast from rank ") +
                       std::to_string(one.root) + " of a group of " + std::to_string(group.size()));
    }
    if (bytes == 0) return;
    if (one.to_root) {
      add_reduce(builder_, group, one.root, bytes);
    } else {
      add_broadcast(builder_, group, one.root, bytes);
    }
  }

  // Sends and receives that follow each other: none waits for another of them.
  void exchange(std::uint32_t stage) {
    const std::uint32_t per_stage = grid_.per_stage();
    std::vector<Moment> done(per_stage);
    for (std::uint32_t i = 0; i < per_stage; ++i) done[i] = builder_.ready(stage * per_stage + i);
    while (const Operation* const one = operation(stage)) {
      if (one->what != What::send && one->what != What::receive) break;
      if (one->next ? stage + 1 == grid_.stages() : stage == 0) {
        throw InputError(at_line(*one) + "stage " + std::to_string(stage) + " of " +
                         std::to_string(grid_.stages()) + " has none " +
                         (one->next ? "after" : "before") + " it");
      }
      const std::uint32_t other = one->next ? stage + 1 : stage - 1;
      for (std::uint32_t i = 0; i < per_stage; ++i) {
        const std::uint32_t rank = stage * per_stage + i;
        const std::uint32_t peer = other * per_stage + i;
        if (one->what == What::send) {
          send(*one, rank, peer);
        } else {
          done[i] = builder_.both(done[i], receive(peer, rank));
        }
      }
      ++next_[stage];
    }
    for (std::uint32_t i = 0; i < per_stage; ++i)
      builder_.set_ready(stage * per_stage + i, done[i]);
  }

  void send(const Operation& one, std::uint32_t from, std::uint32_t to) {
    const std::uint32_t place =
        builder_.send({.from = from,
                       .to = to,
                       .bytes = std::max<std::uint64_t>(1, shrunk(one.bytes)),
                       .after = builder_.ready(from)});
    std::deque<Moment>& awaited = awaited_[{from, to}];
    if (awaited.empty()) return sent_[{from, to}].push_back(place);
    builder_.set_when_received(place, awaited.front());
    awaited.pop_front();
  }

  Moment receive(std::uint32_t from, std::uint32_t to) {
    const Moment moment = builder_.moment();
    std::deque<std::uint32_t>& sent = sent_[{from, to}];
    if (sent.empty()) {
      awaited_[{from, to}].push_back(moment);
    } else {
      builder_.set_when_received(sent.front(), moment);
      sent.pop_front();
    }
    return moment;
  }

  std::uint64_t shrunk(std::uint64_t bytes) const {
    return (bytes + mapping_.shrink - 1) / mapping_.shrink;
  }
  std::vector<Moment>& beside(Axis axis) { return beside_[static_cast<std::size_t>(axis)]; }

  using Pair = std::pair<std::uint32_t, std::uint32_t>;  // from, to
  const Workload& workload_;
  const Mapping& mapping_;
  Grid grid_;
  MatrixBuilder builder_;
  std::vector<std::size_t> next_;  // operation, by stage
  std::map<std::pair<Axis, std::uint32_t>, Groups> groups_;
  std::array<std::vector<Moment>, kAxes> beside_;
  std::map<Pair, std::deque<std::uint32_t>> sent_;  // without a receiver that awaits them yet
  std::map<Pair, std::deque<Moment>> awaited_;      // not sent yet
};

}  // namespace

ConnectionMatrix training(const Workload& workload, const Mapping& mapping) {
  if (workload.stages.empty()) throw InputError("a workload has at least one stage");
  if (mapping.ranks_per_host == 0) throw InputError("a host has at least one rank");
  if (mapping.channels == 0 || mapping.channels > 64) {
    throw InputError("channels are 1 to 64, not " + std::to_string(mapping.channels));
  }
  constexpr std::uint64_t kMostShrink = 1'000'000'000;
  if (mapping.shrink == 0 || mapping.shrink > kMostShrink) {
    throw InputError("shrink is 1 to " + std::to_string(kMostShrink));
  }
  ConnectionMatrix matrix = TrainingMaker(workload, mapping).make();
  if (matrix.connections.empty()) {
    throw InputError(
        "this workload sends nothing over the fabric: each of its groups has one rank, or is "
        "within a host");
  }
  if (waits_for_ever(matrix)) {
    throw InputError("stages of this workload wait for each other in a cycle: cut elsewhere");
  }
  return matrix;
}

}  // namespace hawser::fabric
