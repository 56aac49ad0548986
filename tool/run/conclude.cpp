// SPDX-License-Identifier: Apache-2.0
#include "tool/run/conclude.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tool/attack/attackers.hpp"
#include "tool/error.hpp"
#include "tool/run/summary.hpp"
#include "tool/run/trace_file.hpp"
#include "tool/standard_output.hpp"
#include "tool/utf8.hpp"

namespace hawser::tool {
namespace {

std::string text_of(const std::vector<AttackResult>& attacks, const Summary& summary,
                    ExitCode code) {
  std::uint64_t dropped = 0;
  for (const auto& [reason, packets] : summary.drops) dropped += packets;
  const auto overrun = summary.counters.find("host_overruns");
  return attack_text(attacks, dropped, overrun == summary.counters.end() ? 0 : overrun->second,
                     code == ExitCode::ok);
}

}  // namespace

OutputFile report_file(const RunOptions& options) {
  if (options.json.empty() || options.json == "-") return {};
  return {options.json, "the report"};
}

void check_trace_file(const RunOptions& options, std::uint32_t rank) {
  if (options.trace.empty()) return;
  const std::string name = trace_file_name(options.trace, rank, 0);
  // The reader of a pipe would take the end of this check for the end of the trace.
  const bool is_writable =
      is_special_file(name) ? ::access(name.c_str(), W_OK) == 0 : can_be_opened(name);
  if (!is_writable) {
    throw InputError(fmt::format("--trace {}: cannot write '{}'", options.trace, name));
  }
}

std::string not_in_time(const RunOptions& options) {
  return fmt::format("not finished within {} s (--timeout)", options.timeout_s);
}

std::string opening(const RunOptions& options, const Schedule& schedule) {
  std::uint64_t bytes = 0;
  for (const Task& task : schedule.step) bytes += task.bytes();
  std::string text = fmt::format("{} x {}, {}, {} of {}, {}", counted(options.ranks, "rank"),
                                 counted(options.nics, "NIC"), options.name_of_workload(),
                                 counted(options.steps, "step"),
                                 counted(schedule.step.size(), "collective"), bytes_text(bytes));
  if (options.scale > 1) text += fmt::format(" (sizes divided by {})", options.scale);
  if (!options.lasting_faults.empty()) text += fmt::format(", {}", options.lasting_faults);
  for (const std::string& note : options.nic_notes) text += "\n" + note;
  for (const std::string& warning : schedule.warnings) text += "\nwarning: " + warning;
  return text;
}

ExitCode conclude(const RunOptions& options, const OutputFile& file, const Schedule& schedule,
                  const std::vector<RankResult>& results, ExitCode code, double wall_s,
                  const std::vector<AttackResult>& attacks) {
  const Summary summary = summarize(options, schedule, results);
  const bool right = summary.wrong.empty();
  if (!right && code != ExitCode::interrupted) code = ExitCode::wrong;
  // A report on standard output must be alone there.
  std::FILE* const out = options.json == "-" ? stderr : stdout;
  if (summary.complete || summary.begun || !right) print_to(out, "\n{}", to_text(summary, options));
  if (!attacks.empty()) print_to(out, "{}", text_of(attacks, summary, code));
  print_to(out, "{:.1f} s in all\n", wall_s);
  std::fflush(out);
  if (options.json.empty()) return code;
  nlohmann::json report = to_json(summary, options, results, wall_s, static_cast<int>(code));
  report["attacks"] = attacks;
  const std::string text = json_text(report, 2) + "\n";
  if (options.json == "-") std::cout << text;
  return with_report(code, try_writing([&] { file.write(text); }));
}

}  // namespace hawser::tool
