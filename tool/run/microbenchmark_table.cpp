// SPDX-License-Identifier: Apache-2.0
#include "tool/run/microbenchmark_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tool/run/clock.hpp"
#include "tool/run/summary.hpp"

namespace hawser::tool {
namespace {

// The iterations of one row in one part of the run.
struct Iterations {
  std::vector<std::uint64_t> longest_ns;  // of all ranks
  double total_ns = 0;                    // of all ranks, added up
  std::uint64_t times = 0;                // of all ranks
  std::uint64_t wrong = 0;
  bool is_verified = true;
};

// By the first task of the iterations, so in the order of the schedule.
using Parts = std::map<std::pair<std::size_t, When>, Iterations>;

std::uint64_t wrong_of(std::size_t task, const std::vector<RankResult>& results) {
  std::uint64_t wrong = 0;
  for (const RankResult& result : results) {
    const auto found = result.wrong_of_task.find(task);
    if (found != result.wrong_of_task.end()) wrong += found->second;
  }
  return wrong;
}

std::uint64_t verified_by_all(const std::vector<RankResult>& results) {
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  for (const RankResult& result : results) all = std::min(all, result.verified_times);
  return all;
}

Parts parts_of(const RunOptions& options, const Schedule& schedule,
               const std::vector<RankResult>& results) {
  const std::vector<When> whens = whens_of_tasks(options, schedule);
  const std::uint64_t of_row = options.microbenchmark->tasks_of_row();
  const std::uint64_t verified = verified_by_all(results);
  Parts parts;
  for (std::size_t i = 0; i < tasks_finished_by_all(results, whens.size()); ++i) {
    const std::size_t task = i % schedule.step.size();
    const std::size_t iteration = task % of_row;
    Iterations& part = parts[{task - iteration, whens[i]}];
    part.wrong += wrong_of(i, results);
    part.is_verified = part.is_verified && i < verified;
    if (iteration < options.microbenchmark->warmup) continue;
    std::uint64_t longest = 0;
    for (const RankResult& result : results) {
      longest = std::max(longest, result.task_ns[i]);
      // A restarted rank has no time of what its former process did.
      part.total_ns += static_cast<double>(result.task_ns[i]);
      part.times += result.task_ns[i] > 0 ? 1 : 0;
    }
    part.longest_ns.push_back(longest);
  }
  return parts;
}

MicrobenchmarkFigures figures_of(Iterations part, const Task& task, std::uint32_t ranks) {
  std::ranges::sort(part.longest_ns);
  MicrobenchmarkFigures figures;
  figures.n = part.longest_ns.size();
  figures.wrong = part.wrong;
  if (!part.is_verified || task.operation == Operation::barrier) figures.wrong.reset();
  if (part.times == 0) return figures;
  figures.mean_ns = part.total_ns / static_cast<double>(part.times);
  figures.p50_ns = percentile(part.longest_ns, 50);
  figures.p99_ns = percentile(part.longest_ns, 99);
  figures.longest_ns = part.longest_ns.back();
  figures.algorithm_bytes_per_s = static_cast<double>(task.bytes()) / (figures.mean_ns / 1e9);
  figures.bus_bytes_per_s = figures.algorithm_bytes_per_s * bus_factor(task.operation, ranks);
  return figures;
}

std::string_view type_text(const MicrobenchmarkRow& row) {
  return reduces(row.operation) ? to_string(row.type) : "bytes";
}

std::string figures_text(const std::optional<MicrobenchmarkFigures>& figures) {
  const std::string wrong = figures && figures->wrong ? std::to_string(*figures->wrong) : "-";
  if (!figures || figures->n == 0) {
    return fmt::format("{:>11}{:>8}{:>8}{:>7}", "-", "-", "-", wrong);
  }
  return fmt::format("{:>11.1f}{:>8.3f}{:>8.3f}{:>7}", figures->mean_ns / 1e3,
                     figures->algorithm_bytes_per_s / 1e9, figures->bus_bytes_per_s / 1e9, wrong);
}

nlohmann::json figures_json(const std::optional<MicrobenchmarkFigures>& figures) {
  if (!figures) return nullptr;
  return {{"n", figures->n},
          {"mean_ns", figures->mean_ns},
          {"p50_ns", figures->p50_ns},
          {"p99_ns", figures->p99_ns},
          {"longest_ns", figures->longest_ns},
          {"algorithm_bytes_per_s", figures->algorithm_bytes_per_s},
          {"bus_bytes_per_s", figures->bus_bytes_per_s},
          {"wrong", figures->wrong ? nlohmann::json(*figures->wrong) : nlohmann::json()}};
}

}  // namespace

std::vector<MicrobenchmarkRow> microbenchmark_rows(const RunOptions& options,
                                                   const Schedule& schedule,
                                                   const std::vector<RankResult>& results) {
  std::vector<MicrobenchmarkRow> rows;
  for (auto& [key, part] : parts_of(options, schedule, results)) {
    const Task& task = schedule.step[key.first];
    const auto is_of_row = [&, when = key.second](const MicrobenchmarkRow& row) {
      return row.operation == task.operation && row.type == task.type && row.when == when &&
             row.bytes == task.bytes();
    };
    auto row = std::ranges::find_if(rows, is_of_row);
    if (row == rows.end()) {
      rows.push_back({task.operation, task.type, key.second, task.bytes(), {}, {}});
      row = rows.end() - 1;
    }
    (task.is_in_place() ? row->in_place : row->out_of_place) =
        figures_of(std::move(part), task, options.ranks);
  }
  return rows;
}

std::string to_text(const std::vector<MicrobenchmarkRow>& rows, bool windows) {
  const auto line = [windows](std::string_view collective, std::string_view type,
                              std::string_view when) {
    return fmt::format("{:<15}{:<7}", collective, type) +
           (windows ? fmt::format("{:<7}", when) : std::string());
  };
  std::string text =
      line("", "", "") + fmt::format("{:>11}{:>34}{:>34}\n", "", "out of place", "in place");
  text += line("collective", "type", "faults") + fmt::format("{:>11}", "bytes");
  for (int place = 0; place < 2; ++place) {
    text += fmt::format("{:>11}{:>8}{:>8}{:>7}", "us", "algbw", "busbw", "wrong");
  }
  text += "\n";
  for (const MicrobenchmarkRow& row : rows) {
    text += line(to_string(row.operation), type_text(row), to_string(row.when)) +
            fmt::format("{:>11}", row.bytes) + figures_text(row.out_of_place) +
            figures_text(row.in_place) + "\n";
  }
  return text + "algbw and busbw are in GB/s; us is the mean time of all ranks and iterations\n";
}

nlohmann::json to_json(const std::vector<MicrobenchmarkRow>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const MicrobenchmarkRow& row : rows) {
    all.push_back({{"operation", to_string(row.operation)},
                   {"type", type_text(row)},
                   {"faults", to_string(row.when)},
                   {"bytes", row.bytes},
                   {"out_of_place", figures_json(row.out_of_place)},
                   {"in_place", figures_json(row.in_place)}});
  }
  return all;
}

}  // namespace hawser::tool
