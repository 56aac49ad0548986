// SPDX-License-Identifier: Apache-2.0
// A recorded storm in the Trace Event Format, which Perfetto and chrome://tracing read:
//
//   process   a host each; the fabric for faults of cables between switches
//   thread    of a host: its endpoint, and each NIC; instants of packets and states are on these
//   span      a message from its post to its completion, a receive likewise, a fault, a path from
//             one state to the next, a session
//   counter   packets in flight; packets sent, retransmitted and lost so far
//
// All spans are asynchronous, so they may overlap. What is open at the end of the storm, or of the
// part that is shown, is closed there.
#pragma once

#include <ostream>

#include "sim/storm/recording.hpp"
#include "tool/storm/options.hpp"
#include "tool/storm/timeline.hpp"

namespace hawser::tool {

void write_chrome_trace(std::ostream& out, const sim::Plan& plan, const sim::Recording& recording,
                        const Subjects& subjects, const TraceOptions& options);

}  // namespace hawser::tool
