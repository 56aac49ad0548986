// SPDX-License-Identifier: Apache-2.0
// An experiment's runs as csv: the same bytes for the same plan.
#pragma once

#include <string>
#include <vector>

#include "sim/experiment/plan.hpp"
#include "tool/sim/runs.hpp"

namespace hawser::tool {

// A line each; lines end with LF. `plans` are those of the points.
[[nodiscard]] std::string runs_head(const std::vector<experiment::Plan>& plans);
[[nodiscard]] std::string runs_line(std::size_t run, const std::vector<experiment::Plan>& plans,
                                    const RunResult& result);
[[nodiscard]] std::string flows_head();
[[nodiscard]] std::string flows_lines(std::size_t run, const RunResult& result);
[[nodiscard]] std::string series_head();
[[nodiscard]] std::string series_lines(std::size_t run, const RunResult& result);

// Microseconds with six decimal places, which is exact; empty for values below 0.
[[nodiscard]] std::string exact_us(std::int64_t ps);

}  // namespace hawser::tool
