// SPDX-License-Identifier: Apache-2.0
// Cuts a plan that fails down to the fewest faults, messages, hosts and odd tunables with which it
// still fails in the same way.
//
// The method is delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
// failure-inducing input", 2002). Parts are left out in halves, quarters and so on, down to one by
// one, for as long as the rest fails. The result can spare none of its parts alone. The caller
// decides what a failure is; the answer must be the same each time for the same plan.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/storm/plan.hpp"

namespace hawser::sim {

// The parts 0 to n-1 fail together. Returns some, in ascending order, that still fail and of which
// none can be left out. It calls `fails` at most about n*n/2 times, and few more than 2*log(n)
// times if one part is to blame.
[[nodiscard]] std::vector<std::uint32_t> fewest(
    std::size_t n, const std::function<bool(std::span<const std::uint32_t>)>& fails);

class Shrinker {
 public:
  // Never called with a plan that can't be run (plan_check.hpp), if the first one can be.
  using Fails = std::function<bool(const Plan&)>;
  // Called after each stage: what was cut, from how many to how many.
  using Told = std::function<void(std::string_view what, std::size_t before, std::size_t after)>;

  // Tries at most `limit` plans; then it returns the best so far.
  Shrinker(Fails fails, Told told, std::uint64_t limit)
      : fails_(std::move(fails)), told_(std::move(told)), limit_(limit) {}

  // The plan must fail.
  [[nodiscard]] Plan shrink(Plan plan);
  [[nodiscard]] std::uint64_t asked() const { return asked_; }

 private:
  [[nodiscard]] bool still_fails(const Plan& plan);
  // Takes the candidate if it fails.
  bool take(Plan& plan, Plan candidate);
  void cut_faults(Plan& plan);
  void cut_closings(Plan& plan);
  void cut_calls(Plan& plan);
  void cut_messages(Plan& plan);
  void cut_receives(Plan& plan);
  void cut_one_sided(Plan& plan);
  void cut_hosts(Plan& plan);
  void cut_nics(Plan& plan);
  void cut_switches(Plan& plan);
  void cut_tunables(Plan& plan);
  void shorten_faults(Plan& plan);
  void plain_hosts(Plan& plan);
  void plain_traffic(Plan& plan);
  void heal_early(Plan& plan);

  Fails fails_;
  Told told_;
  std::uint64_t limit_;
  std::uint64_t asked_ = 0;
};

// How many tunables differ from small_world().
[[nodiscard]] std::size_t odd_tunables(const Plan& plan);

}  // namespace hawser::sim
