// SPDX-License-Identifier: Apache-2.0
// What ends a rank early: signals, and its time limit where no launcher keeps one.
#pragma once

#include <csignal>

namespace hawser::tool {

// Not 0: the rank is to end in good order. All that waits looks at it.
[[nodiscard]] const volatile std::sig_atomic_t& asked_to_end();

// From here on SIGTERM (and SIGINT, if it is not ignored) asks for that; before, they end the
// process.
void listen_for_signals();

// Asks for it `seconds` after it was made, and ends the process if it is still there 10 s later, as
// ExitCode::wrong, with a line on standard error. At most one in a process; it has SIGALRM.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  [[nodiscard]] bool is_over() const;
};

}  // namespace hawser::tool
