// SPDX-License-Identifier: Apache-2.0
// The results that an experiment's runs have in common: each sender's figures at each point over
// the seeds, and whether the expectation holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tool/sim/runs.hpp"

namespace hawser::tool {

// A run, without its single flows.
struct KeptRun {
  std::uint64_t seed = 0;
  std::string failure;
  bool sessions_up = false;
  experiment::TrialNumbers numbers;
  double cpu_s = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<std::int64_t> took_ps;  // of flows, sorted; thinned evenly if they are very many
  std::int64_t lasted_ps = 0;
  std::vector<std::uint64_t> slices;
  std::vector<experiment::FaultMark> faults;
  std::vector<std::uint64_t> links;  // of the first seed only

  [[nodiscard]] bool has_ended() const {
    return failure.empty() && sessions_up && numbers.ended == numbers.flows;
  }
};

// One sender at one point; its runs in the order of their seeds.
struct Group {
  std::size_t point = 0;
  std::size_t sender = 0;
  std::vector<KeptRun> runs;

  // The median over the runs (the lower one of two); nothing if one of them has no such number.
  [[nodiscard]] std::optional<double> median(experiment::Metric metric) const;
  // The worst figure of these runs; nothing if one of them has no such number.
  [[nodiscard]] std::optional<double> worst(experiment::Metric metric) const;
  [[nodiscard]] double cpu_s() const;
};

class Findings {
 public:
  // `plans` are those of the points, and outlive it.
  explicit Findings(const std::vector<experiment::Plan>& plans);

  void add(const RunResult& result);

  [[nodiscard]] const std::vector<experiment::Plan>& plans() const { return plans_; }
  // By point, then by sender; groups without runs are included.
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] const Group& group(std::size_t point, std::size_t sender) const {
    return groups_[point * plans_.front().senders.size() + sender];
  }
  [[nodiscard]] std::size_t runs() const { return runs_; }
  [[nodiscard]] double cpu_s() const;
  [[nodiscard]] std::uint64_t memory_bytes() const;  // of the largest process

  // Whether every run of the first sender meets the expectation, and no run has died.
  [[nodiscard]] bool holds() const;
  // The same in a sentence or two.
  [[nodiscard]] std::string verdict() const;
  // A complaint about the costs that are more than twice those in the plan, if `share` of the runs
  // were made; may be empty.
  [[nodiscard]] std::string excess_of_cost(double share) const;

 private:
  struct Worst {
    const Group* group = nullptr;
    const KeptRun* run = nullptr;
    std::optional<double> value;
  };
  [[nodiscard]] std::optional<Worst> worst_run() const;
  [[nodiscard]] std::string place_of(const Group& group, const KeptRun& run) const;
  [[nodiscard]] std::string who_died() const;

  const std::vector<experiment::Plan>& plans_;
  std::vector<Group> groups_;
  std::size_t runs_ = 0;
};

// "255.7 us", a value in words for people.
[[nodiscard]] std::string said(experiment::Metric metric, double value);

}  // namespace hawser::tool
