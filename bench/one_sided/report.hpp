// SPDX-License-Identifier: Apache-2.0
// The results as tables and as JSON.
#pragma once

#include <string>

#include "bench/one_sided/plan.hpp"

namespace hawser::bench::one_sided {

void print_tables(const Plan& plan, const Results& results);

// Writes to the file, or to stdout if `path` is "-".
void write_json(const Plan& plan, const Results& results, const std::string& path);

}  // namespace hawser::bench::one_sided
