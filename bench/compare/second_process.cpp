// SPDX-License-Identifier: Apache-2.0
#include "bench/compare/second_process.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

namespace {

pid_t start(int argc, char** argv, int fd) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  std::string value = std::to_string(::dup(fd));  // without CLOEXEC
  std::string option = "--peer-fd";
  std::vector<char*> args(argv, argv + argc);
  args.insert(args.end(), {option.data(), value.data(), nullptr});
  ::execv("/proc/self/exe", args.data());
  ::_exit(127);
}

}  // namespace

SecondProcess::SecondProcess(int argc, char** argv) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail("socketpair failed");
  child_ = start(argc, argv, pair[1]);
  ::close(pair[1]);
  fd_ = pair[0];
  if (child_ >= 0) return;
  ::close(fd_);
  fail("fork failed");
}

bool SecondProcess::wait() {
  if (child_ < 0) return ended_well_;
  ::close(fd_);
  int status = 0;
  const bool was_waited_for = ::waitpid(std::exchange(child_, -1), &status, 0) >= 0;
  ended_well_ = was_waited_for && status == 0;
  return ended_well_;
}

}  // namespace hawser::bench
