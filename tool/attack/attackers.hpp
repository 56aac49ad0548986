// SPDX-License-Identifier: Apache-2.0
// The attackers of a run, from the launcher's side: each is a process beside the ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tool/attack/attack.hpp"
#include "tool/run/child.hpp"
#include "tool/run/options.hpp"

namespace hawser::tool {

class Attackers {
 public:
  // Starts them; they look for the ranks by themselves. Throws InputError if one of them could not
  // see the traffic that it needs, and std::runtime_error.
  explicit Attackers(const RunOptions& options);

  // Ends them, by force if need be. Returns their results. If one reports none, what went wrong
  // with it is added to `complaints`.
  [[nodiscard]] std::vector<AttackResult> finish(std::vector<std::string>& complaints);

 private:
  std::vector<Attack> attacks_;
  std::vector<std::unique_ptr<Child>> children_;
};

// The report's text about the attacks. `dropped` and `overrun` count those of all ranks.
[[nodiscard]] std::string attack_text(const std::vector<AttackResult>& attacks,
                                      std::uint64_t dropped, std::uint64_t overrun, bool right);

}  // namespace hawser::tool
