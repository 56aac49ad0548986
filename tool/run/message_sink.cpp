// SPDX-License-Identifier: Apache-2.0
#include "tool/run/message_sink.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include <fmt/format.h>

#include "tool/run/clock.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {

PipeSink::PipeSink(int fd) : fd_(fd) {
  (void)::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  (void)::signal(SIGPIPE, SIG_IGN);  // a reader that has gone must not kill the rank
}

PipeSink::~PipeSink() {
  // Without a limit: a launcher that is stopped, or waits for its own reader, reads later. When it
  // is gone, a write fails (EPIPE), and poll returns with POLLERR.
  while (left() > 0) {
    if (write_some()) continue;
    if (errno != EAGAIN) break;
    pollfd writable{fd_, POLLOUT, 0};
    (void)::poll(&writable, 1, -1);
  }
  ::close(fd_);
}

bool PipeSink::write_some() {
  const ssize_t written = ::write(fd_, backlog_.data() + written_, left());
  if (written < 0) return errno == EINTR;
  written_ += static_cast<std::size_t>(written);
  if (2 * written_ < backlog_.size()) return true;  // a move for each write would take long
  backlog_.erase(0, written_);
  written_ = 0;
  return true;
}

void PipeSink::send(const RankMessage& message) {
  const bool must = message.note || message.result || message.attack;
  if (must || left() < kBacklogBytes) backlog_ += to_lines(message);
  while (left() > 0 && write_some()) {
  }
}

void ConsoleSink::send(const RankMessage& message) {
  if (message.note) tell("rank {}: {}\n", rank_, *message.note);
  if (!message.progress || rank_ != 0) return;
  constexpr std::uint64_t kIntervalNs = 2'000'000'000;
  const std::uint64_t now = now_ns();
  if (now - last_ns_ < kIntervalNs) return;
  last_ns_ = now;
  tell("{:3.0f}% of the run, rank 0 of {}\n", 100 * message.progress->done, ranks_);
}

}  // namespace hawser::tool
