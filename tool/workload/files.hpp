// SPDX-License-Identifier: Apache-2.0
// Workloads from files: ASTRA-sim 1.0 text (SimAI and AICB write the same), and AICB's csv. The
// readers are those of the simulator (sim/input/), so that both understand a file in the same way.
// Errors are InputErrors with the file, the line and what is wrong.
//
// All ranks replay the first pipeline stage's program. A transfer to or from the next stage moves
// every pipeline on by one stage; the other ends of the same transfers are in later stages'
// programs.
#pragma once

#include <string>
#include <string_view>

#include "tool/workload/model.hpp"

namespace hawser::tool {

// No known workload comes near these; they keep a wrong file from taking all memory.
inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
inline constexpr std::uint64_t kMaxPhaseBytes = std::uint64_t{1} << 40;
inline constexpr std::size_t kMaxPhases = 1'000'000;

// Loads a built-in workload by its name, or else a file, whose content shows its format. In an AICB
// csv, the part before the first `epoch_end` is set-up, which runs once, and the rest is a step. In
// ASTRA-sim text a step is all layers forward, then backward from the last.
[[nodiscard]] Workload load_workload(const std::string& name_or_path);
// The same for a given text; `name` is its name in errors.
[[nodiscard]] Workload parse_workload(const std::string& name, std::string_view text);

}  // namespace hawser::tool
