// SPDX-License-Identifier: Apache-2.0
#include "tool/run/launcher.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>

#include "engine/bootstrap/bootstrap.hpp"
#include "engine/system_error.hpp"
#include "tool/attack/attackers.hpp"
#include "tool/check/task_buffers.hpp"
#include "tool/error.hpp"
#include "tool/run/clock.hpp"
#include "tool/run/conclude.hpp"
#include "tool/run/interruption.hpp"
#include "tool/run/joined.hpp"
#include "tool/run/memory.hpp"
#include "tool/run/replay.hpp"
#include "tool/run/schedule.hpp"
#include "tool/run/summary.hpp"
#include "tool/run/watch.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

// The memory that a rank uses besides its buffers: code, engine slabs, scratch of the collectives
// (measured).
constexpr std::uint64_t kRankBytes = 96'000'000;
// The memory for the time of a collective: in the rank's list, while that grows, and in the lines
// that carry it.
constexpr std::uint64_t kTimeBytes = 32;
// A collective of the step, with its names, before and after its sizes are rounded.
constexpr std::uint64_t kTaskBytes = 2 * (sizeof(Task) + 64);

// Ctrl-C and the ends of children arrive as readable events while this lives. A signal that is
// ignored (nohup) stays out: the kernel would keep a blocked one all the same.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGCHLD}) sigaddset(&set, number);
    for (const int number : {SIGINT, SIGHUP}) {
      if (!is_ignored(number)) sigaddset(&set, number);
    }
    (void)::sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd_ < 0) throw engine::system_error("cannot make a signalfd");
  }
  // Signals that nobody has read are dropped, as the run that they were to end is over.
  ~SignalQueue() {
    signalfd_siginfo unread{};
    while (::read(fd_, &unread, sizeof unread) > 0) {
    }
    ::close(fd_);
    (void)::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_ = -1;
  sigset_t before_{};
};

// The needs of a rank besides its buffers, and what there is.
struct Share {
  std::uint64_t other_bytes = 0;
  std::uint64_t left_bytes = 0;

  // By what the buffers must be divided to fit; nothing if that is not enough.
  [[nodiscard]] std::optional<std::uint64_t> divisor(std::uint64_t buffer_bytes) const {
    constexpr std::uint64_t kSlackBytes = 1'000'000;  // divided sizes are rounded up
    if (left_bytes <= other_bytes + kSlackBytes) return std::nullopt;
    const std::uint64_t room = left_bytes - other_bytes - kSlackBytes;
    return buffer_bytes / room + (buffer_bytes % room != 0 ? 1 : 0);
  }
};

struct Outcome {
  WatchOutcome ranks;
  std::vector<AttackResult> attacks;
};

// Runs the ranks and the attackers. Afterwards signals end this process as usual: the report may go
// to a pipe that nobody reads.
Outcome run_ranks(const RunOptions& options, const std::vector<std::string>& arguments,
                  std::FILE* out) {
  Display display(out, options.ranks);  // its last words may block, when signals are free again
  SignalQueue signals;  // before the server, whose thread inherits the blocked signals
  std::vector<std::uint32_t> may_return;
  for (const TimedFault& fault : options.timed_faults) {
    if (fault.kind == TimedFault::Kind::restart_rank) may_return.push_back(*fault.rank);
  }
  engine::RendezvousServer server("127.0.0.1:0", options.ranks, may_return);
  const auto start = [&](std::uint32_t rank, std::uint32_t life) {
    std::vector<std::string> rank_arguments{"hawser", "rank"};
    rank_arguments.insert(rank_arguments.end(), arguments.begin(), arguments.end());
    engine::JobPlace place;
    place.rank = rank;
    place.size = options.ranks;
    place.local_size = options.ranks;
    place.rendezvous = server.address();
    return std::make_unique<Child>(rank, rank_arguments, environment_of(place, life));
  };
  Outcome outcome;
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) children.push_back(start(rank, 0));
  Attackers attackers(options);
  const auto over = [&server](std::uint32_t rank) { server.will_not_return(rank); };
  outcome.ranks = Watch(options, children, start, over, signals.fd(), display).run();
  std::vector<std::string> complaints;
  outcome.attacks = attackers.finish(complaints);
  for (const std::string& complaint : complaints) display.note(complaint);
  if (!complaints.empty() && outcome.ranks.code == ExitCode::ok) {
    outcome.ranks.code = ExitCode::wrong;
  }
  return outcome;
}

}  // namespace

void check_length(const RunOptions& options, const Schedule& schedule) {
  const std::uint64_t in_step = schedule.step.size();
  if (in_step * options.steps <= kMaxTimedTasks) return;
  throw InputError(
      fmt::format("{} of {} make {} collectives, but a run times at most {}; --steps {} would fit",
                  counted(options.steps, "step"), counted(in_step, "collective"),
                  in_step * options.steps, kMaxTimedTasks, kMaxTimedTasks / in_step));
}

void check_memory(const RunOptions& options, const Schedule& schedule, std::uint32_t local_ranks,
                  const MemoryRoom& room) {
  const std::uint64_t buffers = largest_buffer_bytes(schedule);
  const std::uint64_t times =
      (kTimeBytes * options.steps + kTaskBytes) * std::uint64_t{schedule.step.size()};
  const Share of_host{kRankBytes + times, room.host_bytes / local_ranks};
  const Share of_process{reserved_bytes(options, schedule) + times, room.process_bytes};
  const auto by_host = of_host.divisor(buffers);
  const auto by_process = of_process.divisor(buffers);
  if (by_host && *by_host <= 1 && by_process && *by_process <= 1) return;
  std::string advice;
  if (by_host && by_process) {
    const std::uint64_t divisor = options.scale * std::max(*by_host, *by_process);
    advice = options.microbenchmark ? fmt::format("--sizes up to {} bytes would fit",
                                                  options.microbenchmark->sizes.back() / divisor)
                                    : fmt::format("--scale {} would fit", divisor);
  }
  if (!by_process || *by_process > 1) {
    throw InputError(fmt::format(
        "a rank needs {} of memory, but the limits of a process (ulimit -v, ulimit -d) leave it "
        "{}; raise them{}",
        bytes_text(buffers + of_process.other_bytes), bytes_text(room.process_bytes),
        advice.empty() ? "" : ", or " + advice));
  }
  const std::uint64_t rank_bytes = buffers + of_host.other_bytes;
  throw InputError(fmt::format("{} ranks need {} of memory ({} each), {} are available; {}",
                               local_ranks, bytes_text(rank_bytes * local_ranks),
                               bytes_text(rank_bytes), bytes_text(room.host_bytes),
                               advice.empty() ? "fewer --ranks would fit" : advice));
}

ExitCode launch(const RunOptions& options, const std::vector<std::string>& arguments) {
  const std::uint64_t started = now_ns();
  const TimeLimit limit(options.timeout_s);  // ends a launcher that waits for its reader
  const Schedule schedule = make_schedule(workload_of(options), options.ranks, options.scale);
  check_length(options, schedule);
  check_memory(options, schedule, options.ranks, memory_room());
  const OutputFile report = report_file(options);
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) check_trace_file(options, rank);

  std::FILE* const out = options.json == "-" ? stderr : stdout;
  print_to(out, "{}\n", opening(options, schedule));
  std::fflush(out);
  const Outcome outcome = run_ranks(options, arguments, out);
  return conclude(options, report, schedule, outcome.ranks.results, outcome.ranks.code,
                  seconds(now_ns() - started), outcome.attacks);
}

}  // namespace hawser::tool
