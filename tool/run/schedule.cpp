// SPDX-License-Identifier: Apache-2.0
#include "tool/run/schedule.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "tool/check/word_history.hpp"
#include "tool/error.hpp"
#include "tool/run/transfers.hpp"

namespace hawser::tool {
namespace {

std::vector<Task> make_tasks(const std::vector<Phase>& phases, const GroupLayout& layout,
                             std::uint64_t scale, std::uint32_t& index) {
  std::vector<Task> tasks;
  for (const Phase& phase : phases) {
    const std::uint32_t size = layout[phase.group].size;
    if (size == 1 && layout.ranks > 1) continue;  // a job of one rank has no other groups
    Task task;
    task.operation = phase.operation;
    task.group = phase.group;
    task.type = phase.type;
    task.split = phase.split;
    task.place = phase.place;
    task.pair = phase.pair;
    task.block_bytes = phase.block_bytes;
    task.words = phase.words;
    task.experts = phase.experts;
    task.stage = phase.stage;
    if (phase.operation != Operation::barrier) {
      task.elements = std::max<std::uint64_t>(
          divide_up(divide_up(phase.bytes, scale), bytes_of(phase.type)), 1);
      if (is_divided(task.operation)) task.elements = divide_up(task.elements, size) * size;
    }
    task.index = index++;
    tasks.push_back(std::move(task));
  }
  return tasks;
}

}  // namespace

bool Task::is_in_place() const {
  if (place != Place::as_usual) return place == Place::in_place;
  return operation != Operation::all_to_all && operation != Operation::shift_next &&
         operation != Operation::shift_prev;
}

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t x = (state += 0x9e3779b97f4a7c15u);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }

std::uint64_t multiply_divide_up(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return a / c * b + divide_up(a % c * b, c);
}

SplitTable::SplitTable(const Task& task, std::uint32_t size, std::uint64_t seed, std::uint32_t step,
                       std::uint32_t group)
    : size_(size), counts_(std::size_t{size} * size) {
  if (task.split == Split::even) {
    std::fill(counts_.begin(), counts_.end(), task.elements / size);
    return;
  }
  // Experts are equally popular with all senders; a sender divides its share of tokens.
  std::uint64_t state =
      seed ^ (std::uint64_t{step} << 40) ^ (std::uint64_t{task.pair} << 20) ^ group;
  std::vector<std::uint64_t> weights(size);
  for (std::uint64_t& weight : weights) {
    weight = kMinWeight + next_random(state) % (kMaxWeight - kMinWeight + 1);
  }
  const std::uint64_t total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  for (std::uint32_t from = 0; from < size; ++from) {
    std::uint64_t left = task.elements;
    for (std::uint32_t to = 0; to < size; ++to) {
      const bool last = to + 1 == size;
      // No overflow: elements are below 2^50, weights at most 2^10.
      const std::uint64_t share = last ? left : task.elements * weights[to] / total;
      left -= share;
      const bool answer = task.split == Split::from_expert;
      counts_[answer ? std::size_t{to} * size + from : std::size_t{from} * size + to] = share;
    }
  }
}

std::uint64_t SplitTable::sent(std::uint32_t from) const {
  std::uint64_t sum = 0;
  for (std::uint32_t to = 0; to < size_; ++to) sum += elements(from, to);
  return sum;
}

std::uint64_t SplitTable::received(std::uint32_t to) const {
  std::uint64_t sum = 0;
  for (std::uint32_t from = 0; from < size_; ++from) sum += elements(from, to);
  return sum;
}

Schedule make_schedule(const Workload& workload, std::uint32_t ranks, std::uint64_t scale) {
  Schedule schedule;
  schedule.warnings = workload.warnings;
  schedule.layout = lay_out_groups(workload, ranks, schedule.warnings);
  std::uint32_t index = 0;
  schedule.init = make_tasks(workload.init, schedule.layout, scale, index);
  schedule.step = make_tasks(workload.step, schedule.layout, scale, index);
  if (schedule.step.empty()) {
    throw InputError(fmt::format("workload '{}' has nothing to do for {} rank{}", workload.name,
                                 ranks, ranks == 1 ? "" : "s"));
  }
  return schedule;
}

std::uint64_t buffer_bytes(const Task& task, const GroupLayout& layout) {
  const std::uint64_t size = layout[task.group].size;
  const std::uint64_t copies = task.is_in_place() ? 1 : 2;
  switch (task.operation) {
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::gather:
    case Operation::scatter: return task.bytes() + (copies - 1) * task.bytes() / size;
    case Operation::all_reduce:
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::shift_next:
    case Operation::shift_prev: return copies * task.bytes();
    case Operation::all_to_all:
      if (task.split == Split::even) return copies * task.bytes();
      // One side is even; on the other the most popular expert has this share, with rounding.
      return task.bytes() +
             multiply_divide_up(task.bytes(), size * kMaxWeight,
                                kMaxWeight + (size - 1) * kMinWeight) +
             size * size * bytes_of(task.type);
    case Operation::put:
    case Operation::get: return 2 * task.bytes();
    case Operation::dispatch:
    case Operation::combine:
      return task.bytes() + most_dispatched_bytes(task, layout[task.group].size);
    case Operation::atomics:
      return window_bytes(task, layout) +
             2 * size * atomics_to_each(task, layout[task.group].size) * sizeof(FetchRecord);
    case Operation::barrier: return 0;
  }
  return 0;
}

std::uint64_t largest_buffer_bytes(const Schedule& schedule) {
  std::uint64_t largest = 0;
  for (const auto* tasks : {&schedule.init, &schedule.step}) {
    for (const Task& task : *tasks) {
      largest = std::max(largest, buffer_bytes(task, schedule.layout));
    }
  }
  return largest;
}

std::uint64_t expected_receive_bytes(const Task& task, const GroupLayout& layout) {
  const std::uint64_t size = layout[task.group].size;
  const std::uint64_t others = task.bytes() - task.bytes() / size;
  switch (task.operation) {
    case Operation::all_reduce: return std::max<std::uint64_t>(2 * others, 1);
    case Operation::barrier: return 1;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::shift_next:
    case Operation::shift_prev: return task.bytes();
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
    case Operation::put:
    case Operation::get:
    case Operation::atomics:
    case Operation::dispatch:
    case Operation::combine: break;
  }
  return std::max<std::uint64_t>(others, 1);
}

std::vector<std::span<const Task>> make_batches(std::span<const Task> tasks,
                                                const GroupLayout& layout, std::uint64_t budget) {
  std::vector<std::span<const Task>> batches;
  std::size_t begin = 0;
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::uint64_t bytes = buffer_bytes(tasks[i], layout) + kGuardsOfTask;
    const bool alone =
        is_one_sided(tasks[i].operation) || (i > begin && is_one_sided(tasks[i - 1].operation));
    if (i > begin && (alone || filled + bytes > budget)) {
      batches.push_back(tasks.subspan(begin, i - begin));
      begin = i;
      filled = 0;
    }
    filled += bytes;
  }
  if (begin < tasks.size()) batches.push_back(tasks.subspan(begin));
  return batches;
}

}  // namespace hawser::tool
