// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/options.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "sim/storm/census.hpp"
#include "tool/error.hpp"
#include "tool/output_file.hpp"

namespace hawser::tool {
namespace {

constexpr unsigned kMostJobs = 1024;
// More jobs for each processor would only wait for each other.
constexpr unsigned kMostJobsOfProcessor = 4;

std::uint64_t parse_seed(std::string_view text, std::string_view whole) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end || value == std::numeric_limits<std::uint64_t>::max()) {
    throw InputError(fmt::format(
        "seeds '{}': '{}' is not a number from 0 to 2^64 - 2; expected A..B or N", whole, text));
  }
  return value;
}

// CLI11 takes "nan" and "inf" for numbers.
std::string a_number(const std::string& text) {
  return text.find_first_not_of("0123456789.eE+-") == std::string::npos
             ? ""
             : "'" + text + "' is not a number";
}

// Special files are opened only once, where they are written.
void check_writable(const std::string& name, const std::string& what) {
  if (name.empty() || name == "-" || is_special_file(name)) return;
  static_cast<void>(OutputFile(name, what));
}

// A folder can be opened like a file, but not read.
void check_is_file(const std::string& name) {
  if (name.empty()) throw InputError("--plan needs the name of a file");
  std::error_code error;
  if (std::filesystem::is_directory(name, error)) {
    throw InputError(fmt::format("'{}' is a folder, not a plan", name));
  }
}

// Whether both names stand for one file.
bool are_one_file(const std::string& a, const std::string& b) {
  std::error_code error;  // one of them is not there
  return a == b || std::filesystem::equivalent(a, b, error);
}

// The base name of files that are made from a plan, beside it.
std::string name_of(const std::string& plan_file) {
  for (const std::string_view ending : {".plan.json", ".json"}) {
    if (plan_file.size() > ending.size() && plan_file.ends_with(ending)) {
      return plan_file.substr(0, plan_file.size() - ending.size()) +
             (ending == ".json" ? ".trace" : "");
    }
  }
  return plan_file;
}

bool is_plain(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         std::string_view("/._-+:,=@%").find(letter) != std::string_view::npos;
}

unsigned processors() { return std::max(1u, std::thread::hardware_concurrency()); }

}  // namespace

std::string shell_word(const std::string& text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted.push_back(letter);
    }
  }
  return quoted + "'";
}

std::pair<std::uint64_t, std::uint64_t> parse_seeds(std::string_view text) {
  const std::size_t dots = text.find("..");
  const std::uint64_t first = parse_seed(text.substr(0, dots), text);
  if (dots == std::string_view::npos) return {first, first};
  const std::uint64_t last = parse_seed(text.substr(dots + 2), text);
  if (last < first) throw InputError(fmt::format("seeds '{}': they end before they begin", text));
  return {first, last};
}

StormOptionParser::StormOptionParser(CLI::App& app) : app_(app) {
  StormOptions& o = options_;
  o.swarm.jobs = processors();
  app.add_option("--seeds", seeds_, "A..B or N: a swarm of storms, one for each seed");
  app.add_option("--jobs", o.swarm.jobs,
                 "worker processes (as many as there are processors; at most four times "
                 "as many)")
      ->check(CLI::Range(1u, kMostJobs));
  app.add_flag("--keep-going", o.swarm.keep_going,
               "count all failures, by verdict, instead of stopping at the first");
  app.add_option("--seconds", o.swarm.seconds, "seconds after which the swarm ends")
      ->check(CLI::Range(0.001, 1e9))
      ->check(a_number);
  app.add_option("--limit", o.swarm.limit_s,
                 "CPU time in seconds after which one storm is a failure (60)")
      ->check(CLI::Range(0.001, 1e6))
      ->check(a_number);
  app.add_option("--json", o.json, "write the figures to this file as JSON; - is standard output");
  app.add_option("--seek", o.sought,
                 "a storm that visits this counts as a failure, such as drop:bad_slot; the report "
                 "lists names");
  const std::string one = "One storm";
  app.add_option("--seed", seed_, "run the storm of this seed")->group(one);
  app.add_option("--plan", o.plan_file, "run the plan in this file, which --shrink wrote")
      ->group(one);
  app.add_option("--trace", o.trace.prefix,
                 "write PREFIX.txt, a timeline, and PREFIX.json for Perfetto (storm-SEED)")
      ->expected(0, 1)
      ->group(one);
  app.add_option("--detail", detail_,
                 "contents of the trace: events, or packets, which adds every packet (events)")
      ->check(CLI::IsMember({"events", "packets"}))
      ->group(one);
  app.add_option("--from", o.trace.from_ms, "where the trace begins, in ms of virtual time (0)")
      ->check(CLI::Range(0.0, 1e9))
      ->check(a_number)
      ->group(one);
  app.add_option("--to", o.trace.to_ms, "where the trace ends, in ms of virtual time")
      ->check(CLI::Range(0.0, 1e9))
      ->check(a_number)
      ->group(one);
  app.add_option("--shrink", o.shrink_file,
                 "cut the plan down to what the failure needs, and write it to FILE "
                 "(storm-SEED.plan.json)")
      ->expected(0, 1)
      ->group(one);
  app.add_option("--shrink-runs", o.shrink_limit, "the most runs that --shrink may take (3000)")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->group(one);
}

bool StormOptionParser::given(const char* name) const { return app_.count(name) > 0; }

void StormOptionParser::take_storms(StormOptions& o) const {
  const int what = given("--seeds") + given("--seed") + given("--plan");
  if (what != 1) {
    throw InputError("no storm is chosen: give one of --seeds A..B, --seed N and --plan FILE");
  }
  o.single = !given("--seeds");
  if (given("--seeds")) std::tie(o.swarm.first, o.swarm.last) = parse_seeds(seeds_);
  if (given("--seed")) {
    if (seed_.find("..") != std::string::npos) {
      throw InputError(fmt::format("--seed {0} names several seeds: write --seeds {0}", seed_));
    }
    o.swarm.first = o.swarm.last = parse_seed(seed_, seed_);
  }
  if (given("--plan")) check_is_file(o.plan_file);
  if (given("--json") && o.json.empty()) throw InputError("--json needs the name of a file, or -");
  if (o.single) {
    for (const char* const name : {"--jobs", "--keep-going", "--seconds"}) {
      if (given(name)) throw InputError(fmt::format("{} is for --seeds", name));
    }
  } else {
    for (const char* const name :
         {"--trace", "--detail", "--from", "--to", "--shrink", "--shrink-runs"}) {
      if (given(name)) throw InputError(fmt::format("{} is for --seed or --plan", name));
    }
  }
  o.asked_jobs = o.swarm.jobs;
  o.swarm.jobs = std::min(o.swarm.jobs, kMostJobsOfProcessor * processors());
}

void StormOptionParser::take_files(StormOptions& o) const {
  const std::string name =
      given("--plan") ? name_of(o.plan_file) : fmt::format("storm-{}", o.swarm.first);
  if (given("--trace") && o.trace.prefix.empty()) o.trace.prefix = name;
  if (given("--shrink") && o.shrink_file.empty()) o.shrink_file = name + ".plan.json";
  std::vector<std::pair<std::string, const char*>> written{{o.json, "the figures"},
                                                           {o.shrink_file, "the plan"}};
  if (!o.trace.prefix.empty()) {
    written.emplace_back(o.trace.prefix + ".txt", "the timeline");
    written.emplace_back(o.trace.prefix + ".json", "the trace");
  }
  for (const auto& [file, what] : written) {
    if (given("--plan") && are_one_file(file, o.plan_file)) {
      throw InputError(fmt::format("'{}' would be overwritten", o.plan_file));
    }
    for (const auto& [other, what_else] : written) {
      if (&other != &file && !file.empty() && are_one_file(file, other)) {
        throw InputError(fmt::format("'{}' can't hold both {} and {}", file, what, what_else));
      }
    }
  }
  for (const auto& [file, what] : written) check_writable(file, what);
}

// Only given options: defaults need no words.
void StormOptionParser::take_repeated(StormOptions& o) const {
  const auto repeat = [this](std::string& text, const char* name) {
    if (given(name)) text += fmt::format(" {} {}", name, app_[name]->as<std::string>());
  };
  repeat(o.repeated, "--seek");
  repeat(o.repeated, "--limit");
  o.swarm_repeated = o.repeated;
  repeat(o.swarm_repeated, "--jobs");
  if (o.swarm.keep_going) o.swarm_repeated += " --keep-going";
  repeat(o.swarm_repeated, "--seconds");
  if (app_.get_parent() != nullptr) {
    o.command = fmt::format("{} storm", shell_word(app_.get_parent()->get_name()));
  }
}

StormOptions StormOptionParser::finish() {
  StormOptions o = options_;
  take_storms(o);
  for (const char* const needs_trace : {"--detail", "--from", "--to"}) {
    if (given(needs_trace) && !given("--trace")) {
      throw InputError(fmt::format("{} limits what --trace shows: give --trace too", needs_trace));
    }
  }
  if (o.trace.to_ms <= o.trace.from_ms) throw InputError("--to is not after --from");
  o.trace.packets = detail_ == "packets";
  if (given("--seek") && sim::find_census_cell(o.sought) == sim::kCensusCells) {
    throw InputError(fmt::format(
        "--seek {}: there is no such name; a report lists the names (\"group:name\")", o.sought));
  }
  take_files(o);
  take_repeated(o);
  return o;
}

}  // namespace hawser::tool
