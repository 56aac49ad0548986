// SPDX-License-Identifier: Apache-2.0
// The delay-bandwidth product of a fabric's longest way.
#pragma once

#include "sim/baseline/setup.hpp"
#include "sim/fabric/wiring.hpp"

namespace hawser::baseline {

// The time from when a full packet begins to leave a port until its ack has come back. The way goes
// over the highest switches and empty queues.
[[nodiscard]] fabric::Span round_trip(const fabric::Wiring& wiring, const PacketSizes& sizes);
// The full packets that a port sends in that time, rounded up. If `bytes` is not 0, the time is
// that of this many bytes at the port's rate.
[[nodiscard]] std::uint32_t round_trip_packets(const fabric::Wiring& wiring,
                                               const PacketSizes& sizes, std::uint64_t bytes);

}  // namespace hawser::baseline
