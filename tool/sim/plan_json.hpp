// SPDX-License-Identifier: Apache-2.0
// An experiment's plan as a file: JSON, read strictly. docs/lab/experiments.md says what each key
// means.
#pragma once

#include <string>
#include <vector>

#include "sim/experiment/plan.hpp"
#include "tool/sim/inputs.hpp"

namespace hawser::tool {

// The plan at each point of its ranges, in their order; at least one. Throws InputError if a key is
// missing, unknown, given twice, of the wrong kind or out of its range. Throws it, too, if a file
// is missing or malformed, or if the plan makes no sense (complaint_about). The error says which,
// behind `name`.
[[nodiscard]] std::vector<experiment::Plan> plans_from_json(const std::string& text,
                                                            const std::string& name,
                                                            PlanInputs& inputs);
// The same for a file, with its inputs from beside it and from HAWSER_WORKLOADS.
[[nodiscard]] std::vector<experiment::Plan> read_plans(const std::string& file);

}  // namespace hawser::tool
