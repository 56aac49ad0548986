// SPDX-License-Identifier: Apache-2.0
// The attackers of a run, from the launcher's side: a process each, beside the ranks.
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
  // see what it must, and std::runtime_error.
  explicit Attackers(const RunOptions& options);

  // Ends them, by force if need be. What they did; of one that did not tell, what is wrong with it
  // goes to `complaints`.
  [[nodiscard]] std::vector<AttackResult> finish(std::vector<std::string>& complaints);

 private:
  std::vector<Attack> attacks_;
  std::vector<std::unique_ptr<Child>> children_;
};

// How the report tells of it. `drops` of all ranks.
[[nodiscard]] std::string attack_text(const std::vector<AttackResult>& attacks,
                                      std::uint64_t dropped, std::uint64_t overrun, bool right);

}  // namespace hawser::tool
