// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/forked.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>

#include <fmt/format.h>

#include "engine/system_error.hpp"
#include "tool/run/clock.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

constexpr std::size_t kLastBytes = 4096;
constexpr int kEndedUnseen = 255 << 8;  // as if it had exited with 255
constexpr int kLookAgainMs = 50;

[[noreturn]] void be_the_copy(pid_t parent, int error_output, const std::function<void()>& work) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent ended before the line above
  // The parent handles these signals for both, also if a whole process group gets them.
  (void)::signal(SIGINT, SIG_IGN);
  (void)::signal(SIGTERM, SIG_IGN);
  (void)::signal(SIGABRT, SIG_DFL);  // a test framework may have changed it
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);  // one failing seed after the other
  (void)::dup2(error_output, STDERR_FILENO);
  try {
    work();
  } catch (const std::exception& error) {
    tool::tell("threw: {}\n", error.what());
    std::exit(1);
  }
  std::exit(0);  // not _exit: exit() writes the coverage
}

// The line that gives the reason, if there is one.
std::string telling_line(const std::string& words) {
  for (const char* const mark : {"assertion failed", "ERROR: ", "runtime error", "threw: "}) {
    const std::size_t at = words.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t before = words.rfind('\n', at);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    return words.substr(begin, words.find('\n', at) - begin);
  }
  return {};
}

}  // namespace

Forked::Forked(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error(engine::system_error("cannot make a pipe").what());
  }
  (void)std::fflush(nullptr);  // otherwise both would write it
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    const Error why = engine::system_error("cannot start a worker");
    ::close(ends[0]);
    ::close(ends[1]);
    throw std::runtime_error(why.what());
  }
  if (pid_ == 0) be_the_copy(parent, ends[1], work);
  ::close(ends[1]);
  fd_ = ends[0];
  (void)::fcntl(fd_, F_SETFL, O_NONBLOCK);
}

Forked::~Forked() {
  if (!ended_) {
    kill();
    (void)::waitpid(pid_, &wait_status_, 0);
  }
  if (fd_ >= 0) ::close(fd_);
}

void Forked::kill() {
  if (!ended_) (void)::kill(pid_, SIGKILL);
}

std::uint64_t Forked::cpu_ns() const {
  clockid_t clock{};
  timespec used{};
  if (ended_ || ::clock_getcpuclockid(pid_, &clock) != 0) return 0;
  if (::clock_gettime(clock, &used) != 0) return 0;
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(used.tv_nsec);
}

void Forked::read() {
  std::array<char, 16384> block;
  while (fd_ >= 0) {
    const ssize_t n = ::read(fd_, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      ::close(fd_);
      fd_ = -1;
      return;
    }
    last_words_.append(block.data(), static_cast<std::size_t>(n));
    if (last_words_.size() > 2 * kLastBytes) {
      last_words_.erase(0, last_words_.size() - kLastBytes);
    }
  }
}

bool Forked::update() {
  if (ended_) return true;
  read();
  const pid_t changed = ::waitpid(pid_, &wait_status_, WNOHANG);
  // Other code has waited for the process: it has ended, and its number may belong to another one.
  const bool is_unseen = changed < 0 && errno == ECHILD;
  if (changed != pid_ && !is_unseen) return false;
  if (is_unseen) wait_status_ = kEndedUnseen;
  ended_ = true;
  read();  // its last output
  return true;
}

bool Forked::wait(double limit_s) {
  const std::uint64_t begun = now_ns();
  while (!update()) {
    if (seconds(now_ns() - begun) > limit_s) return false;
    pollfd one{fd_, POLLIN, 0};
    (void)::poll(&one, 1, fd_ >= 0 ? kLookAgainMs : 1);
  }
  return true;
}

std::string Forked::failure() const {
  if (WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0) return {};
  const std::string line = telling_line(last_words_);
  if (!line.empty()) return line;
  if (WIFEXITED(wait_status_)) {
    return fmt::format("it ended with status {}", WEXITSTATUS(wait_status_));
  }
  return fmt::format("died of signal {} ({})", WTERMSIG(wait_status_),
                     ::strsignal(WTERMSIG(wait_status_)));
}

}  // namespace hawser::tool
