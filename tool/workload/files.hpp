// SPDX-License-Identifier: Apache-2.0
// Workloads from files: ASTRA-sim 1.0 text (SimAI and AICB write the same), and AICB's csv. The
// readers are those of the simulator (sim/input/), so that both read the same of a file; what they
// refuse is an InputError with the file, the line and what is wrong.
//
// All ranks replay the first pipeline stage's program. A transfer to or from the next stage moves
// every pipeline on by one stage; the other ends of the same transfers stand with later stages.
#pragma once

#include <string>
#include <string_view>

#include "tool/workload/model.hpp"

namespace hawser::tool {

// No known workload comes near these; they keep a wrong file from taking all memory.
inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
inline constexpr std::uint64_t kMaxPhaseBytes = std::uint64_t{1} << 40;
inline constexpr std::size_t kMaxPhases = 1'000'000;

// A built-in workload's name, else a file, whose format is seen from its content. Of an AICB csv,
// what stands before the first `epoch_end` is set-up, which runs once, and the rest a step; of
// ASTRA-sim text a step is all layers forward, then backward from the last.
[[nodiscard]] Workload load_workload(const std::string& name_or_path);
// The same for text at hand; `name` is what errors call it.
[[nodiscard]] Workload parse_workload(const std::string& name, std::string_view text);

}  // namespace hawser::tool
