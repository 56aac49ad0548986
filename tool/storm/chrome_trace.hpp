// SPDX-License-Identifier: Apache-2.0
// A recorded storm in the Trace Event Format, which Perfetto and chrome://tracing read.
//
//   Process   A host each; the fabric for faults of cables between switches.
//   Thread    Of a host: its endpoint, and each NIC; instants of packets and states are on these.
//   Span      A message from its post to its completion, a receive likewise, a fault, a path from
//             one state to the next, a session.
//   Counter   Packets in flight; packets sent, retransmitted and lost so far.
//
// All spans are asynchronous, so they may overlap. Spans that are open at the end of the storm, or
// of the shown part, are closed there.
#pragma once

#include <ostream>

#include "sim/storm/recording.hpp"
#include "tool/storm/options.hpp"
#include "tool/storm/timeline.hpp"

namespace hawser::tool {

void write_chrome_trace(std::ostream& out, const sim::Plan& plan, const sim::Recording& recording,
                        const Subjects& subjects, const TraceOptions& options);

}  // namespace hawser::tool
