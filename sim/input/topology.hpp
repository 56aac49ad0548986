// SPDX-License-Identifier: Apache-2.0
// Fabrics from .topo files, as htsim reads them.
//
//   Nodes 1024
//   Tiers 3                     2 or 3
//   Podsize 64                  nodes of a pod; with 2 tiers that is all of them
//   Tier 0                      then, of each tier, in any order:
//   Downlink_speed_Gbps 100       of the cables below it
//   Downlink_Latency_ns 1000      the same
//   Radix_Down 8                  cables of a switch downwards
//   Radix_Up 8                    and upwards; not in the highest tier
//   Switch_Latency_ns 0           if left out: 0
//   Bundle 1                      cables between two switches, one of them below; if left out: 1
//   Oversubscribed 1              capacity downwards over upwards; if left out it isn't checked
//   Queue_Down, Queue_Up          bytes, in place of the queue that the experiment says
//
// The case of keys doesn't matter; '#' begins a comment line.
#pragma once

#include <string>
#include <string_view>

#include "sim/fabric/shape.hpp"

namespace hawser::fabric {

// Each host has one NIC; queues have a Shape's defaults. Throws InputError with file, line and what
// to do if it is not such a file, or if no fabric of that shape can exist.
[[nodiscard]] Shape read_topology(const std::string& name, std::string_view content);

}  // namespace hawser::fabric
