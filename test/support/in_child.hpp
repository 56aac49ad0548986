// SPDX-License-Identifier: Apache-2.0
// Runs a part of a test in a child of fork.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "test/support/hang_limit.hpp"

namespace hawser::test {

// Returns the status with which a child exited, or minus the signal that ended it.
[[nodiscard]] inline int status_of_child(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Returns what `child` returned in a child of fork: 0, or the number of the first error that it
// found. It must not throw, and ends by `end`. The test framework has no part in it.
template <class Child>
[[nodiscard]] int in_child(const Child& child, void (*end)(int) = ::_exit) {
  const pid_t pid = ::fork();
  if (pid < 0) return -1;
  if (pid == 0) {
    ::alarm(kHangLimitMs / 1000);
    end(child());
  }
  return status_of_child(pid);
}

}  // namespace hawser::test
