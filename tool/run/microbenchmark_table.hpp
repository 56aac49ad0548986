// SPDX-License-Identifier: Apache-2.0
// The table of a run of single collectives, with the columns of nccl-tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tool/run/fault_plan.hpp"
#include "tool/run/options.hpp"
#include "tool/run/report.hpp"
#include "tool/run/schedule.hpp"

namespace hawser::tool {

// The measured iterations of one collective, size, type and place.
struct MicrobenchmarkFigures {
  std::size_t n = 0;  // 0: all fell into the warmup, and the other figures are 0
  // As nccl-tests: the mean of all iterations and ranks. The call of a rank that came early
  // includes its waiting for the others.
  double mean_ns = 0;
  std::uint64_t p50_ns = 0;  // of the rank that took longest
  std::uint64_t p99_ns = 0;
  std::uint64_t longest_ns = 0;
  double algorithm_bytes_per_s = 0;
  double bus_bytes_per_s = 0;
  // Elements, or bytes of what is only moved, of all ranks and of the warmup, too. None if there
  // was nothing to check, or not all has been checked.
  std::optional<std::uint64_t> wrong = 0;
};

struct MicrobenchmarkRow {
  Operation operation = Operation::all_reduce;
  DataType type = DataType::f32;
  When when = When::before;
  std::uint64_t bytes = 0;
  std::optional<MicrobenchmarkFigures> out_of_place;
  std::optional<MicrobenchmarkFigures> in_place;
};

// The rows in the order of the schedule, which microbenchmark_workload made. They cover the tasks
// that all ranks have finished.
[[nodiscard]] std::vector<MicrobenchmarkRow> microbenchmark_rows(
    const RunOptions& options, const Schedule& schedule, const std::vector<RankResult>& results);

// `windows`: there were timed faults, so rows differ in `when`, too.
[[nodiscard]] std::string to_text(const std::vector<MicrobenchmarkRow>& rows, bool windows);
[[nodiscard]] nlohmann::json to_json(const std::vector<MicrobenchmarkRow>& rows);

}  // namespace hawser::tool
