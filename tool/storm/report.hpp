// SPDX-License-Identifier: Apache-2.0
// The findings of a swarm, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tool/storm/swarm.hpp"

namespace hawser::tool {

// The beginning of the commands that a report proposes, and their options besides the seeds.
struct Wording {
  std::string command = "hawser storm";
  std::string of_one{};    // for one seed: " --seek path_state:DOWN"
  std::string of_swarm{};  // the same, and more
};

// How to replay a failure and cut it down, one command a line.
[[nodiscard]] std::string advice(std::uint64_t seed, const Wording& wording);

[[nodiscard]] std::string to_text(const SwarmOptions& options, const SwarmResult& result,
                                  const Wording& wording);
[[nodiscard]] nlohmann::json to_json(const SwarmOptions& options, const SwarmResult& result);

}  // namespace hawser::tool
