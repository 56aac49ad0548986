// SPDX-License-Identifier: Apache-2.0
// Question: what does each mechanism of the protocol buy? Metric: each plan's own metric, as
// shipped and with one mechanism left out (mechanisms.ablations), as a ratio. A ratio above 1 means
// that the mechanism helps. Runtime: that of the plans, once more for each mechanism.
// docs/lab/ablations.md has the table and the command that makes it.
//
// Each run is a process of its own, in which one edit is switched on. With no edit on, the protocol
// is the one that `hawser sim` runs, and the digests are the same.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sim/experiment/trial.hpp"
#include "tool/interrupt.hpp"
#include "tool/run/memory.hpp"
#include "tool/sim/inputs.hpp"
#include "tool/sim/options.hpp"
#include "tool/sim/plan_json.hpp"
#include "tool/sim/runs.hpp"

namespace hawser {

// The edited copy of proto/ reads here which edit is switched on (test/mutation/mutant.hpp).
std::uint32_t mutant_on = 0;
bool mutant_reached = false;

namespace {

using experiment::Metric;
using experiment::Plan;
using tool::RunResult;

struct Ablation {
  std::uint32_t number = 0;
  const char* name = "";
  const char* table = "";
  const char* where = "";
  const char* what = "";
  const char* tags = "";
  const char* unused = "";
  std::vector<std::uint64_t> seeds;
};

const std::vector<Ablation> kAblations{
#include <mutants.inc>
};

struct Options {
  std::vector<std::string> plans;
  std::vector<std::string> only;
  std::uint64_t seeds = 1;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  std::string csv;
  bool list = false;
};

// A column of the table: one point of a plan.
struct Column {
  std::string name;
  Plan plan;
};

// The results of one ablation in one column. A run that ended without a result is missing.
struct Cell {
  std::vector<double> values;
  std::vector<std::uint64_t> digests;
  std::size_t runs = 0;

  [[nodiscard]] std::optional<double> median() const {
    if (values.empty() || values.size() < runs) return std::nullopt;
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    return sorted[(sorted.size() - 1) / 2];
  }
};
using Row = std::vector<Cell>;  // one cell for each column

std::vector<Column> read_columns(const Options& options) {
  std::vector<Column> columns;
  for (const std::string& file : options.plans) {
    for (Plan& plan : tool::read_plans(file)) {
      std::string name = tool::default_folder(file);
      for (const std::string& value : plan.values) name += " " + value;
      columns.push_back({name, std::move(plan)});
    }
  }
  return columns;
}

// The first entry is the protocol as shipped, with no ablation.
std::vector<Ablation> chosen(const Options& options) {
  std::vector<Ablation> some(1);
  for (const std::string& name : options.only) {
    if (std::ranges::none_of(kAblations, [&](const Ablation& one) { return one.name == name; })) {
      throw std::runtime_error("there is no ablation '" + name + "'; --list names them");
    }
  }
  for (const Ablation& one : kAblations) {
    const bool asked =
        options.only.empty() || std::ranges::find(options.only, one.name) != options.only.end();
    if (asked) some.push_back(one);
  }
  return some;
}

std::string value_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.5g}", *value) : std::string("none");
}

// The factor by which the metric is worse without the mechanism. A metric that is zero or missing
// in either run has no ratio, so the plain value is shown.
std::string cell_text(Metric metric, const Cell& shipped, const Cell& without) {
  if (without.digests == shipped.digests) return "=";
  const auto with = shipped.median();
  const auto now = without.median();
  if (!with || !now) return value_text(now);
  if (*with == 0 || *now == 0) return value_text(now);
  return fmt::format("{:.3f}", experiment::more_is_better(metric) ? *with / *now : *now / *with);
}

void print_table(const std::vector<Column>& columns, const std::vector<Ablation>& ablations,
                 const std::vector<Row>& rows) {
  std::string head = "| |";
  std::string line = "|---|";
  std::string shipped = "| as shipped |";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    head += fmt::format(" {}: {} |", columns[i].name, name_of(columns[i].plan.metric));
    line += "--:|";
    shipped += fmt::format(" {} |", value_text(rows[0][i].median()));
  }
  fmt::print("{}\n{}\n{}\n", head, line, shipped);
  for (std::size_t row = 1; row < rows.size(); ++row) {
    std::string text = fmt::format("| `{}` [{}] |", ablations[row].name, ablations[row].tags);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      text += fmt::format(" {} |", cell_text(columns[i].plan.metric, rows[0][i], rows[row][i]));
    }
    fmt::print("{}\n", text);
  }
}

std::string csv_line(const Column& column, const Ablation& ablation, const RunResult& result) {
  const experiment::TrialNumbers& n = result.trial.numbers;
  const auto value = result.failure.empty() ? n.value(column.plan.metric) : std::nullopt;
  return fmt::format("{},hawser{}{},{},{},{},{},{},{:016x}\n", column.name,
                     ablation.number == 0 ? "" : ":", ablation.name, result.name.seed,
                     value ? fmt::format("{:.6f}", *value) : std::string(), n.data_packets,
                     n.retransmitted, n.dropped, n.digest);
}

int run(const Options& options) {
  const std::vector<Column> columns = read_columns(options);
  const std::vector<Ablation> ablations = chosen(options);
  std::vector<tool::RunName> names;
  std::uint64_t memory_mb = 1;
  for (std::size_t column = 0; column < columns.size(); ++column) {
    const Plan& plan = columns[column].plan;
    memory_mb = std::max(memory_mb, plan.memory_mb);
    const std::uint64_t seeds = std::min(options.seeds, plan.judge.count());
    for (std::size_t row = 0; row < ablations.size(); ++row) {
      for (std::uint64_t i = 0; i < seeds; ++i)
        names.push_back({column, row, plan.judge.first + i});
    }
  }
  std::vector<Row> rows(ablations.size(), Row(columns.size()));
  std::ofstream csv;
  if (!options.csv.empty()) {
    csv.open(options.csv);
    csv << "plan,sender,seed,value,data_packets,retransmitted,dropped,digest\n";
  }
  const tool::Work work = [&](const tool::RunName& name) {
    mutant_on = ablations[name.sender].number;
    return experiment::run_trial(columns[name.point].plan, "hawser", name.seed);
  };
  const auto take = [&](RunResult&& result) {
    Cell& cell = rows[result.name.sender][result.name.point];
    ++cell.runs;
    const Column& column = columns[result.name.point];
    if (!result.failure.empty()) {
      fmt::print(stderr, "{}, {}: died: {}\n", column.name, ablations[result.name.sender].name,
                 result.failure);
    } else {
      cell.digests.push_back(result.trial.numbers.digest);
      const auto value = result.trial.numbers.value(column.plan.metric);
      if (value) cell.values.push_back(*value);
    }
    if (csv.is_open()) csv << csv_line(column, ablations[result.name.sender], result) << std::flush;
  };
  const std::uint64_t fit = tool::available_memory_bytes() / (memory_mb * 1'000'000);
  const auto jobs = static_cast<unsigned>(std::clamp<std::uint64_t>(fit, 1, options.jobs));
  const tool::RunsEnd end = tool::run_all(names, work, jobs, tool::interrupted, stderr, take);
  if (end.interrupted) {
    fmt::print(stderr, "interrupted after {} of {} runs\n", end.done, names.size());
    return 130;
  }
  print_table(columns, ablations, rows);
  return 0;
}

}  // namespace
}  // namespace hawser

int main(int argc, char** argv) {
  using namespace hawser;
  Options options;
  CLI::App app("Runs plans with one mechanism of the protocol left out at a time.");
  app.add_option("PLAN", options.plans,
                 "plans as hawser sim takes them; their senders are not run");
  app.add_option("--only", options.only, "these ablations only");
  app.add_option("--seeds", options.seeds, "so many of each plan's seeds to judge by")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "number of concurrent runs, each in its own process")
      ->check(CLI::Range(1, 1024));
  app.add_option("--csv", options.csv, "writes each run's numbers there");
  app.add_flag("--list", options.list, "names the ablations and says what each leaves out");
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    for (const Ablation& one : kAblations) fmt::print("{:<26} {}\n", one.name, one.what);
    return 0;
  }
  try {
    tool::catch_interrupts();
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
