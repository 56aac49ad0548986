// SPDX-License-Identifier: Apache-2.0
// The summary of a run: the results of all ranks in one report, for people and as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tool/run/fault_plan.hpp"
#include "tool/run/fault_report.hpp"
#include "tool/run/microbenchmark_table.hpp"
#include "tool/run/options.hpp"
#include "tool/run/report.hpp"
#include "tool/run/schedule.hpp"

namespace hawser::tool {

// Times of one operation's collectives in one part of the run. A collective's time is that of the
// rank that took longest.
struct TimeRow {
  Operation operation = Operation::all_reduce;
  When when = When::before;
  std::size_t n = 0;
  std::uint64_t p50_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t longest_ns = 0;
  double algorithm_bytes_per_s = 0;  // bytes of the collectives over their times
  double bus_bytes_per_s = 0;        // the same, times bus_factor()
};

// One-sided operations of one kind in one part of the run, of all ranks.
struct OperationRow {
  OneSidedKind kind = OneSidedKind::write;
  When when = When::before;
  std::uint64_t n = 0;
  std::uint64_t p50_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t longest_ns = 0;
  double per_s = 0;  // over the times of the part's one-sided tasks
};

// The NIC with the same number at all ranks.
struct NicRow {
  NicSample sum;                          // counters added up, srtt_ns the mean of those known
  std::array<std::uint32_t, 4> states{};  // by PathState
  std::vector<std::string> names;         // by rank, of those that have it
};

// "NIC 0 is of several networks: 10.0.0.x at ranks 0, 1; 10.0.1.x at rank 2", a line. Empty if it
// is of one network, as far as names tell. The names are addresses without their last part, or
// devices of RDMA ports. All loopback addresses count as one.
[[nodiscard]] std::string networks_text(std::size_t index, const NicRow& row);

struct Summary {
  bool complete = false;  // every rank finished
  bool begun = false;     // a rank of which there is a report had begun
  // For people: where the ranks were, those farthest behind first; empty if all finished.
  std::vector<std::string> positions;
  std::vector<std::string> wrong;  // why the run is not right; empty if it is
  std::vector<TimeRow> times;
  std::vector<MicrobenchmarkRow> microbenchmark;  // instead of `times`, if that is what ran
  std::vector<OperationRow> operations;
  std::array<Stall, 3> stalls{};  // the longest of all ranks, by When
  std::array<std::uint32_t, 3> stall_ranks{};
  std::map<std::string, std::uint64_t> counters;  // of all ranks
  std::map<std::string, std::uint64_t> drops;
  std::uint64_t verified_bytes = 0;
  std::uint64_t verified_tasks = 0;
  std::uint64_t fragment_bytes_least = 0;  // of all sessions; 0: there were none
  std::uint64_t fragment_bytes_most = 0;
  std::uint64_t session_bytes_most = 0;  // as agreed at a session's begin
  std::vector<std::uint8_t> bandwidths;  // by which all-reduces were divided at the end, by rank
  std::vector<NicRow> nics;
  FaultReport faults;
  std::vector<std::string> recoveries;  // for people: which rank was back, and how long it took
  double communication_s = 0;           // of the rank that communicated longest
  double check_s = 0;
  double setup_s = 0;
  std::uint64_t peak_memory_bytes = 0;  // all ranks together
};

// The nearest-rank percentile of values in ascending order; 0 if there are none.
[[nodiscard]] std::uint64_t percentile(const std::vector<std::uint64_t>& ascending, double percent);

// The part of the run in which each task of each step falls; the same on every rank.
[[nodiscard]] std::vector<When> whens_of_tasks(const RunOptions& options, const Schedule& schedule);
// How many tasks of the steps, at most `all`, every rank has finished.
[[nodiscard]] std::size_t tasks_finished_by_all(const std::vector<RankResult>& results,
                                                std::size_t all);

// Bytes that each rank must send per byte of the collective, as nccl-tests define
// bus bandwidth.
[[nodiscard]] double bus_factor(Operation operation, std::uint32_t ranks);

[[nodiscard]] std::vector<NicRow> add_up_nics(
    const std::vector<const std::vector<NicSample>*>& ranks);

[[nodiscard]] Summary summarize(const RunOptions& options, const Schedule& schedule,
                                const std::vector<RankResult>& results);

// The report that a run ends with.
[[nodiscard]] std::string to_text(const Summary& summary, const RunOptions& options);
[[nodiscard]] nlohmann::json to_json(const Summary& summary, const RunOptions& options,
                                     const std::vector<RankResult>& results, double wall_s,
                                     int exit_code);

// "1 step", "2 steps"
[[nodiscard]] std::string counted(std::uint64_t n, std::string_view what);
// "12.3 ms", "1.25 GB"
[[nodiscard]] std::string duration_text(std::uint64_t ns);
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
// A table row of a NIC, with its rate.
[[nodiscard]] std::string nic_table_head();
[[nodiscard]] std::string nic_table_row(std::size_t index, const NicRow& row, double bits_per_s);

}  // namespace hawser::tool
