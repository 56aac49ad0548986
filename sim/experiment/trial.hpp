// SPDX-License-Identifier: Apache-2.0
// One run of an experiment: one sender, one seed, at one point of the ranges. Its results are
// numbers that follow from the run alone: they are the same on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/experiment/aftermath.hpp"
#include "sim/experiment/plan.hpp"

namespace hawser::experiment {

// Times in picoseconds since the traffic's begin; -1: never.
struct FlowResult {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t step = 0;  // ideal.hpp
  std::uint64_t bytes = 0;
  std::int64_t started_ps = -1;
  std::int64_t received_ps = -1;
  std::int64_t ended_ps = -1;
  std::int64_t ideal_ps = 0;  // from its start to its end, at best

  [[nodiscard]] bool has_ended() const { return ended_ps >= 0; }
  [[nodiscard]] std::int64_t took_ps() const { return ended_ps - started_ps; }
  [[nodiscard]] std::int64_t excess_ps() const { return took_ps() - ideal_ps; }
};

// Numbers over all flows. A number is missing if flows or sessions that it needs have not ended.
struct TrialNumbers {
  std::uint64_t flows = 0;
  std::uint64_t ended = 0;
  std::uint64_t bytes = 0;                                        // of their payload
  std::optional<std::int64_t> first_ps, p50_ps, p99_ps, last_ps;  // of ends; percentiles of times
  std::optional<std::int64_t> p50_excess_ps, p99_excess_ps, p99_step_excess_ps;
  std::int64_t ideal_ps = 0;  // of the last end
  std::uint64_t data_packets = 0;
  std::uint64_t retransmitted = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t dropped = 0;  // packets on links, as the next four
  std::uint64_t trimmed = 0;
  std::uint64_t marked = 0;
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  AftermathNumbers aftermath;
  std::uint64_t digest = 0;  // of every packet that came to a port

  // The value of a metric; nothing if the run has none.
  [[nodiscard]] std::optional<double> value(Metric metric) const;
};

// The time at which a fault begins or ends.
struct FaultMark {
  std::int64_t at_ps = 0;
  bool ends = false;
};

struct Trial {
  static constexpr std::size_t kSlices = 200;

  bool sessions_up = false;
  TrialNumbers numbers;
  std::vector<FlowResult> flows;      // in the matrix's order
  std::int64_t lasted_ps = 0;         // until the last end, or until the run was given up
  std::vector<std::uint64_t> slices;  // bytes that came to ports, in kSlices parts of that time
  std::vector<std::uint64_t> links;   // bytes that each link took since the traffic's begin
  std::vector<FaultMark> faults;      // in the order of time
};

// The nearest-rank percentile, `part` of `whole`, of sorted values. There is at least one value.
[[nodiscard]] std::int64_t percentile(const std::vector<std::int64_t>& sorted, std::uint64_t part,
                                      std::uint64_t whole);

// The plan must have no error (complaint_about).
[[nodiscard]] Trial run_trial(const Plan& plan, std::string_view sender, std::uint64_t seed);

}  // namespace hawser::experiment
