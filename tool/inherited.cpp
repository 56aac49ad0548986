// SPDX-License-Identifier: Apache-2.0
#include "tool/inherited.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace hawser::tool {
namespace {

void take_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The file gets this number, the lowest that is free. A write to a descriptor for reading fails
    // with EBADF. The descriptors are not close-on-exec, since children need them as much.
    static_cast<void>(::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY));
  }
}

void take_signals() {
  static_cast<void>(::signal(SIGCHLD, SIG_DFL));
  static_cast<void>(::signal(SIGXFSZ, SIG_IGN));
  sigset_t none;
  sigemptyset(&none);
  static_cast<void>(::sigprocmask(SIG_SETMASK, &none, nullptr));
}

}  // namespace

void take_up_inheritance() {
  take_standard_descriptors();
  take_signals();
}

}  // namespace hawser::tool
