// SPDX-License-Identifier: Apache-2.0
#include "tool/run/replay.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tool/run/clock.hpp"

namespace hawser::tool {
namespace {

// Enough for a step of GPT-2 in one batch, so that its buckets follow each other without pause.
constexpr std::uint64_t kBatchBytes = std::uint64_t{640} << 20;
// A process's memory before its engine starts. Like all these estimates it is on the safe side.
constexpr std::uint64_t kProgramBytes = 100'000'000;
// An engine reserves memory for all its limits at the start.
constexpr std::uint64_t kEngineReserves = 120'000'000;
constexpr std::uint64_t kNicReserves = 12'000'000;           // for what it receives
constexpr std::uint64_t kFaultsReserve = 72'000'000;         // at a NIC, for packets held back
constexpr std::uint64_t kCommunicatorReserves = 18'000'000;  // scratch memory
constexpr std::uint64_t kThreadReserves = 80'000'000;        // its stack and heap
constexpr std::size_t kMismatchesTold = 5;
// The set-up runs before the first step, and takes no part of the run's progress.
constexpr std::uint32_t kInitStep = ~std::uint32_t{0};

// Adds its own lifetime to a sum of ns. An exception may end it.
class TimeAdder {
 public:
  explicit TimeAdder(std::uint64_t& sum) : sum_(sum), began_(now_ns()) {}
  ~TimeAdder() { sum_ += now_ns() - began_; }
  TimeAdder(const TimeAdder&) = delete;
  TimeAdder& operator=(const TimeAdder&) = delete;

 private:
  std::uint64_t& sum_;
  std::uint64_t began_;
};

}  // namespace

std::uint64_t arena_bytes(const Schedule& schedule, std::uint64_t batch_budget) {
  std::uint64_t largest = 0;
  for (const auto* tasks : {&schedule.init, &schedule.step}) {
    for (const std::span<const Task> batch : make_batches(*tasks, schedule.layout, batch_budget)) {
      std::uint64_t bytes = 0;
      for (const Task& task : batch) bytes += TaskBuffers::footprint(task, schedule.layout);
      largest = std::max(largest, bytes);
    }
  }
  return largest;
}

std::uint64_t reserved_bytes(const RunOptions& options, const Schedule& schedule) {
  std::set<GroupKind> kinds{GroupKind::world};
  for (const auto* tasks : {&schedule.init, &schedule.step}) {
    for (const Task& task : *tasks) kinds.insert(task.group);
  }
  const bool has_faults = !options.engine_faults(0).empty();
  // One thread more may serve the rendezvous, and another one writes the trace.
  const std::uint64_t threads = options.threads + 1 + (options.trace.empty() ? 0 : 1);
  return kEngineReserves + options.nics * (kNicReserves + (has_faults ? kFaultsReserve : 0)) +
         kinds.size() * kCommunicatorReserves + threads * kThreadReserves;
}

std::uint64_t batch_budget(const RunOptions& options, const Schedule& schedule,
                           const MemoryRoom& room, std::uint32_t local_ranks) {
  // Half of the available memory: engines and the kernel's socket buffers need the rest.
  const std::uint64_t share = room.host_bytes / local_ranks / 2;
  // All ranks must make the same batches, so what this process has by now does not count.
  const std::uint64_t other = kProgramBytes + reserved_bytes(options, schedule);
  const std::uint64_t left = room.limit_bytes - std::min(room.limit_bytes, other);
  return std::max(largest_buffer_bytes(schedule), std::min({kBatchBytes, share, left}));
}

Replay::Replay(const RunOptions& options, const Schedule& schedule, std::uint32_t rank,
               std::uint64_t batch_budget, BufferArena& arena, Monitor& monitor, RankResult& result)
    : options_(options),
      schedule_(schedule),
      rank_(rank),
      budget_(batch_budget),
      arena_(arena),
      monitor_(monitor),
      result_(result) {}

double Replay::cost(std::span<const Task> tasks) const {
  double sum = 0;
  for (const Task& task : tasks) {
    sum += static_cast<double>(expected_receive_bytes(task, schedule_.layout));
  }
  return sum;
}

// Ranks may be at most a step apart when one fails: there is a barrier in every step.
void Replay::begin_point(std::uint64_t point) {
  point_ = point;
  result_.task_ns.resize(point == 0 ? 0 : (point - 1) * schedule_.step.size());
  result_.verified_times = result_.task_ns.size();
  const auto [mark, is_new] = marks_.try_emplace(
      point, Mark{result_.verified_bytes, result_.verified_tasks, result_.operations});
  result_.verified_bytes = mark->second.verified_bytes;
  result_.verified_tasks = mark->second.verified_tasks;
  result_.operations = mark->second.operations;
  marks_.erase(marks_.upper_bound(point), marks_.end());
  if (is_new && point >= 2) marks_.erase(marks_.begin(), marks_.lower_bound(point - 1));
}

void Replay::run(Collectives& collectives, std::uint64_t from) {
  collectives_ = &collectives;
  if (from == 0) {
    begin_point(0);
    run_tasks(schedule_.init, kInitStep, 0, 0);
    from = 1;
  }
  for (auto step = static_cast<std::uint32_t>(from - 1); step < options_.steps; ++step) {
    begin_point(step + 1);
    // Quotients of whole numbers, so that a fault at 1/3 falls exactly on the start of a step.
    run_tasks(schedule_.step, step, static_cast<double>(step) / options_.steps,
              static_cast<double>(step + 1) / options_.steps);
  }
  collectives_->barrier();
}

void Replay::run_tasks(std::span<const Task> tasks, std::uint32_t step, double begin, double end) {
  const double total = cost(tasks);
  double done = 0;
  for (const std::span<const Task> batch : make_batches(tasks, schedule_.layout, budget_)) {
    const double from = begin + (end - begin) * done / total;
    done += cost(batch);
    const bool last = batch.data() + batch.size() == tasks.data() + tasks.size();
    run_batch(batch, step, from, last ? end : begin + (end - begin) * done / total);
  }
}

void Replay::run_batch(std::span<const Task> batch, std::uint32_t step, double begin, double end) {
  const std::uint64_t started = now_ns();
  arena_.clear();
  std::vector<TaskBuffers> buffers;
  buffers.reserve(batch.size());
  for (const Task& task : batch) {
    buffers.emplace_back(task, schedule_.layout, rank_, options_.seed, step, arena_);
    buffers.back().fill();
    collectives_->progress();
  }
  const std::uint64_t filled = now_ns();
  collectives_->barrier();
  communicate(batch, buffers, step, begin, end);
  for (const TaskBuffers& task : buffers) {
    if (task.task().operation == Operation::atomics) collectives_->exchange_records(task);
  }
  collectives_->barrier();
  const std::uint64_t answered = now_ns();
  verify(buffers, step);
  result_.verified_times = result_.task_ns.size();
  result_.check_ns += filled - started + (now_ns() - answered);
}

void Replay::communicate(std::span<const Task> batch, const std::vector<TaskBuffers>& buffers,
                         std::uint32_t step, double begin, double end) {
  const TimeAdder communicating(result_.communication_ns);
  const double total = cost(batch);
  double done = 0;
  for (const TaskBuffers& task : buffers) {
    const double from = begin + (end - begin) * done / total;
    const std::uint64_t expected = expected_receive_bytes(task.task(), schedule_.layout);
    done += static_cast<double>(expected);
    const bool last = &task == &buffers.back();
    const double to = last ? end : begin + (end - begin) * done / total;
    const std::uint64_t task_started = now_ns();
    monitor_.begin_task(task_started, from, to, expected);
    collectives_->run(task);
    const std::uint64_t task_ended = now_ns();
    monitor_.end_task(task_ended);
    if (step != kInitStep) result_.task_ns.push_back(task_ended - task_started);
  }
}

void Replay::verify(const std::vector<TaskBuffers>& buffers, std::uint32_t step) {
  for (const TaskBuffers& task : buffers) {
    const TaskBuffers::Verdict verdict = task.verify();
    result_.verified_bytes += verdict.bytes;
    ++result_.verified_tasks;
    const std::string place = fmt::format(
        "step {}, {} ({})", step == kInitStep ? std::string("set-up") : std::to_string(step),
        task.task().stage, to_string(task.task().operation));
    if (const auto& found = verdict.mismatch) {
      note_wrong(task.task(), step, found->wrong,
                 fmt::format("{}: {} wrong, the first at {}: {} instead of {}", place, found->wrong,
                             found->first, found->found, found->expected));
    }
    if (is_one_sided(task.task().operation)) {
      for (const std::string& text : collectives_->wrong_counters()) {
        note_wrong(task.task(), step, 1, fmt::format("{}: {}", place, text));
      }
    }
    collectives_->progress();
  }
  result_.damaged_guard_bytes += arena_.damaged_guard_bytes();
}

void Replay::note_wrong(const Task& task, std::uint32_t step, std::uint64_t elements,
                        std::string text) {
  result_.wrong_elements += elements;
  if (step != kInitStep) {
    const std::uint64_t place = task.index - schedule_.init.size();
    result_.wrong_of_task[step * schedule_.step.size() + place] += elements;
  }
  if (result_.wrong.size() < kMismatchesTold) result_.wrong.push_back(std::move(text));
}

}  // namespace hawser::tool
