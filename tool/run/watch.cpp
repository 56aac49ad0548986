// SPDX-License-Identifier: Apache-2.0
#include "tool/run/watch.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "tool/run/clock.hpp"
#include "tool/run/conclude.hpp"

namespace hawser::tool {
namespace {

constexpr int kWakeMs = 100;
constexpr std::uint64_t kGraceNs = 3'000'000'000;  // from the request to end to SIGKILL
// How much longer than peer_timeout the others may take to notice a death, tell each other and
// close.
constexpr std::uint64_t kPatienceNs = 10'000'000'000;

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

bool comes_from_outside(int number) {
  return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP;
}

// The worse of two outcomes, ordered by cause: bad input makes ranks fail, and a crash makes peers
// fail.
int severity(ExitCode code) {
  switch (code) {
    case ExitCode::ok: return 0;
    case ExitCode::peer_failed: return 1;
    case ExitCode::wrong: return 2;
    case ExitCode::bad_input: return 3;
    case ExitCode::interrupted: return 4;
  }
  return 2;
}

}  // namespace

Watch::Watch(const RunOptions& options, std::vector<std::unique_ptr<Child>>& children, Start start,
             Over over, int signals, Display& display)
    : options_(options),
      children_(children),
      start_(std::move(start)),
      over_(std::move(over)),
      lives_(children.size()),
      signals_(signals),
      display_(display),
      results_(children.size()),
      started_ns_(now_ns()) {}

WatchOutcome Watch::run() {
  while (!all_ended()) {
    wait();
    read_signals();
    for (const auto& child : children_) read(*child);
    const std::uint64_t now = now_ns();
    look_after_processes(now);
    check_deadlines(now);
    display_.flush();
    if (kill_at_ns_ == 0) display_.refresh(now);
  }
  for (const auto& child : children_) read(*child);
  tell_how_long(now_ns());
  for (std::optional<RankResult>& result : results_) {
    if (result) outcome_.results.push_back(std::move(*result));
  }
  return std::move(outcome_);
}

bool Watch::all_ended() const {
  return std::none_of(children_.begin(), children_.end(),
                      [](const auto& child) { return child->running(); });
}

void Watch::worsen(ExitCode code) {
  if (severity(code) > severity(outcome_.code)) outcome_.code = code;
}

void Watch::wait() {
  std::vector<pollfd> fds{{signals_, POLLIN, 0}};
  for (const auto& child : children_) {
    if (child->report_fd() >= 0) fds.push_back({child->report_fd(), POLLIN, 0});
    if (child->output_fd() >= 0 && !display_.is_behind())
      fds.push_back({child->output_fd(), POLLIN, 0});
  }
  (void)::poll(fds.data(), fds.size(), kWakeMs);
}

void Watch::read_signals() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) == sizeof info) {
    const auto number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    ask_to_end(now_ns(), ExitCode::interrupted, signal_name(number));
  }
}

void Watch::read(Child& child) {
  for (RankMessage& message : child.read_messages()) {
    if (message.note) display_.note(fmt::format("rank {}: {}", child.rank(), *message.note));
    if (message.progress) display_.progress(child.rank(), std::move(*message.progress));
    if (message.result) results_[child.rank()] = std::move(message.result);
  }
  if (display_.is_behind() && child.running()) return;
  for (const std::string& line : child.read_output()) {
    display_.note(fmt::format("[rank {}] {}", child.rank(), line));
  }
}

void Watch::look_after_processes(std::uint64_t now) {
  for (auto& child : children_) {
    const bool was_stopped = child->stopped();
    if (!child->update()) continue;
    if (child->stopped()) display_.note(fmt::format("rank {} is stopped", child->rank()));
    if (was_stopped && child->running()) {
      display_.note(fmt::format("rank {} continues", child->rank()));
    }
    if (!child->running()) {
      read(*child);
      if (!start_again(child)) on_end(*child, now);
    }
  }
}

bool Watch::start_again(std::unique_ptr<Child>& child) {
  const std::uint32_t rank = child->rank();
  const int status = child->wait_status();
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (!killed || kill_at_ns_ != 0 || lives_[rank] >= options_.restarts_of(rank)) return false;
  display_.note(fmt::format("rank {} was killed by SIGKILL, and is restarted", rank));
  child = start_(rank, ++lives_[rank]);
  return true;
}

void Watch::on_end(const Child& child, std::uint64_t now) {
  const int status = child.wait_status();
  const std::optional<RankResult>& result = results_[child.rank()];
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && result && !result->failure) return;
  over_(child.rank());

  const bool asked = kill_at_ns_ != 0;
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    if (asked && comes_from_outside(number)) return;  // this watch ended it
    display_.note(fmt::format("rank {} was killed by {}", child.rank(), signal_name(number)));
    // A rank that was ended from outside is a failed peer. One that died by itself has a bug.
    worsen(comes_from_outside(number) ? ExitCode::peer_failed : ExitCode::wrong);
  } else if (result && result->failure) {
    const RankFailure& failure = *result->failure;
    if (asked && failure.code == ExitCode::interrupted) return;
    display_.note(fmt::format("rank {}: {}", child.rank(), failure.text));
    worsen(failure.code == ExitCode::interrupted ? ExitCode::peer_failed : failure.code);
    if (failure.code == ExitCode::bad_input) ask_to_end(now, ExitCode::bad_input, {});
  } else {
    display_.note(fmt::format("rank {} ended with status {} and no report", child.rank(),
                              WIFEXITED(status) ? WEXITSTATUS(status) : -1));
    worsen(ExitCode::wrong);
  }
  if (first_death_ns_ == 0) first_death_ns_ = now;
  patience_until_ns_ = now + options_.tunables.peer_timeout_ms * 1'000'000 +
                       options_.tunables.close_timeout_ms * 1'500'000 + kPatienceNs;
}

void Watch::ask_to_end(std::uint64_t now, ExitCode code, const std::string& why) {
  if (kill_at_ns_ != 0) return;
  kill_at_ns_ = now + kGraceNs;
  worsen(code);
  if (!why.empty()) display_.note(fmt::format("{}: ending all ranks", why));
  for (const auto& child : children_) {
    child->signal(SIGTERM);
    if (child->stopped()) child->signal(SIGKILL);  // it can't receive the request
  }
}

void Watch::check_deadlines(std::uint64_t now) {
  const bool any_stopped = std::any_of(children_.begin(), children_.end(),
                                       [](const auto& child) { return child->stopped(); });
  if (kill_at_ns_ == 0 && seconds(now - started_ns_) > options_.timeout_s) {
    ask_to_end(now, ExitCode::wrong, not_in_time(options_));
  }
  if (kill_at_ns_ == 0 && first_death_ns_ != 0 && now > patience_until_ns_ && !any_stopped) {
    std::string ranks;
    for (const auto& child : children_) {
      if (child->running()) ranks += fmt::format(" {}", child->rank());
    }
    ask_to_end(now, ExitCode::wrong,
               fmt::format("these ranks did not notice in time that others had ended:{}", ranks));
  }
  if (kill_at_ns_ != 0 && now > kill_at_ns_) {
    for (const auto& child : children_) child->signal(SIGKILL);
  }
}

void Watch::tell_how_long(std::uint64_t now) {
  if (first_death_ns_ == 0 || kill_at_ns_ != 0) return;
  display_.note(fmt::format("all ranks had ended {:.1f} s after the first failure",
                            seconds(now - first_death_ns_)));
}

}  // namespace hawser::tool
