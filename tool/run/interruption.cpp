// SPDX-License-Identifier: Apache-2.0
#include "tool/run/interruption.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "tool/exit_code.hpp"

namespace hawser::tool {
namespace {

// From the limit to the end by force: time to cancel pending operations, and to tell the others.
constexpr time_t kGraceS = 10;

volatile std::sig_atomic_t g_interrupted = 0;
volatile std::sig_atomic_t g_is_over = 0;

void on_signal(int) { g_interrupted = 1; }

void on_limit(int) {
  g_interrupted = 1;
  if (g_is_over == 0) {
    g_is_over = 1;
    return;
  }
  constexpr char kWords[] =
      "hawser: this rank still runs 10 s after --timeout, so it ends at once\n";
  (void)!::write(STDERR_FILENO, kWords, sizeof kWords - 1);
  ::_exit(static_cast<int>(ExitCode::wrong));
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  (void)::sigaction(number, &action, nullptr);
}

}  // namespace

const volatile std::sig_atomic_t& asked_to_end() { return g_interrupted; }

void listen_for_signals() {
  handle(SIGTERM, on_signal);
  struct sigaction current {};
  (void)::sigaction(SIGINT, nullptr, &current);
  if (current.sa_handler != SIG_IGN) handle(SIGINT, on_signal);
}

TimeLimit::TimeLimit(double seconds) {
  handle(SIGALRM, on_limit);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  if (timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0) timer.it_value.tv_usec = 1;
  timer.it_interval.tv_sec = kGraceS;
  (void)::setitimer(ITIMER_REAL, &timer, nullptr);
}

TimeLimit::~TimeLimit() {
  const itimerval none{};
  (void)::setitimer(ITIMER_REAL, &none, nullptr);
}

bool TimeLimit::is_over() const { return g_is_over != 0; }

}  // namespace hawser::tool
