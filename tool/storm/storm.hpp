// SPDX-License-Identifier: Apache-2.0
// `hawser storm`: swarms of storms, and tools for one that fails: replay, timeline, shrinking.
#pragma once

#include "tool/exit_code.hpp"
#include "tool/storm/options.hpp"

namespace hawser::tool {

// Throws InputError.
[[nodiscard]] ExitCode run_storms(const StormOptions& options);

}  // namespace hawser::tool
