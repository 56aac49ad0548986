// SPDX-License-Identifier: Apache-2.0
// Watches the ranks of a launcher: reads their messages, and decides when to end them.
//
// A run ends when every rank has. It is brought to an end by
//   Ctrl-C or SIGTERM      every rank is asked to end, and killed after a few seconds;
//   --timeout              the same;
//   a rank's bad input     the same: it can't get better;
//   a dead rank            the others find out by themselves, within peer_timeout, and report it.
//                          They are asked to end only if they don't. A stopped rank extends that
//                          time, as it may go on.
// A rank that is ended by SIGKILL is started again, as often as the options name it for that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tool/run/child.hpp"
#include "tool/run/display.hpp"
#include "tool/run/options.hpp"
#include "tool/run/report.hpp"

namespace hawser::tool {

struct WatchOutcome {
  std::vector<RankResult> results;  // of the ranks that gave one
  ExitCode code = ExitCode::ok;
};

class Watch {
 public:
  using Start =
      std::function<std::unique_ptr<Child>(std::uint32_t rank, std::uint32_t lives_before)>;
  using Over = std::function<void(std::uint32_t rank)>;

  // `signals` is a signalfd with SIGCHLD, SIGINT and SIGTERM, which are blocked. `start` made the
  // children, and makes their replacements. `over` is called for each rank that failed and is not
  // started again.
  Watch(const RunOptions& options, std::vector<std::unique_ptr<Child>>& children, Start start,
        Over over, int signals, Display& display);

  [[nodiscard]] WatchOutcome run();

 private:
  void wait();
  void read_signals();
  void read(Child& child);
  void look_after_processes(std::uint64_t now);
  void on_end(const Child& child, std::uint64_t now);
  // Returns true if another process has taken its place.
  bool start_again(std::unique_ptr<Child>& child);
  void check_deadlines(std::uint64_t now);
  void ask_to_end(std::uint64_t now, ExitCode code, const std::string& why);
  [[nodiscard]] bool all_ended() const;
  void worsen(ExitCode code);
  void tell_how_long(std::uint64_t now);

  const RunOptions& options_;
  std::vector<std::unique_ptr<Child>>& children_;
  Start start_;
  Over over_;
  std::vector<std::uint32_t> lives_;  // by rank: its lives that are over
  int signals_;
  Display& display_;
  std::vector<std::optional<RankResult>> results_;
  WatchOutcome outcome_;
  std::uint64_t started_ns_;
  std::uint64_t first_death_ns_ = 0;     // 0: none
  std::uint64_t patience_until_ns_ = 0;  // after a death
  std::uint64_t kill_at_ns_ = 0;         // 0: nobody was asked to end
};

}  // namespace hawser::tool
