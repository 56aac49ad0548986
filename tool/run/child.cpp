// SPDX-License-Identifier: Apache-2.0
#include "tool/run/child.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "engine/system_error.hpp"

namespace hawser::tool {
namespace {

constexpr int kEndedUnseen = 255 << 8;                        // as if it had exited with 255
constexpr const char* kLauncherVariable = "HAWSER_LAUNCHER";  // the number of its process

[[noreturn]] void fail(std::string_view what) { throw engine::system_error(std::string(what)); }

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
  return {ends[0], ends[1]};
}

void follow(pid_t launcher) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);  // the launcher ended before the line above
}

// Only calls that are safe between fork and exec: the launcher may have threads.
[[noreturn]] void become_rank(pid_t launcher, int report, int output, char* const* arguments,
                              char* const* environment) {
  follow(launcher);
  (void)::signal(SIGINT, SIG_IGN);  // Ctrl-C reaches the launcher, which ends its ranks
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Moved out of the way first: the pipe for output may be descriptor 3.
  const int spare = ::fcntl(output, F_DUPFD, kReportFd + 1);
  (void)::dup2(report, kReportFd);
  (void)::fcntl(kReportFd, F_SETFD, 0);  // if it was there already, dup2 left its close-on-exec
  (void)::dup2(spare, STDOUT_FILENO);
  (void)::dup2(spare, STDERR_FILENO);
  ::close(spare);
  ::execve("/proc/self/exe", arguments, environment);
  // Where /proc is not mounted: by the name under which the launcher was started.
  const auto* const own_name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (own_name != nullptr) ::execve(own_name, arguments, environment);
  constexpr std::string_view kWhy =
      "cannot be started: the program finds its own file neither by /proc/self/exe nor by its "
      "name; mount /proc, or start the program by its full path\n";
  (void)!::write(STDERR_FILENO, kWhy.data(), kWhy.size());
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (std::string& text : strings) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool replaced = false;
    for (const auto& [name, value] : added) replaced = replaced || text.starts_with(name + "=");
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

}  // namespace

void end_with_launcher() {
  const char* const launcher = std::getenv(kLauncherVariable);
  if (launcher != nullptr) follow(static_cast<pid_t>(std::strtol(launcher, nullptr, 10)));
}

Child::Child(std::uint32_t rank, const std::vector<std::string>& arguments,
             const std::vector<std::pair<std::string, std::string>>& environment)
    : rank_(rank) {
  std::vector<std::string> argument_texts = arguments;
  const pid_t launcher = ::getpid();
  std::vector<std::pair<std::string, std::string>> added = environment;
  added.emplace_back(kLauncherVariable, std::to_string(launcher));
  std::vector<std::string> environment_texts = merged_environment(added);
  const std::vector<char*> argument_list = pointers(argument_texts);
  const std::vector<char*> environment_list = pointers(environment_texts);
  const Pipe report = make_pipe();
  const Pipe output = make_pipe();
  pid_ = ::fork();
  if (pid_ < 0) fail("cannot start a rank");
  if (pid_ == 0) {
    become_rank(launcher, report.write, output.write, argument_list.data(),
                environment_list.data());
  }
  ::close(report.write);
  ::close(output.write);
  report_fd_ = report.read;
  output_fd_ = output.read;
  for (const int fd : {report_fd_, output_fd_}) (void)::fcntl(fd, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  if (pid_ > 0 && !ended_) {
    signal(SIGKILL);
    (void)::waitpid(pid_, &wait_status_, 0);
  }
  if (report_fd_ >= 0) ::close(report_fd_);
  if (output_fd_ >= 0) ::close(output_fd_);
}

void Child::signal(int number) const {
  if (!ended_) (void)::kill(pid_, number);
}

bool Child::update() {
  if (ended_) return false;
  int status = 0;
  const pid_t changed = ::waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED);
  // Other code has waited for the process: it has ended, and its number may belong to another one.
  if (changed < 0 && errno == ECHILD) status = kEndedUnseen;
  if (changed != pid_ && status != kEndedUnseen) return false;
  if (WIFSTOPPED(status)) {
    stopped_ = true;
  } else if (WIFCONTINUED(status)) {
    stopped_ = false;
  } else {
    ended_ = true;
    stopped_ = false;
    wait_status_ = status;
  }
  return true;
}

std::vector<std::string> Child::read_lines(int& fd, std::string& partial) {
  std::vector<std::string> lines;
  std::array<char, 65536> block;
  while (fd >= 0) {
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n <= 0) {
      ::close(fd);
      fd = -1;
      if (!partial.empty()) lines.push_back(std::move(partial));
      partial.clear();
      break;
    }
    partial.append(block.data(), static_cast<std::size_t>(n));
    if (partial.size() > kMaxLineBytes) partial.clear();  // no line of a rank is that long
    std::size_t begin = 0;
    for (std::size_t end; (end = partial.find('\n', begin)) != std::string::npos; begin = end + 1) {
      lines.push_back(partial.substr(begin, end - begin));
    }
    partial.erase(0, begin);
  }
  return lines;
}

std::vector<RankMessage> Child::read_messages() {
  std::vector<RankMessage> messages;
  for (const std::string& line : read_lines(report_fd_, partial_report_)) {
    if (std::optional<RankMessage> message = reader_.read(line)) {
      messages.push_back(std::move(*message));
    }
  }
  return messages;
}

std::vector<std::string> Child::read_output() { return read_lines(output_fd_, partial_output_); }

}  // namespace hawser::tool
