// What a swarm found, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tool/storm/swarm.hpp"

namespace hawser::tool {

// How a failure is replayed and cut down, one command a line. `with`: more options, or "".
[[nodiscard]] std::string advice(std::uint64_t seed, std::string_view with);

[[nodiscard]] std::string to_text(const SwarmOptions& options, const SwarmResult& result,
                                  std::string_view with);
[[nodiscard]] nlohmann::json to_json(const SwarmOptions& options, const SwarmResult& result);

}  // namespace hawser::tool
