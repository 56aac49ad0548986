// SPDX-License-Identifier: Apache-2.0
// FI_HAWSER_FAULT_PLAN: faults that come and go while a program runs. With it any MPI program can
// run on a NIC that dies and returns.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace hawser::ofi {

struct PlannedFault {
  std::chrono::milliseconds at{};  // after the endpoint was enabled
  std::size_t nic = 0;
  std::string spec;  // docs/faults.md
};

// Parses "2s:1:kill,2500ms:0:loss=0.1+seed=7", in any order, and returns the plan by time. Returns
// what is wrong; "" if nothing is. Only the injection shows whether a NIC can do what the words
// say.
[[nodiscard]] std::string parse_fault_plan(const std::string& text,
                                           std::vector<PlannedFault>& plan);

}  // namespace hawser::ofi
