// SPDX-License-Identifier: Apache-2.0
// Ranks that meet over a rendezvous: those that a launcher starts, and those that others start.
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

// What a launcher puts into the environment of a rank; `life` counts the processes that were this
// rank before.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(
    const engine::JobPlace& place, std::uint32_t life);

// What somebody else's launcher has put this process into.
struct Joining {
  engine::JobPlace place;
  std::unique_ptr<engine::PmixJob> pmix;  // where the place is PMIx's
};

// By HAWSER_RANK and its like, else torchrun's variables, else PMIx: torchrun's agents may be
// started by srun or mpirun themselves, whose variables its ranks then inherit. Nothing: nobody
// else did. Throws hawser::Error.
[[nodiscard]] std::optional<Joining> joining_from_environment();

// A rank that others started: speaks to people, and its rank 0 concludes the run.
[[nodiscard]] ExitCode run_joined(const RunOptions& options, Joining joining);

// A rank of a launcher: speaks to it over kReportFd.
[[nodiscard]] ExitCode run_launched(RunOptionParser& parser);

}  // namespace hawser::tool
