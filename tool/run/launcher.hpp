// SPDX-License-Identifier: Apache-2.0
// `hawser run` on one host: starts the ranks, watches over them, and reports the result.
#pragma once

#include <string>
#include <vector>

#include "tool/exit_code.hpp"
#include "tool/run/memory.hpp"
#include "tool/run/options.hpp"

namespace hawser::tool {

// `arguments` are those after "run": every rank gets them again. Throws InputError.
[[nodiscard]] ExitCode launch(const RunOptions& options, const std::vector<std::string>& arguments);

struct Schedule;
// Throws InputError, with the figures, if the run has more collectives than ranks can keep times
// of.
void check_length(const RunOptions& options, const Schedule& schedule);
// Throws InputError, with the figures, if so many ranks need more memory than there is.
void check_memory(const RunOptions& options, const Schedule& schedule, std::uint32_t local_ranks,
                  const MemoryRoom& room);

}  // namespace hawser::tool
