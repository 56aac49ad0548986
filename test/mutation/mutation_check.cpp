// SPDX-License-Identifier: Apache-2.0
// The mutation check: is the storm strong enough? It runs each deliberate bug (mutate.py) through
// storms until one of them finds an error. A bug that no storm notices is a hole in the storm, or
// no bug. docs/internals/mutations.md has the results.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>

#include "test/mutation/runs.hpp"

namespace hawser::mutation {
namespace {

struct Mutant {
  std::uint32_t number;
  const char* name;
  const char* kind;
  const char* where;
  const char* what;
  const char* breaks;
  const char* survives;              // why no storm notices it; empty: a storm must
  std::vector<std::uint64_t> seeds;  // tried first
};

const std::vector<Mutant> kMutants{
#include <mutants.inc>
};

enum class Fate : std::uint8_t { verdict, crash, hang, changes, same, unreached };

struct Result {
  Fate fate = Fate::unreached;
  std::uint64_t seed = 0;
  std::string verdict;
  std::uint64_t storms = 0;  // run so far

  [[nodiscard]] bool is_caught() const { return fate <= Fate::hang; }
};

struct Options {
  std::uint64_t seeds = 300;
  std::vector<std::uint64_t> only;
  std::uint64_t most_events = ~std::uint64_t{0};
  std::uint32_t jobs = 2;
  std::vector<std::string> kinds;
  std::vector<std::string> names;
  std::vector<std::string> files;
  std::uint32_t sample = 1;
  std::string out;
  bool expected = false;
};

bool is_among(const std::string& name, const std::vector<std::string>& names) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

std::string file_of(const Mutant& mutant) {
  const std::string where = mutant.where;
  return where.substr(0, where.find(':'));
}

std::vector<const Mutant*> chosen(const Options& options) {
  std::vector<const Mutant*> all;
  for (const Mutant& mutant : kMutants) {
    if (!is_among(mutant.kind, options.kinds) || !is_among(mutant.name, options.names)) continue;
    if (!is_among(file_of(mutant), options.files)) continue;
    if (options.expected && mutant.survives[0] != '\0') continue;
    all.push_back(&mutant);
  }
  std::vector<const Mutant*> some;
  for (std::size_t i = 0; i < all.size(); i += options.sample) some.push_back(all[i]);
  return some;
}

// Runs all seeds that are needed, without any mutant.
Baselines run_baselines(const Options& options, const std::vector<const Mutant*>& mutants) {
  std::set<std::uint64_t> seeds(options.only.begin(), options.only.end());
  if (seeds.empty()) {
    for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) seeds.insert(seed);
    for (const Mutant* mutant : mutants) seeds.insert(mutant->seeds.begin(), mutant->seeds.end());
  }
  Baselines baselines;
  std::vector<Job> jobs(options.jobs);
  for (Job& job : jobs) {
    job.heard = [&](const Report& report) {
      if (report.kind != Report::Kind::end) baselines[report.seed] = report.result;
      return true;
    };
  }
  std::size_t next = 0;
  for (const std::uint64_t seed : seeds) jobs[next++ % jobs.size()].seeds.push_back(seed);
  run_jobs(std::move(jobs), options.jobs, {});
  return baselines;
}

// A mutant's own seeds come first, then the others, those of the smallest storms first.
std::vector<std::uint64_t> order_seeds(const Options& options, const Mutant& mutant,
                                       const Baselines& baselines) {
  std::vector<std::uint64_t> seeds;
  for (const auto& [seed, baseline] : baselines) {
    const bool small = baseline.events <= options.most_events;
    const bool asked = options.only.empty()
                           ? seed <= options.seeds
                           : std::ranges::find(options.only, seed) != options.only.end();
    if (asked && small && baseline.verdict.empty()) seeds.push_back(seed);
  }
  std::ranges::stable_sort(seeds, {},
                           [&](std::uint64_t seed) { return baselines.at(seed).events; });
  for (auto own = mutant.seeds.rbegin(); own != mutant.seeds.rend(); ++own) {
    if (!options.only.empty()) break;
    std::erase(seeds, *own);
    seeds.insert(seeds.begin(), *own);
  }
  return seeds;
}

// Notes one more report of a mutant. False if the mutant is caught, or its storms have ended.
bool note(Result& result, const Report& report, const Baselines& baselines) {
  if (report.kind == Report::Kind::end) return false;
  ++result.storms;
  result.seed = report.seed;
  result.verdict = report.result.verdict;
  if (report.kind != Report::Kind::storm) {
    result.fate = report.kind == Report::Kind::hang ? Fate::hang : Fate::crash;
    return false;
  }
  if (!result.verdict.empty()) {
    result.fate = Fate::verdict;
    return false;
  }
  const bool differs = report.result.digest != baselines.at(report.seed).digest;
  if (differs) result.fate = Fate::changes;
  if (report.reached && result.fate == Fate::unreached) result.fate = Fate::same;
  return true;
}

std::string show(const Result& result) {
  const std::string storms = std::to_string(result.storms) + " storms";
  switch (result.fate) {
    case Fate::verdict:
    case Fate::hang: return "seed " + std::to_string(result.seed) + ": " + result.verdict;
    case Fate::crash: return "seed " + std::to_string(result.seed) + ": crash: " + result.verdict;
    case Fate::changes: return "survived " + storms;
    case Fate::same: return "survived " + storms + ", which are the same bit for bit";
    case Fate::unreached: return "survived " + storms + ", none came by it";
  }
  return {};
}

void write_line(std::ostream& out, const Mutant& mutant, const Result& result) {
  out << mutant.kind << " | " << mutant.name << " | " << mutant.where << " | " << mutant.what
      << " | " << (result.is_caught() ? "caught" : "survived") << " | " << result.storms << " | "
      << show(result) << '\n';
}

// Prints for each file and kind how many mutants were caught, and how many there are.
void print_summary(const std::vector<const Mutant*>& mutants, const std::vector<Result>& results) {
  std::map<std::string, std::pair<int, int>> groups;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    for (const std::string& group :
         {file_of(*mutants[i]), "[" + std::string(mutants[i]->kind) + "]"}) {
      auto& [caught, all] = groups[group];
      caught += results[i].is_caught() ? 1 : 0;
      ++all;
    }
  }
  for (const auto& [group, counts] : groups) {
    std::printf("%-24s %4d of %4d caught\n", group.c_str(), counts.first, counts.second);
  }
}

int run(const Options& options) {
  const std::vector<const Mutant*> mutants = chosen(options);
  const Baselines baselines = run_baselines(options, mutants);
  std::uint64_t bad = 0;
  for (const auto& [seed, baseline] : baselines) {
    if (baseline.verdict.empty()) continue;
    ++bad;
    std::printf("without a mutant, seed %lu: %s\n", seed, baseline.verdict.c_str());
  }
  std::printf("without a mutant: %zu seeds, %lu of them fail and are left out\n", baselines.size(),
              bad);
  std::vector<Result> results(mutants.size());
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const Mutant& mutant = *mutants[i];
    jobs.push_back(
        {mutant.number, order_seeds(options, mutant, baselines), [&, i](const Report& report) {
           const bool goes_on = note(results[i], report, baselines);
           if (!goes_on) {
             std::printf("%-10s %-34s %s\n", mutants[i]->kind, mutants[i]->name,
                         show(results[i]).c_str());
             std::fflush(stdout);
           }
           return goes_on;
         }});
  }
  run_jobs(std::move(jobs), options.jobs, baselines);
  const auto caught = std::ranges::count_if(results, &Result::is_caught);
  print_summary(mutants, results);
  std::printf("%zu mutants, %ld caught\n", mutants.size(), caught);
  if (!options.out.empty()) {
    std::ofstream out(options.out);
    for (std::size_t i = 0; i < mutants.size(); ++i) write_line(out, *mutants[i], results[i]);
  }
  if (!options.expected) return 0;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    if (!results[i].is_caught()) std::printf("MISSED %s: %s\n", mutants[i]->name, mutants[i]->what);
  }
  return bad == 0 && caught == static_cast<std::ptrdiff_t>(mutants.size()) ? 0 : 1;
}

}  // namespace
}  // namespace hawser::mutation

int main(int argc, char** argv) {
  hawser::mutation::Options options;
  CLI::App app("Runs each deliberate bug through storms until one of them notices it.");
  app.add_option("--seeds", options.seeds, "Storms of the seeds 1 to N")->capture_default_str();
  app.add_option("--seed", options.only, "Storms of these seeds instead");
  app.add_option("--most-events", options.most_events, "Only storms of at most so many events");
  app.add_option("--jobs", options.jobs, "Processes at a time")->capture_default_str();
  app.add_option("--kind", options.kinds, "spec, code, or a mechanical kind");
  app.add_option("--name", options.names, "Mutants of this name");
  app.add_option("--file", options.files, "Mutants of this file of proto/");
  app.add_option("--sample", options.sample, "Every so many-th mutant")->capture_default_str();
  app.add_option("--out", options.out, "Writes the table there");
  app.add_flag("--expected", options.expected,
               "Leaves out those that a table says survive, and fails if another one does");
  CLI11_PARSE(app, argc, argv);
  return hawser::mutation::run(options);
}
