// SPDX-License-Identifier: Apache-2.0
// Early ends of a rank: signals, and its time limit where no launcher keeps one.
#pragma once

#include <csignal>

namespace hawser::tool {

// Not 0 once the rank is to end in good order. All code that waits checks it.
[[nodiscard]] const volatile std::sig_atomic_t& asked_to_end();

// From here on SIGTERM (and SIGINT, if it is not ignored) asks the rank to end. Before, they end
// the process.
void listen_for_signals();

// Asks the rank to end `seconds` after the object was made. If the process still exists 10 s later,
// it ends the process as ExitCode::wrong, with a line on standard error. A process can have only
// one, since it uses SIGALRM.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  [[nodiscard]] bool is_over() const;
};

}  // namespace hawser::tool
