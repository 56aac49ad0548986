// SPDX-License-Identifier: Apache-2.0
// The two processes at work. The client decides what comes next and tells the server over the wire;
// the server does its side of it.
#pragma once

#include <functional>

#include "bench/compare/plan.hpp"
#include "bench/compare/wire.hpp"

namespace hawser::bench {

// `lose` sets the share of packets that are lost from now on.
[[nodiscard]] Results run_client(const Plan& plan, const Wire& wire,
                                 const std::function<void(double)>& lose);

// Returns when the client sends "end".
void run_server(const TransportOptions& options, const Wire& wire);

}  // namespace hawser::bench
