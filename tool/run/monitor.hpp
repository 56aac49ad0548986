// SPDX-License-Identifier: Apache-2.0
// A rank's work besides communication: it notices stalls, applies its timed faults, reports its
// progress, and checks whether it was asked to end. The replay calls tick() whenever it has waited.
// Times are nanoseconds of one monotonic clock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "hawser/engine.hpp"
#include "tool/run/fault_plan.hpp"
#include "tool/run/message_sink.hpp"
#include "tool/run/options.hpp"
#include "tool/run/path_log.hpp"

namespace hawser::tool {

class Monitor {
 public:
  // Engine::inject_fault, as a rule.
  using InjectFault = std::function<Status(std::size_t nic, std::string_view words)>;

  // `life` counts the processes that were this rank before.
  Monitor(const RunOptions& options, std::uint32_t rank, std::uint32_t life, InjectFault inject,
          const Endpoint& endpoint, PathLog& paths, MessageSink& sink);

  // All ranks are there: the result's times count from this moment.
  void begin_run(std::uint64_t now);
  // Begins a task that takes the run from the fraction `begin` to `end`, in which about
  // `receive_bytes` arrive. Faults whose moment is `begin` happen now.
  void begin_task(std::uint64_t now, double begin, double end, std::uint64_t receive_bytes);
  void end_task(std::uint64_t now);

  // Looks at most once in 50 us.
  void tick(std::uint64_t now);

  // The part of the run that the task, or the last one, belongs to.
  [[nodiscard]] When when() const { return classify(window_, begin_, end_); }
  [[nodiscard]] const std::vector<Injected>& injected() const { return injected_; }
  // By When, each with the position of its task.
  [[nodiscard]] const std::array<Stall, 3>& stalls() const { return stalls_; }

 private:
  [[nodiscard]] double position(const EndpointStats& stats) const;
  void watch_for_stalls(std::uint64_t now, const EndpointStats& stats);
  void end_stall(std::uint64_t now);
  void apply_faults(double position, std::uint64_t now);
  void apply(std::uint32_t index, std::uint64_t now);
  void report(std::uint64_t now, double position);

  InjectFault inject_;
  const Endpoint& endpoint_;
  PathLog& paths_;
  MessageSink& sink_;
  const std::vector<TimedFault>& all_faults_;
  std::vector<std::uint32_t> faults_;  // indices of this rank's, by time
  std::size_t next_fault_ = 0;
  std::vector<Injected> injected_;
  std::uint64_t begun_ns_ = 0;
  FaultWindow window_;

  bool in_task_ = false;
  double begin_ = 0;
  double end_ = 0;
  std::uint64_t expected_bytes_ = 1;
  std::uint64_t bytes_at_begin_ = 0;

  std::uint64_t last_tick_ns_ = 0;
  std::uint64_t last_moved_ns_ = 0;   // the last arrival or completion
  std::uint64_t moved_ = 0;           // the arrivals and completions by then
  std::uint64_t longest_gap_ns_ = 0;  // between ticks since then
  std::array<Stall, 3> stalls_{};

  std::uint64_t last_report_ns_ = 0;
};

[[nodiscard]] std::vector<NicSample> sample_nics(const Endpoint& endpoint);

}  // namespace hawser::tool
