// Ranks that meet over a rendezvous: those that a launcher starts, and those that others start.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/job_environment.hpp"
#include "tool/exit_code.hpp"
#include "tool/run/options.hpp"

namespace hawser::tool {

// What a launcher puts into the environment of a rank; `life` counts the processes that were this
// rank before.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(
    const engine::JobPlace& place, std::uint32_t life);

// A rank that people started: speaks to them, and its rank 0 concludes the run.
[[nodiscard]] ExitCode run_joined(const RunOptions& options, const engine::JobPlace& place);

// A rank of a launcher: speaks to it over kReportFd.
[[nodiscard]] ExitCode run_launched(RunOptionParser& parser);

}  // namespace hawser::tool
