// Workloads from files: ASTRA-sim 1.0 text (SimAI writes the same), and AICB's CSV.
//
// Both readers take what the tools' own samples contain, blanks and line ends included, and refuse
// anything else with the file, the line and what is wrong (InputError).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tool/workload/model.hpp"
#include "tool/workload/source.hpp"

namespace hawser::tool {

// ASTRA-sim text. Line 1: parallelism and group sizes; line 2: number of layers; then a layer a
// line:
//   name  dependency  forward(compute type bytes)  input-gradient(...)  weight-gradient(...) update
// A step is: forward of all layers in order, then backward from the last, each layer's input
// gradient before its weight gradient. The type's suffix names the group (_EP, _DP_EP); without
// one, forward and input gradient use the tensor group and weight gradients the data group.
[[nodiscard]] Workload parse_astra_text(const Source& source);

// AICB CSV. One call a line, columns by the names in the header line; `epoch_end` separates the
// set-up, which runs once, from the step. A file with a section for each pipeline stage
// ("[ pp_stage0: ...") is checked whole and replayed by the first stage's section: all ranks run
// it, and a transfer to or from the next stage moves every pipeline on by one stage.
[[nodiscard]] Workload parse_aicb_csv(const Source& source);

// A built-in workload's name, else a file, whose format is seen from its content.
[[nodiscard]] Workload load_workload(const std::string& name_or_path);
// The same for text at hand.
[[nodiscard]] Workload parse_workload(const Source& source);

}  // namespace hawser::tool
