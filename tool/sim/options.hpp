// SPDX-License-Identifier: Apache-2.0
// The options of `hawser sim`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace CLI {
class App;
}

namespace hawser::tool {

struct SimOptions {
  std::string plan_file;
  std::string to;  // a folder
  unsigned jobs = 1;
  bool tune = false;        // the seeds of tune instead of those of judge
  bool check_only = false;  // read the plan, and run nothing
  std::optional<std::pair<std::uint64_t, std::uint64_t>> seeds;  // these instead, first to last
};

class SimOptionParser {
 public:
  explicit SimOptionParser(CLI::App& app);
  // To be called after app.parse. Throws InputError.
  [[nodiscard]] SimOptions finish();

 private:
  CLI::App& app_;
  SimOptions options_;
  std::string seeds_;
};

// The folder for results without --to: the plan's name without ".json", in the current folder.
[[nodiscard]] std::string default_folder(const std::string& plan_file);

}  // namespace hawser::tool
