// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/options.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <CLI/CLI.hpp>

#include "tool/error.hpp"
#include "tool/storm/options.hpp"

namespace hawser::tool {

SimOptionParser::SimOptionParser(CLI::App& app) : app_(app) {
  options_.jobs = std::max(1u, std::thread::hardware_concurrency());
  app.add_option("PLAN", options_.plan_file, "the plan's file")->required();
  app.add_option(
      "--to", options_.to,
      "the folder for results, created if it is missing (the plan's name without .json)");
  app.add_option("--jobs", options_.jobs,
                 "number of concurrent runs, each in its own process (as many as processors; fewer "
                 "if memory is short)")
      ->check(CLI::Range(1u, 1024u));
  app.add_flag("--tune", options_.tune, "run the seeds of 'tune' instead of those of 'judge'");
  app.add_option("--seeds", seeds_, "A..B or N: run only these seeds of 'judge', or of 'tune'");
  app.add_flag("--check", options_.check_only,
               "check the plan, and print how many runs it has; run nothing");
}

SimOptions SimOptionParser::finish() {
  SimOptions options = options_;
  if (app_.count("--seeds") > 0) options.seeds = parse_seeds(seeds_);
  if (app_.count("--to") > 0 && options.to.empty()) {
    throw InputError("--to needs the name of a folder");
  }
  if (options.to.empty()) options.to = default_folder(options.plan_file);
  return options;
}

std::string default_folder(const std::string& plan_file) {
  const std::filesystem::path name = std::filesystem::path(plan_file).filename();
  return name.extension() == ".json" ? name.stem().string() : name.string() + ".results";
}

}  // namespace hawser::tool
