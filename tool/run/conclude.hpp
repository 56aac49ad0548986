// SPDX-License-Identifier: Apache-2.0
// The end of a run, wherever its results have come together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tool/exit_code.hpp"
#include "tool/output_file.hpp"
#include "tool/run/options.hpp"
#include "tool/run/report.hpp"
#include "tool/run/schedule.hpp"

namespace hawser::tool {

// Prints the report to standard output, and writes the JSON file if one was asked for. Returns the
// command's exit code: `code`, or a worse one if the results are wrong, or if all went well but the
// file could not be written. `file` comes from report_file().
[[nodiscard]] ExitCode conclude(const RunOptions& options, const OutputFile& file,
                                const Schedule& schedule, const std::vector<RankResult>& results,
                                ExitCode code, double wall_s,
                                const std::vector<AttackResult>& attacks = {});

// Throw InputError if the report, or a rank's trace, cannot be written at the given place. It is
// better to find that out before the run.
[[nodiscard]] OutputFile report_file(const RunOptions& options);
void check_trace_file(const RunOptions& options, std::uint32_t rank);

// Why a run, or a rank, was ended that took too long.
[[nodiscard]] std::string not_in_time(const RunOptions& options);

// The first line of a run, followed by the workload's warnings.
[[nodiscard]] std::string opening(const RunOptions& options, const Schedule& schedule);

}  // namespace hawser::tool
