// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/swarm.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <climits>
#include <ctime>
#include <memory>

#include <fmt/format.h>

#include "engine/descriptor.hpp"
#include "tool/run/clock.hpp"
#include "tool/storm/forked.hpp"
#include "tool/storm/overtime.hpp"
#include "tool/storm/progress.hpp"

namespace hawser::tool {
namespace {

constexpr int kPollMs = 50;
constexpr std::size_t kStartsAtOnce = 4;  // workers, between two looks at the rest
constexpr double kGraceS = 2;             // for storms that still run when the swarm ends
constexpr std::size_t kMostKinds = 100;

// A worker's memory that it shares with the swarm. Totals are read when it is gone, the rest at any
// time.
struct Slot {
  std::atomic<std::uint64_t> index{0};     // of the current seed, from `first` on
  std::atomic<std::uint64_t> began_ns{0};  // 0: none is
  std::atomic<std::uint64_t> cpu_at_begin_ns{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> packets{0};
  Totals totals;
};

// A storm allocates and frees a few hundred pages, in pieces of any size. A worker keeps the memory
// that it once had, for the next storm.
void keep_memory() {
  (void)::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that there is
  (void)::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

std::uint64_t own_cpu_ns() {
  timespec used{};
  (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(used.tv_nsec);
}

struct Common {
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stop{false};
};
// Goes through a pipe in one piece, since it is small.
struct Report {
  std::uint64_t seed = 0;
  std::array<char, 496> verdict{};
};
static_assert(sizeof(Report) <= PIPE_BUF && std::atomic<std::uint64_t>::is_always_lock_free);

class Swarm {
 public:
  Swarm(const SwarmOptions& options, const Storm& storm, std::FILE* progress)
      : options_(options),
        count_(options.last - options.first + 1),
        jobs_(static_cast<std::size_t>(std::min<std::uint64_t>(options.jobs, count_))),
        storm_(storm),
        began_(now_ns()),
        progress_(progress, count_, options.seconds) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    reports_ = engine::Descriptor(ends[0]);
    to_reports_ = engine::Descriptor(ends[1]);
    (void)::fcntl(reports_.get(), F_SETFL, O_NONBLOCK);
  }

  SwarmResult run(const std::function<bool()>& interrupted) {
    std::uint64_t stopped = 0;
    start_some();
    while (std::ranges::any_of(workers_, [](const auto& worker) { return worker != nullptr; })) {
      wait();
      take_reports();
      const std::uint64_t now = now_ns();
      for (std::size_t i = 0; i < workers_.size(); ++i) look_after(i, now);
      if (stopped == 0 && wants_end(now, interrupted)) {
        stopped = now;
        common_->stop = true;
      }
      if (stopped > 0 && seconds(now - stopped) > kGraceS) end_all();
      start_some();
      progress_.show(now, done(), packets(), result_.failures);
    }
    take_reports();
    return conclude(seconds(now_ns() - began_));
  }

 private:
  // Starts a few workers at a time: those that exist already are at work, and use the processors.
  void start_some() {
    for (std::size_t i = 0; i < kStartsAtOnce && workers_.size() < jobs_; ++i) {
      if (common_->stop || common_->next >= count_) return;
      slots_.push_back(std::make_unique<Shared<Slot>>());
      overtimes_.emplace_back(options_.limit_s);
      workers_.push_back(start(**slots_.back()));
    }
  }

  std::unique_ptr<Forked> start(Slot& slot) {
    return std::make_unique<Forked>([this, &slot] { work(slot); });
  }

  // The loop of a worker.
  void work(Slot& slot) {
    keep_memory();
    while (!common_->stop) {
      const std::uint64_t index = common_->next.fetch_add(1);
      if (index >= count_) return;
      slot.index = index;
      const std::uint64_t began = now_ns();
      slot.cpu_at_begin_ns = own_cpu_ns();
      slot.began_ns = began;
      const sim::Plan plan = sim::draw_plan(options_.first + index);
      const sim::StormOutcome outcome = storm_(plan, nullptr);
      slot.totals.add(plan, outcome, now_ns() - began);
      slot.packets += outcome.packets;
      if (!outcome.verdict.empty()) tell(options_.first + index, outcome.verdict);
      ++slot.done;
      slot.began_ns = 0;
    }
  }
  void tell(std::uint64_t seed, const std::string& verdict) {
    Report report;
    report.seed = seed;
    verdict.copy(report.verdict.data(), report.verdict.size() - 1);
    if (!options_.keep_going) common_->stop = true;
    (void)!::write(to_reports_.get(), &report, sizeof report);
  }

  // ---- the swarm itself
  void wait() {
    std::vector<pollfd> files{{reports_.get(), POLLIN, 0}};
    for (const auto& worker : workers_) {
      if (worker && worker->fd() >= 0) files.push_back({worker->fd(), POLLIN, 0});
    }
    (void)::poll(files.data(), files.size(), kPollMs);
  }

  void take_reports() {
    Report report;
    while (::read(reports_.get(), &report, sizeof report) == sizeof report) {
      add_failure({report.seed, report.verdict.data(), {}});
    }
  }

  void add_failure(const Failure& failure) {
    ++result_.failures;
    const std::string kind = kind_of(failure.verdict);
    auto found = std::ranges::find(result_.kinds, kind, &FailureKind::kind);
    if (found == result_.kinds.end()) {
      if (result_.kinds.size() == kMostKinds) {
        ++result_.unnamed;
        return;
      }
      result_.kinds.push_back({kind, 0, {}, failure});
      found = result_.kinds.end() - 1;
    }
    ++found->count;
    if (found->seeds.size() < FailureKind::kMostSeeds) found->seeds.push_back(failure.seed);
  }

  void look_after(std::size_t i, std::uint64_t now) {
    if (!workers_[i]) return;
    Forked& worker = *workers_[i];
    Slot& slot = **slots_[i];
    if (!worker.update()) {
      const std::uint64_t began = slot.began_ns;
      if (began == 0) return;
      const std::string verdict = overtimes_[i].look(now, worker.cpu_ns(), slot.cpu_at_begin_ns);
      if (verdict.empty() || slot.began_ns != began) return;  // or it is of the seed before
      worker.kill();
      (void)worker.wait(kGraceS);
      fail(i, verdict);
    } else if (const std::string failure = worker.failure(); !failure.empty()) {
      fail(i, slot.began_ns == 0 ? failure + ", between two seeds" : failure);
    } else {
      workers_[i].reset();
    }
  }

  // A worker is gone, and its seed with it.
  void fail(std::size_t i, const std::string& verdict) {
    Slot& slot = **slots_[i];
    add_failure({options_.first + slot.index, verdict, workers_[i]->last_words()});
    ++slot.done;
    slot.began_ns = 0;
    workers_[i].reset();
    if (!options_.keep_going) common_->stop = true;
    overtimes_[i] = Overtime(options_.limit_s);
    if (!common_->stop) workers_[i] = start(slot);
  }

  [[nodiscard]] bool wants_end(std::uint64_t now, const std::function<bool()>& interrupted) {
    if (interrupted()) result_.interrupted = true;
    const bool late = options_.seconds > 0 && seconds(now - began_) >= options_.seconds;
    return result_.interrupted || late || common_->stop;
  }

  // Storms that have not ended by now are neither waited for nor counted.
  void end_all() {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i]) continue;
      workers_[i].reset();
      const Slot& slot = **slots_[i];
      if (slot.began_ns == 0) continue;
      const std::uint64_t seed = options_.first + slot.index;
      result_.goes_on_at = std::min(result_.goes_on_at.value_or(seed), seed);
    }
  }

  [[nodiscard]] std::uint64_t done() const {
    std::uint64_t sum = 0;
    for (const auto& slot : slots_) sum += (*slot)->done;
    return sum;
  }
  [[nodiscard]] std::uint64_t packets() const {
    std::uint64_t sum = 0;
    for (const auto& slot : slots_) sum += (*slot)->packets;
    return sum;
  }

  SwarmResult conclude(double wall_s) {
    for (const auto& slot : slots_) result_.totals.merge((*slot)->totals);
    result_.done = done();
    result_.wall_s = wall_s;
    const std::uint64_t next = common_->next;
    if (!result_.goes_on_at && next < count_) result_.goes_on_at = options_.first + next;
    return std::move(result_);
  }

  SwarmOptions options_;
  std::uint64_t count_;
  std::size_t jobs_;  // workers, once all have started
  const Storm& storm_;
  std::uint64_t began_;
  SwarmProgress progress_;
  Shared<Common> common_;
  engine::Descriptor reports_;
  engine::Descriptor to_reports_;
  std::vector<std::unique_ptr<Shared<Slot>>> slots_;
  std::vector<std::unique_ptr<Forked>> workers_;  // null: gone
  std::vector<Overtime> overtimes_;
  SwarmResult result_;
};

}  // namespace

std::string kind_of(std::string_view verdict) {
  std::string kind;
  for (const char letter : verdict) {
    if (std::isdigit(static_cast<unsigned char>(letter)) == 0) {
      kind.push_back(letter);
    } else if (kind.empty() || kind.back() != '#') {
      kind.push_back('#');
    }
  }
  return kind;
}

SwarmResult run_swarm(const SwarmOptions& options, const Storm& storm,
                      const std::function<bool()>& interrupted, std::FILE* progress) {
  return std::make_unique<Swarm>(options, storm, progress)->run(interrupted);
}

}  // namespace hawser::tool
