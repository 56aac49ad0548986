// SPDX-License-Identifier: Apache-2.0
// Runs the schedule at one rank: batch by batch it fills buffers, communicates, and verifies.
//
// Only communication is timed. A barrier before it makes sure that no rank waits for another one's
// filling. A barrier behind it makes sure that no rank has to answer while it verifies.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tool/run/buffers.hpp"
#include "tool/run/collectives.hpp"
#include "tool/run/memory.hpp"
#include "tool/run/options.hpp"
#include "tool/run/schedule.hpp"

namespace hawser::tool {

// The size of an arena for the largest batch of a schedule.
[[nodiscard]] std::uint64_t arena_bytes(const Schedule& schedule, std::uint64_t batch_budget);

// The memory that a rank reserves besides its buffers, with default tunables. It uses only a part.
[[nodiscard]] std::uint64_t reserved_bytes(const RunOptions& options, const Schedule& schedule);

// The memory that a rank may use for one batch, out of what the host can give to `local_ranks`.
[[nodiscard]] std::uint64_t batch_budget(const RunOptions& options, const Schedule& schedule,
                                         const MemoryRoom& room, std::uint32_t local_ranks);

class Replay {
 public:
  // All outlive the replay; `arena` outlives the endpoint too. Results go to `result`.
  Replay(const RunOptions& options, const Schedule& schedule, std::uint32_t rank,
         std::uint64_t batch_budget, BufferArena& arena, Monitor& monitor, RankResult& result);

  // Runs from a point to the end: 0 is the set-up, 1 the first step. Discards results of that point
  // and later ones, except for errors that were found. Throws ReplayError when communication fails.
  // Wrong data is only recorded.
  void run(Collectives& collectives, std::uint64_t from);
  // The point where it is, or stopped.
  [[nodiscard]] std::uint64_t point() const { return point_; }

 private:
  struct Mark {
    std::uint64_t verified_bytes = 0;
    std::uint64_t verified_tasks = 0;
    OperationTimes operations;
  };

  void begin_point(std::uint64_t point);
  void run_tasks(std::span<const Task> tasks, std::uint32_t step, double begin, double end);
  void run_batch(std::span<const Task> batch, std::uint32_t step, double begin, double end);
  void communicate(std::span<const Task> batch, const std::vector<TaskBuffers>& buffers,
                   std::uint32_t step, double begin, double end);
  void verify(const std::vector<TaskBuffers>& buffers, std::uint32_t step);
  void note_wrong(const Task& task, std::uint32_t step, std::uint64_t elements, std::string text);
  [[nodiscard]] double cost(std::span<const Task> tasks) const;

  const RunOptions& options_;
  const Schedule& schedule_;
  std::uint32_t rank_;
  std::uint64_t budget_;
  BufferArena& arena_;
  Collectives* collectives_ = nullptr;
  Monitor& monitor_;
  RankResult& result_;
  std::uint64_t point_ = 0;
  std::map<std::uint64_t, Mark> marks_;  // what had been verified when a point began
};

}  // namespace hawser::tool
