// SPDX-License-Identifier: Apache-2.0
// When a matrix could be carried out at best, by arithmetic: nothing is lost, no packet waits for
// one of another flow that it doesn't share its narrowest cables with, and all equal cables carry
// equal shares. What experiments compare is what their senders take beyond that.
//
// A flow's bytes are those on the cable: its payload, and `overhead_bytes` for each packet. It
// takes the longest of these: its step's bytes over the sending host's cables, the receiving
// host's, those of their leaves and pods upwards and downwards, each set by its rate in all.
// Besides, the first packet is stored and sent on by each switch, and every cable and switch on the
// way has its latency. The sender knows when a packet of nothing but overhead has come back.
//
// Steps: connections that start at one time are one. Those that a trigger starts belong to the step
// after that of the connection that fired it last, and begin when that has ended. So what comes
// last is the longest chain of triggers, unless some cables' bytes of all steps take longer.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/shape.hpp"
#include "sim/traffic/connection_matrix.hpp"

namespace hawser::experiment {

struct PacketFormat {
  std::uint32_t payload_bytes = 4096;  // at most
  std::uint32_t overhead_bytes = 90;
};

// Times from the moment on from which connections' starts count. Never, if no trigger comes to it.
struct FlowIdeal {
  fabric::Instant started = fabric::kNever;
  fabric::Instant received = fabric::kNever;
  fabric::Instant ended = fabric::kNever;  // the sender knows
  std::uint32_t step = 0;                  // from 0
};

struct StepIdeal {
  fabric::Instant started = fabric::kNever;
  fabric::Instant ended{};
};

struct Ideal {
  std::vector<FlowIdeal> flows;
  std::vector<StepIdeal> steps;
  fabric::Instant last{};  // all senders know
};

// Bytes on a cable for so much payload.
[[nodiscard]] std::uint64_t wire_bytes(std::uint64_t payload, const PacketFormat& format);

// Throws InputError if no fabric can be made of the shape. The matrix's nodes are its first hosts,
// with all their NICs.
[[nodiscard]] Ideal ideal_completion(const fabric::ConnectionMatrix& matrix,
                                     const fabric::Shape& shape, const PacketFormat& format = {});

}  // namespace hawser::experiment
