// SPDX-License-Identifier: Apache-2.0
// Ranks that meet over a rendezvous: those that Hawser's launcher starts, and those of other
// launchers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/bootstrap/job_environment.hpp"
#include "engine/bootstrap/pmix_job.hpp"
#include "tool/exit_code.hpp"
#include "tool/run/options.hpp"

namespace hawser::tool {

// The variables that a launcher puts into the environment of a rank; `life` counts the processes
// that were this rank before.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(
    const engine::JobPlace& place, std::uint32_t life);

// The job in which another launcher has put this process.
struct Joining {
  engine::JobPlace place;
  std::unique_ptr<engine::PmixJob> pmix;  // where the place is PMIx's
};

// Looks for HAWSER_RANK and its like, then torchrun's variables, then PMIx. The order matters: srun
// or mpirun may start torchrun's agents, and the ranks then inherit srun's or mpirun's variables.
// Nothing if no launcher started this process. Throws hawser::Error.
[[nodiscard]] std::optional<Joining> joining_from_environment();

// A rank that another launcher started: speaks to people, and its rank 0 concludes the run.
[[nodiscard]] ExitCode run_joined(const RunOptions& options, Joining joining);

// A rank of Hawser's launcher: speaks to it over kReportFd.
[[nodiscard]] ExitCode run_launched(RunOptionParser& parser);

}  // namespace hawser::tool
