// SPDX-License-Identifier: Apache-2.0
// Checks that a plan that was read from a file or cut down, and not drawn, can be run and judged.
#pragma once

#include <string>

#include "sim/storm/plan.hpp"

namespace hawser::sim {

// Whether the fault cuts a cable between switches; `other_host` is then its number.
[[nodiscard]] bool is_of_cable(const FaultPlan& fault);
// Whether `nic`, and whether `other_host` and `other_nic`, have a meaning for that kind of fault. A
// NIC without a meaning must exist all the same.
[[nodiscard]] bool uses_nic(FaultKind kind);
[[nodiscard]] bool uses_other(FaultKind kind);
// Whether it acts from one NIC to the other, and not back.
[[nodiscard]] bool is_directed(FaultKind kind);
// The queue that the fault strikes, if it strikes only one.
[[nodiscard]] proto::Queue queue_of(const FaultPlan& fault);

// The plan's first error, and where it is; empty if there is none. Every index must name something,
// every number must be within the simulator's limits, and without faults every message must be able
// to complete.
[[nodiscard]] std::string complaint_about(const Plan& plan);

}  // namespace hawser::sim
