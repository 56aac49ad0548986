// SPDX-License-Identifier: Apache-2.0
// The two sides at work. The client decides what comes next and tells the server over the wire; the
// server prepares its memory, makes progress, and checks the memory afterwards.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/wire.hpp"
#include "bench/one_sided/plan.hpp"

namespace hawser::bench::one_sided {

// Measures these transports of the plan, and adds to the results.
void run_client(const Plan& plan, const std::vector<std::string>& transports, const Wire& wire,
                Results& results);

// Returns when the client sends "end".
void run_server(const TransportOptions& options, const Wire& wire);

}  // namespace hawser::bench::one_sided
