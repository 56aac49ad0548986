// SPDX-License-Identifier: Apache-2.0
// The workload made concrete for N ranks: element counts, buffers, and batches that fit in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tool/workload/groups.hpp"
#include "tool/workload/model.hpp"

namespace hawser::tool {

// A phase as every rank will run it. Sizes are rounded up to whole elements. Collectives that
// divide their buffer among the group round up to a multiple of its size.
struct Task {
  Operation operation = Operation::all_reduce;
  GroupKind group = GroupKind::world;
  DataType type = DataType::f32;
  Split split = Split::even;
  Place place = Place::as_usual;
  std::uint32_t pair = 0;
  std::uint32_t index = 0;     // among all tasks of the run
  std::uint64_t elements = 0;  // of what Phase::bytes measures
  std::uint64_t block_bytes = 0;
  std::uint32_t words = 0;
  std::uint32_t experts = 0;
  std::string stage;

  [[nodiscard]] std::uint64_t bytes() const { return elements * bytes_of(type); }
  [[nodiscard]] bool is_in_place() const;
};

// Popular experts draw up to four times the tokens of unpopular ones. Load-balancing losses leave
// imbalances of that order (Lepikhin et al., arXiv 2006.16668, cap at capacity factor 2).
inline constexpr std::uint64_t kMinWeight = 256;
inline constexpr std::uint64_t kMaxWeight = 1024;

// How many elements each rank of a group sends to each other in an all_to_all.
class SplitTable {
 public:
  // The table of a task in one step, for the group whose first rank is `group`; the same on every
  // rank.
  SplitTable(const Task& task, std::uint32_t size, std::uint64_t seed, std::uint32_t step,
             std::uint32_t group);
  [[nodiscard]] std::uint64_t elements(std::uint32_t from, std::uint32_t to) const {
    return counts_[std::size_t{from} * size_ + to];
  }
  [[nodiscard]] std::uint64_t sent(std::uint32_t from) const;
  [[nodiscard]] std::uint64_t received(std::uint32_t to) const;

 private:
  std::uint32_t size_;
  std::vector<std::uint64_t> counts_;
};

// splitmix64 (Steele, Lea, Flood 2014).
[[nodiscard]] std::uint64_t next_random(std::uint64_t& state);
[[nodiscard]] std::uint64_t divide_up(std::uint64_t a, std::uint64_t b);
// a * b / c, rounded up. Overflows only if the result does, or b * c.
[[nodiscard]] std::uint64_t multiply_divide_up(std::uint64_t a, std::uint64_t b, std::uint64_t c);

struct Schedule {
  GroupLayout layout;
  std::vector<Task> init;
  std::vector<Task> step;
  std::vector<std::string> warnings;
};

// Throws InputError if nothing is left to do.
[[nodiscard]] Schedule make_schedule(const Workload& workload, std::uint32_t ranks,
                                     std::uint64_t scale);

// The most bytes that a rank needs for one task's buffers, over all ranks and steps.
[[nodiscard]] std::uint64_t buffer_bytes(const Task& task, const GroupLayout& layout);
[[nodiscard]] std::uint64_t largest_buffer_bytes(const Schedule& schedule);

// About the payload bytes that a rank receives in a task: the measure of progress inside a step.
[[nodiscard]] std::uint64_t expected_receive_bytes(const Task& task, const GroupLayout& layout);

// The bytes of the guards around the buffers of one task, at most (tool/check/task_buffers.hpp).
inline constexpr std::uint64_t kGuardsOfTask = 2048;

// Consecutive tasks whose buffers, and the guards around them, fit in `budget` together. A task
// larger than that stands alone, and so does a one-sided task: its window is the first buffer of
// its batch at every rank.
[[nodiscard]] std::vector<std::span<const Task>> make_batches(std::span<const Task> tasks,
                                                              const GroupLayout& layout,
                                                              std::uint64_t budget);

}  // namespace hawser::tool
