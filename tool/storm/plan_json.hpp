// SPDX-License-Identifier: Apache-2.0
// A storm's plan as a file: JSON with every field, so that it runs the same for ever, even if seeds
// are drawn differently by then.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/storm/plan.hpp"

namespace hawser::tool {

[[nodiscard]] nlohmann::json to_json(const sim::Plan& plan);
// Throws InputError if a field is missing, unknown, of the wrong kind or out of its range, or if
// the plan can't be judged (sim/storm/plan_check.hpp). The error says which, behind `name`.
[[nodiscard]] sim::Plan plan_from_json(const nlohmann::json& json,
                                       const std::string& name = "plan");

// `note` says what the plan is for; it is kept in the file and not read. Both throw InputError.
// Duplicate keys, and keys beside `plan`, `note` and `commit`, are errors.
void write_plan(const std::string& file, const sim::Plan& plan, const std::string& note);
[[nodiscard]] sim::Plan read_plan(const std::string& file);

}  // namespace hawser::tool
