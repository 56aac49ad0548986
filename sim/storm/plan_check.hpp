// SPDX-License-Identifier: Apache-2.0
// Whether a plan that was not drawn, but read from a file or cut down, can be run, and judged.
#pragma once

#include <string>

#include "sim/storm/plan.hpp"

namespace hawser::sim {

// A cable between switches is cut, and `other_host` is its number.
[[nodiscard]] bool is_of_cable(const FaultPlan& fault);
// Whether `nic`, and whether `other_host` and `other_nic`, mean something to that kind of fault.
// A NIC that means nothing must exist all the same.
[[nodiscard]] bool uses_nic(FaultKind kind);
[[nodiscard]] bool uses_other(FaultKind kind);
// From the one NIC to the other, and not back.
[[nodiscard]] bool is_directed(FaultKind kind);
// Of a fault that strikes one queue.
[[nodiscard]] proto::Queue queue_of(const FaultPlan& fault);

// What is wrong with it, and where; empty: nothing. Every index names something, every number is
// within what the simulator takes, and without faults every message could come to its end.
[[nodiscard]] std::string complaint_about(const Plan& plan);

}  // namespace hawser::sim
