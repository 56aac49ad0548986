// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/storm.hpp"

#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/storm/shrink.hpp"
#include "tool/error.hpp"
#include "tool/interrupt.hpp"
#include "tool/output_file.hpp"
#include "tool/standard_output.hpp"
#include "tool/storm/apart.hpp"
#include "tool/storm/commit.hpp"
#include "tool/storm/plan_json.hpp"
#include "tool/storm/report.hpp"
#include "tool/storm/trace.hpp"
#include "tool/utf8.hpp"

namespace hawser::tool {
namespace {

OutputFile figures_file(const StormOptions& options) {
  if (options.json.empty() || options.json == "-") return {};
  return {options.json, "the figures"};
}

// False if the file could not be written, which standard error says.
bool write_figures(const StormOptions& options, const OutputFile& file,
                   const nlohmann::json& json) {
  const std::string text = json_text(json, 2) + "\n";
  if (options.json == "-") fmt::print("{}", text);
  return try_writing([&] { file.write(text); });
}

Wording wording_of(const StormOptions& options) {
  return {options.command, options.repeated, options.swarm_repeated};
}

// A failure takes precedence over how the run ended.
ExitCode exit_code(bool failed, bool was_interrupted) {
  if (failed) return ExitCode::wrong;
  return was_interrupted ? ExitCode::interrupted : ExitCode::ok;
}

ExitCode run_many(const StormOptions& options, const Storm& storm, const OutputFile& figures,
                  std::FILE* out) {
  if (options.swarm.jobs < options.asked_jobs) {
    print_to(out, "{} workers instead of {}: four for each processor\n", options.swarm.jobs,
             options.asked_jobs);
  }
  const SwarmResult result = run_swarm(options.swarm, storm, interrupted, out);
  print_to(out, "{}", to_text(options.swarm, result, wording_of(options)));
  const bool is_written = write_figures(options, figures, to_json(options.swarm, result));
  return with_report(exit_code(result.failures > 0, result.interrupted), is_written);
}

nlohmann::json json_of(const sim::Plan& plan, const ApartOutcome& outcome) {
  nlohmann::json faults = nlohmann::json::object();
  for (std::size_t i = 0; i < sim::kFaultKinds; ++i) {
    if (outcome.faults[i] > 0) faults[std::string(sim::kFaultNames[i])] = outcome.faults[i];
  }
  return {{"commit", commit()},
          {"seed", plan.seed},
          {"verdict", outcome.verdict},
          {"ended", outcome.ended},
          {"interrupted", outcome.interrupted},
          {"digest", fmt::format("{:016x}", outcome.digest)},
          {"packets", outcome.packets},
          {"events", outcome.events},
          {"completions", outcome.completions},
          {"failed_sessions", outcome.failed_sessions},
          {"virtual_ns", outcome.lasted.ns},
          {"seconds", outcome.wall_s},
          {"faults", faults}};
}

std::string describe(const sim::Plan& plan, const ApartOutcome& outcome) {
  std::string_view verdict = outcome.verdict;
  if (verdict.empty()) verdict = outcome.interrupted ? "interrupted" : "nothing is wrong";
  std::string text = fmt::format("storm of seed {}, commit {}: {}\n", plan.seed, commit(), verdict);
  if (!outcome.ended) return text + outcome.last_words;
  return text + fmt::format(
                    "digest {:016x}, {} hosts, {} messages, {} faults, {} packets, {} events, {} "
                    "completions, {} failed sessions, {:.3f} ms of virtual time, {:.3f} s\n",
                    outcome.digest, plan.hosts.size(), plan.messages.size(), plan.faults.size(),
                    outcome.packets, outcome.events, outcome.completions, outcome.failed_sessions,
                    1e-6 * static_cast<double>(outcome.lasted.ns), outcome.wall_s);
}

// The plan with only the parts that the failure needs, also written to the file.
sim::Plan shrink(const StormOptions& options, const Storm& storm, const sim::Plan& plan,
                 const std::string& verdict, std::FILE* out) {
  const std::string kind = kind_of(verdict);
  sim::Shrinker shrinker(
      [&](const sim::Plan& candidate) {
        if (interrupted()) return false;  // shrinking ends with its best so far
        return kind_of(run_apart(candidate, storm, options.swarm.limit_s, interrupted).verdict) ==
               kind;
      },
      [&](std::string_view what, std::size_t before, std::size_t after) {
        print_to(out, "  {} {} -> {}  ({} runs)\n", what, before, after, shrinker.asked());
        (void)std::fflush(out);
      },
      options.shrink_limit);
  print_to(out, "shrinking\n");
  sim::Plan small = shrinker.shrink(plan);
  write_plan(options.shrink_file, small,
             fmt::format("seed {}, shrunk in {} runs: {}", plan.seed, shrinker.asked(), verdict));
  print_to(out,
           "left: {} faults, {} messages, {} receives, {} hosts, {} odd tunables, in {}\n"
           "    look at it: {} --plan {}{} --trace\n",
           small.faults.size(), small.messages.size(), small.receives.size(), small.hosts.size(),
           sim::odd_tunables(small), options.shrink_file, options.command,
           shell_word(options.shrink_file), options.repeated);
  return small;
}

ExitCode run_one(const StormOptions& options, const Storm& storm, const OutputFile& figures,
                 std::FILE* out) {
  sim::Plan plan = options.plan_file.empty() ? sim::draw_plan(options.swarm.first)
                                             : read_plan(options.plan_file);
  const bool traces = !options.trace.prefix.empty();
  const bool shrinks = !options.shrink_file.empty();
  const double limit_s = options.swarm.limit_s;
  std::optional<ApartOutcome> outcome;
  const auto tell_outcome = [&](const ApartOutcome& ended) {
    outcome = ended;
    print_to(out, "{}", describe(plan, ended));
    (void)std::fflush(out);
  };
  bool is_written = true;
  if (traces && !shrinks) {
    is_written = try_writing(
        [&] { trace_storm(plan, storm, limit_s, interrupted, options.trace, tell_outcome); });
    if (!outcome) return ExitCode::bad_input;
  } else {
    tell_outcome(run_apart(plan, storm, limit_s, interrupted));
  }
  const bool failed = !outcome->verdict.empty();
  if (shrinks && !outcome->interrupted) {
    if (!failed) throw InputError("this storm has no failure to shrink");
    is_written = try_writing([&] {
      plan = shrink(options, storm, plan, outcome->verdict, out);
      if (!traces) return;
      trace_storm(plan, storm, limit_s, interrupted, options.trace,
                  [&](const ApartOutcome& ended) { outcome = ended; });
    });
  } else if (failed && options.plan_file.empty() && !traces) {
    print_to(out, "{}", advice(plan.seed, wording_of(options)));
  }
  if (traces && is_written) {
    print_to(out, "timeline in {0}.txt; {0}.json is for ui.perfetto.dev\n", options.trace.prefix);
  }
  is_written = write_figures(options, figures, json_of(plan, *outcome)) && is_written;
  return with_report(exit_code(failed, outcome->interrupted), is_written);
}

}  // namespace

ExitCode run_storms(const StormOptions& options) {
  // Before interrupts are caught, since this may wait for the reader of a pipe.
  const OutputFile figures = figures_file(options);
  catch_interrupts();
  const Storm storm = make_storm(options.sought.empty() ? sim::kCensusCells
                                                        : sim::find_census_cell(options.sought));
  std::FILE* const out = options.json == "-" ? stderr : stdout;
  return options.single ? run_one(options, storm, figures, out)
                        : run_many(options, storm, figures, out);
}

}  // namespace hawser::tool
