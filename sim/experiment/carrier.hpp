// SPDX-License-Identifier: Apache-2.0
// Carries out a connection matrix over a fabric, by hosts that run the protocol (matrix_run.hpp) or
// a baseline's. An experiment compares carriers of the same matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric/instant.hpp"

namespace hawser::experiment {

struct FlowTimes {
  fabric::Instant started = fabric::kNever;
  fabric::Instant received = fabric::kNever;  // the receiver has it all
  fabric::Instant ended = fabric::kNever;     // the sender knows
};

struct CarrierTotals {
  std::uint64_t data_packets = 0;   // sent in all, retransmissions included
  std::uint64_t retransmitted = 0;  // of these
  std::uint64_t duplicates = 0;     // that came to a receiver that had them already
};

// A sender takes a path to be dead that it has used until then. It may do so because of silence, a
// report of its driver or its peer, or the end of its retries.
struct Accusation {
  fabric::Instant at;
  std::uint32_t from = 0;  // ports
  std::uint32_t to = 0;
};

class Carrier {
 public:
  virtual ~Carrier() = default;

  // The first runs until all that has to precede the traffic is done, the second until all
  // connections have ended. Both return false if that takes longer, or if one failed.
  [[nodiscard]] virtual bool connect(fabric::Span most) = 0;
  [[nodiscard]] virtual bool run(fabric::Span most) = 0;

  // When the matrix's time began: its connections' starts count from there.
  [[nodiscard]] virtual fabric::Instant begun() const = 0;
  [[nodiscard]] virtual const FlowTimes& times(std::uint32_t connection) const = 0;
  [[nodiscard]] virtual CarrierTotals totals() const = 0;
  // In the order of time. Null if the carrier never leaves a path.
  [[nodiscard]] virtual const std::vector<Accusation>* accusations() const { return nullptr; }
};

}  // namespace hawser::experiment
