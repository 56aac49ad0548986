// SPDX-License-Identifier: Apache-2.0
// Facts about an experiment, as pairs of words for the report's tables: the fabric's numbers, and
// the traffic's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tool/sim/findings.hpp"

namespace hawser::tool {

using Facts = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] Facts fabric_facts(const experiment::Plan& plan);
// The facts of a point, with the draws of that seed.
[[nodiscard]] Facts traffic_facts(const Findings& findings, std::size_t point, std::uint64_t seed);

// "3 flows", "1 flow".
[[nodiscard]] std::string count_of(std::uint64_t count, const char* what);

}  // namespace hawser::tool
