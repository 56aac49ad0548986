// SPDX-License-Identifier: Apache-2.0
#include "tool/interrupt.hpp"

#include <csignal>

#include "tool/run/interruption.hpp"

namespace hawser::tool {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
void on_signal(int) { g_interrupted = 1; }

}  // namespace

bool interrupted() { return g_interrupted != 0; }

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  if (!is_ignored(SIGINT)) (void)::sigaction(SIGINT, &action, nullptr);
  (void)::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace hawser::tool
