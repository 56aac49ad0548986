// SPDX-License-Identifier: Apache-2.0
#include "tool/run/interruption.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <initializer_list>

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
      "hawser: this process still runs 10 s after --timeout, so it ends at once\n";
  (void)!::write(STDERR_FILENO, kWords, sizeof kWords - 1);
  ::_exit(static_cast<int>(ExitCode::wrong));
}

// Ends the process as the signal would, or, where the kernel drops it, with the status that shells
// give such an end.
void end_at_once(int number) {
  (void)::raise(number);
  ::_exit(static_cast<int>(ExitCode::interrupted));
}

void handle(int number, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  (void)::sigaction(number, &action, nullptr);
}

}  // namespace

const volatile std::sig_atomic_t& asked_to_end() { return g_interrupted; }

bool is_ignored(int signal) {
  struct sigaction current {};
  return ::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

void end_on_signals() {
  // The handler runs once: within it the signal has its default action again, and is not blocked.
  constexpr int kOnce = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  handle(SIGTERM, end_at_once, kOnce);
  for (const int number : {SIGINT, SIGHUP}) {
    if (!is_ignored(number)) handle(number, end_at_once, kOnce);
  }
}

void listen_for_signals() {
  handle(SIGTERM, on_signal);
  if (!is_ignored(SIGINT)) handle(SIGINT, on_signal);
}

TimeLimit::TimeLimit(double seconds) {
  handle(SIGALRM, on_limit, SA_RESTART);  // the first alarm is not to break a write of a report
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
