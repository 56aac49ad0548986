// SPDX-License-Identifier: Apache-2.0
// The end of a run, wherever the results have come together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tool/exit_code.hpp"
#include "tool/run/options.hpp"
#include "tool/run/report.hpp"
#include "tool/run/schedule.hpp"

namespace hawser::tool {

// Prints the report to standard output, writes the JSON file if one was asked for, and returns how
// the command ends: `code`, or worse if the results are wrong.
[[nodiscard]] ExitCode conclude(const RunOptions& options, const Schedule& schedule,
                                const std::vector<RankResult>& results, ExitCode code,
                                double wall_s, const std::vector<AttackResult>& attacks = {});

// Throw InputError if the report, or a rank's trace, cannot be written where it was asked for:
// better before the run.
void check_report_file(const RunOptions& options);
void check_trace_file(const RunOptions& options, std::uint32_t rank);

// Why a run, or a rank, was ended that took too long.
[[nodiscard]] std::string not_in_time(const RunOptions& options);

// The line that a run begins with, and the workload's warnings behind it.
[[nodiscard]] std::string opening(const RunOptions& options, const Schedule& schedule);

}  // namespace hawser::tool
