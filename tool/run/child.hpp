// SPDX-License-Identifier: Apache-2.0
// A rank as a child process, with two pipes to the launcher. It is started by exec, so that it has
// an engine of its own from the start. The kernel ends it if the launcher goes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tool/run/report.hpp"

namespace hawser::tool {

// The descriptor on which a rank finds the pipe for its messages.
inline constexpr int kReportFd = 3;

// For a process that a Child has started: the kernel ends it if the launcher goes. Child has asked
// for that already, but exec forgets it if the program has capabilities of its own (prctl(2),
// PR_SET_PDEATHSIG). Ends the process at once if the launcher has gone by now.
void end_with_launcher();

class Child {
 public:
  // Starts this program anew with `arguments`, and `environment` added to its own.
  // Throws std::runtime_error.
  Child(std::uint32_t rank, const std::vector<std::string>& arguments,
        const std::vector<std::pair<std::string, std::string>>& environment);
  ~Child();  // kills it, if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  // Descriptors to wait for with poll(2); -1 once the other end is closed.
  [[nodiscard]] int report_fd() const { return report_fd_; }
  [[nodiscard]] int output_fd() const { return output_fd_; }

  // Read what is there, whole lines only.
  [[nodiscard]] std::vector<RankMessage> read_messages();
  [[nodiscard]] std::vector<std::string> read_output();

  // Looks after the process. Returns true if something changed.
  bool update();
  [[nodiscard]] bool running() const { return !ended_; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  // The status of waitpid, once the process has ended.
  [[nodiscard]] int wait_status() const { return wait_status_; }
  void signal(int number) const;

 private:
  static std::vector<std::string> read_lines(int& fd, std::string& partial);

  std::uint32_t rank_;
  pid_t pid_ = -1;
  int report_fd_ = -1;
  int output_fd_ = -1;
  std::string partial_report_;
  std::string partial_output_;
  MessageReader reader_;
  bool ended_ = false;
  bool stopped_ = false;
  int wait_status_ = 0;
};

}  // namespace hawser::tool
