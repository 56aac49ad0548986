// SPDX-License-Identifier: Apache-2.0
// `hawser sim`: runs an experiment's plan and reports the results.
#pragma once

#include "tool/exit_code.hpp"
#include "tool/sim/options.hpp"

namespace hawser::tool {

// Throws InputError for errors that the user of the command can put right.
[[nodiscard]] ExitCode run_plan(const SimOptions& options);

}  // namespace hawser::tool
