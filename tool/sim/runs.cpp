// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/runs.hpp"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "tool/progress_line.hpp"
#include "tool/run/clock.hpp"
#include "tool/run/memory.hpp"
#include "tool/sim/parcel.hpp"
#include "tool/standard_output.hpp"
#include "tool/storm/forked.hpp"

namespace hawser::tool {
namespace {

using experiment::Trial;

constexpr int kPollMs = 50;

double own_cpu_s() {
  timespec used{};
  (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Visits the values in one order, for both directions.
template <class Visit>
void visit(RunResult& result, Visit&& one) {
  one(result.trial.sessions_up);
  one(result.trial.numbers);
  one(result.trial.flows);
  one(result.trial.lasted_ps);
  one(result.trial.slices);
  one(result.trial.links);
  one(result.trial.faults);
  one(result.cpu_s);
  one(result.memory_bytes);
}

// A run whose process is there, or has ended and waits for those before it.
struct Slot {
  std::unique_ptr<Parcel> parcel;
  std::unique_ptr<Forked> worker;  // null: not yet, or no more
  std::string failure;
  bool ended = false;
};

class Runs {
 public:
  Runs(const std::vector<RunName>& runs, const Work& work, unsigned jobs, std::FILE* progress)
      : runs_(runs), work_(work), jobs_(jobs), slots_(runs.size()), line_(progress) {}

  RunsEnd go(const std::function<bool()>& interrupted,
             const std::function<void(RunResult&&)>& take) {
    while (taken_ < runs_.size() && !end_.interrupted) {
      start_some();
      wait();
      for (std::size_t i = taken_; i < next_; ++i) look_after(slots_[i]);
      while (taken_ < runs_.size() && slots_[taken_].ended) give(taken_++, take);
      end_.interrupted = taken_ < runs_.size() && interrupted();
      show(now_ns());
    }
    for (Slot& slot : slots_) slot.worker.reset();  // which kills it
    for (; taken_ < runs_.size(); ++taken_) {
      if (slots_[taken_].ended) give(taken_, take);
    }
    return end_;
  }

 private:
  void start_some() {
    while (next_ < runs_.size() && under_way_ < jobs_) {
      Slot& slot = slots_[next_];
      try {
        slot.parcel = std::make_unique<Parcel>();
        slot.worker = std::make_unique<Forked>(
            [this, name = runs_[next_], &parcel = *slot.parcel] { be_worker(name, parcel); });
      } catch (const std::runtime_error& error) {
        slot.parcel.reset();
        if (under_way_ == 0) throw;
        // Descriptors or processes run short: with fewer runs at a time no result is lost.
        tell("{} concurrent runs instead of {}: {}\n", under_way_, jobs_, error.what());
        jobs_ = under_way_;
        return;
      }
      ++next_;
      ++under_way_;
    }
  }

  void be_worker(const RunName& name, Parcel& parcel) const {
    RunResult result;
    result.trial = work_(name);
    result.cpu_s = own_cpu_s();
    result.memory_bytes = peak_memory_bytes();
    visit(result, [&](const auto& part) { parcel.put(part); });
    parcel.send();
  }

  void wait() const {
    std::vector<pollfd> files;
    for (std::size_t i = taken_; i < next_; ++i) {
      if (slots_[i].worker && slots_[i].worker->fd() >= 0) {
        files.push_back({slots_[i].worker->fd(), POLLIN, 0});
      }
    }
    (void)::poll(files.data(), files.size(), files.size() < under_way_ ? 1 : kPollMs);
  }

  void look_after(Slot& slot) {
    if (!slot.worker || !slot.worker->update()) return;
    slot.failure = slot.worker->failure();
    slot.worker.reset();
    // At once: a run that waits for those before it keeps no descriptor.
    if (slot.failure.empty()) receive(slot);
    slot.ended = true;
    --under_way_;
    ++ended_;
  }

  static void receive(Slot& slot) {
    try {
      slot.parcel->receive();
    } catch (const std::runtime_error& error) {
      slot.failure = error.what();
    }
  }

  void give(std::size_t i, const std::function<void(RunResult&&)>& take) {
    RunResult result;
    result.name = runs_[i];
    result.failure = slots_[i].failure;
    if (result.failure.empty()) {
      visit(result, [&](auto& part) { slots_[i].parcel->take(part); });
    }
    slots_[i].parcel.reset();
    ++end_.done;
    take(std::move(result));
  }

  void show(std::uint64_t now) {
    if (!line_.is_due(now)) return;
    line_.show(now,
               fmt::format("{:3.0f}%  {} of {} runs  {} under way",
                           100 * static_cast<double>(ended_) / static_cast<double>(runs_.size()),
                           ended_, runs_.size(), under_way_));
  }

  const std::vector<RunName>& runs_;
  const Work& work_;
  std::size_t jobs_;
  std::vector<Slot> slots_;
  ProgressLine line_;
  std::size_t next_ = 0;   // the first that has not begun
  std::size_t taken_ = 0;  // runs before it were handed over
  std::size_t under_way_ = 0;
  std::size_t ended_ = 0;
  RunsEnd end_;
};

}  // namespace

RunsEnd run_all(const std::vector<RunName>& runs, const Work& work, unsigned jobs,
                const std::function<bool()>& interrupted, std::FILE* progress,
                const std::function<void(RunResult&&)>& take) {
  return Runs(runs, work, jobs, progress).go(interrupted, take);
}

}  // namespace hawser::tool
