// SPDX-License-Identifier: Apache-2.0
// The best possible completion times of a matrix, by arithmetic. Nothing is lost. Packets wait only
// for flows with which they share their narrowest cables, and all equal cables carry equal shares.
// Experiments compare how much longer than that their senders take.
//
// A flow's bytes are those on the cable: its payload, and `overhead_bytes` for each packet. Each
// cable set on its way takes a time for all bytes of the flow's step, at the set's total rate. The
// sets are those of the sending host, of the receiving host, and of their leaves and pods upwards
// and downwards. The flow takes the longest of these times. Besides, each switch stores and
// forwards the first packet, and every cable and switch on the way has its latency. The sender
// knows when a packet of nothing but overhead has come back.
//
// Connections that start at one time are one step. Connections that a trigger starts belong to the
// step after that of the connection that fired it last, and begin when that one has ended. The
// longest chain of triggers ends last, unless some cables take longer for the bytes of all steps.
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

// Times since the moment from which connections' starts count. kNever if no trigger comes to it.
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
  fabric::Instant last{};  // when all senders know
};

// The bytes on a cable for this much payload.
[[nodiscard]] std::uint64_t wire_bytes(std::uint64_t payload, const PacketFormat& format);

// Throws InputError if no fabric can be made of the shape. The matrix's nodes are its first hosts,
// with all their NICs.
[[nodiscard]] Ideal ideal_completion(const fabric::ConnectionMatrix& matrix,
                                     const fabric::Shape& shape, const PacketFormat& format = {});

}  // namespace hawser::experiment
