// SPDX-License-Identifier: Apache-2.0
// The options of `hawser storm`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tool/storm/swarm.hpp"

namespace CLI {
class App;
}

namespace hawser::tool {

// How much of a replay is written down.
struct TraceOptions {
  std::string prefix{};  // of its files; empty: no trace
  bool packets = false;  // every single one, else only unusual events
  double from_ms = 0;    // since the start
  double to_ms = 1e9;
};

struct StormOptions {
  SwarmOptions swarm;
  std::string command = "hawser storm";  // as it was called
  unsigned asked_jobs = 0;               // as asked for; `swarm` has the real number
  bool single = false;                   // one seed, or the plan of a file, not a swarm
  std::string plan_file;                 // empty: that of the seed
  TraceOptions trace;
  std::string shrink_file;  // empty: don't
  std::uint64_t shrink_limit = 3000;
  std::string json;
  std::string sought;  // a cell of the census; empty: none

  // Options that other commands about the same storms must repeat; and those about the rest of the
  // swarm.
  std::string repeated{};
  std::string swarm_repeated{};
};

// The text as one word for a shell.
[[nodiscard]] std::string shell_word(const std::string& text);

// "A..B" or "N". Throws InputError.
[[nodiscard]] std::pair<std::uint64_t, std::uint64_t> parse_seeds(std::string_view text);

class StormOptionParser {
 public:
  explicit StormOptionParser(CLI::App& app);
  // To be called after app.parse. Also checks that all files can be written. Throws InputError.
  [[nodiscard]] StormOptions finish();

 private:
  [[nodiscard]] bool given(const char* name) const;
  void take_storms(StormOptions& options) const;
  void take_files(StormOptions& options) const;
  void take_repeated(StormOptions& options) const;

  CLI::App& app_;
  StormOptions options_;
  std::string seeds_;
  std::string seed_;
  std::string detail_ = "events";
};

}  // namespace hawser::tool
