// SPDX-License-Identifier: Apache-2.0
// Early ends of a rank, or of a launcher: signals, and a time limit.
#pragma once

#include <csignal>

namespace hawser::tool {

// Not 0 once the rank is to end in good order. All code that waits checks it.
[[nodiscard]] const volatile std::sig_atomic_t& asked_to_end();

// SIGINT and SIGHUP may be ignored from the start: by nohup, or by a shell that started the process
// in the background. Such a signal stays ignored.
[[nodiscard]] bool is_ignored(int signal);

// From here on SIGTERM, SIGINT and SIGHUP end the process at once (unless ignored). They do so
// anyway, except for the first process of a container: the kernel passes it no signal that it has
// no handler for.
void end_on_signals();

// From here on SIGTERM (and SIGINT, if it is not ignored) asks the rank to end. Before, they end
// the process.
void listen_for_signals();

// Asks the rank to end `seconds` after the object was made. (A launcher keeps the time itself.) If
// the process still exists 10 s later, it ends the process as ExitCode::wrong, with a line on
// standard error. A process can have only one, since it uses SIGALRM.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  [[nodiscard]] bool is_over() const;
};

}  // namespace hawser::tool
