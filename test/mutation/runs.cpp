// SPDX-License-Identifier: Apache-2.0
#include "test/mutation/runs.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "sim/storm/storm.hpp"
#include "test/mutation/mutant.hpp"

namespace hawser {
std::uint32_t mutant_on = 0;
bool mutant_reached = false;
}  // namespace hawser

namespace hawser::mutation {

namespace {

constexpr rlim_t kMostMemory = rlim_t{4} << 30;
constexpr std::uint64_t kLeastPatienceMs = 2000;
constexpr std::uint64_t kUnknownPatienceMs = 60'000;
constexpr std::uint64_t kTimesBaseline = 30;

// A child's message through its pipe, small enough to be written at once.
struct Said {
  std::uint64_t seed = 0;
  std::uint64_t digest = 0;
  std::uint64_t events = 0;
  std::uint64_t cpu_ms = 0;
  bool done = false;  // false: the storm of this seed begins
  bool reached = false;
  std::array<char, 200> verdict{};
};

struct Child {
  Job job;
  pid_t process = 0;
  int said = -1;
  int errors = -1;
  std::uint64_t seed = 0;  // of the running storm
};

std::uint64_t cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

// Kills this process once it has used so much CPU time.
void limit_cpu(std::uint64_t ms) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(ms / 1000);
  timer.it_value.tv_usec = static_cast<suseconds_t>(ms % 1000 * 1000);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

void say(int to, const Said& said) {
  if (write(to, &said, sizeof said) != static_cast<ssize_t>(sizeof said)) _exit(0);
}

[[noreturn]] void run_child(const Job& job, int to, const Baselines& baselines) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit memory{kMostMemory, kMostMemory};
  setrlimit(RLIMIT_AS, &memory);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  mutant_on = job.mutant;
  for (const std::uint64_t seed : job.seeds) {
    Said said;
    said.seed = seed;
    say(to, said);
    const auto known = baselines.find(seed);
    limit_cpu(known == baselines.end()
                  ? kUnknownPatienceMs
                  : std::max(kLeastPatienceMs, known->second.cpu_ms * kTimesBaseline));
    mutant_reached = false;
    const std::uint64_t began = cpu_ms();
    const sim::StormOutcome outcome = sim::run_storm(sim::draw_plan(seed));
    said.cpu_ms = cpu_ms() - began;
    said.done = true;
    said.digest = outcome.digest;
    said.events = outcome.events;
    said.reached = mutant_reached;
    outcome.verdict.copy(said.verdict.data(), said.verdict.size() - 1);
    say(to, said);
  }
  _exit(0);
}

Child start(Job job, const Baselines& baselines) {
  std::array<int, 2> said{};
  std::array<int, 2> errors{};
  if (pipe(said.data()) != 0 || pipe(errors.data()) != 0) {
    std::perror("pipe");
    std::exit(2);
  }
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process < 0) {
    std::perror("fork");
    std::exit(2);
  }
  if (process == 0) {
    close(said[0]);
    close(errors[0]);
    dup2(errors[1], STDERR_FILENO);
    run_child(job, said[1], baselines);
  }
  close(said[1]);
  close(errors[1]);
  return {std::move(job), process, said[0], errors[0], 0};
}

// The first line of a child's standard error. A path in it begins with proto/.
std::string first_error(int from) {
  std::array<char, 400> text{};
  const ssize_t size = read(from, text.data(), text.size() - 1);
  std::string line(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  line.resize(std::min(line.size(), line.find('\n')));
  const std::size_t folder = line.find("proto/");
  const bool is_path = line.starts_with('/') && folder != std::string::npos;
  return is_path ? line.substr(folder) : line;
}

// The child has ended. Tells the fate of the storm that was running.
Report last_report(Child& child) {
  int status = 0;
  waitpid(child.process, &status, 0);
  Report report;
  report.seed = child.seed;
  report.reached = true;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) {
    report.kind = Report::Kind::hang;
    report.result.verdict = "does not end";
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    report.kind = Report::Kind::crash;
    report.result.verdict = first_error(child.errors);
    if (report.result.verdict.empty()) {
      const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      report.result.verdict = signal != 0 ? strsignal(signal) : "exits";
    }
  }
  close(child.said);
  close(child.errors);
  return report;
}

// Handles a child's next message. False if the child has ended.
bool hear(Child& child) {
  Said said;
  const ssize_t size = read(child.said, &said, sizeof said);
  if (size == static_cast<ssize_t>(sizeof said)) {
    child.seed = said.seed;
    if (!said.done) return true;
    Report report;
    report.kind = Report::Kind::storm;
    report.seed = said.seed;
    report.reached = said.reached;
    report.result = {said.verdict.data(), said.digest, said.events, said.cpu_ms};
    if (child.job.heard(report)) return true;
    kill(child.process, SIGKILL);
    waitpid(child.process, nullptr, 0);
    close(child.said);
    close(child.errors);
    return false;
  }
  (void)child.job.heard(last_report(child));
  return false;
}

}  // namespace

void run_jobs(std::vector<Job> jobs, std::uint32_t at_once, const Baselines& baselines) {
  std::vector<Child> children;
  std::size_t next = 0;
  while (next < jobs.size() || !children.empty()) {
    while (next < jobs.size() && children.size() < at_once) {
      children.push_back(start(std::move(jobs[next++]), baselines));
    }
    std::vector<pollfd> waits;
    for (const Child& child : children) waits.push_back({child.said, POLLIN, 0});
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    for (std::size_t i = children.size(); i-- > 0;) {
      if (waits[i].revents != 0 && !hear(children[i])) {
        children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
}

}  // namespace hawser::mutation
