// SPDX-License-Identifier: Apache-2.0
// What a fabric's longest way has under way.
#pragma once

#include "sim/baseline/setup.hpp"
#include "sim/fabric/wiring.hpp"

namespace hawser::baseline {

// From when a full packet begins to leave a port until its ack has come back, over the highest
// switches and empty queues.
[[nodiscard]] fabric::Span round_trip(const fabric::Wiring& wiring, const PacketSizes& sizes);
// The full packets that a port sends in that time, or in the time of so many bytes at its rate if
// `bytes` is not 0; rounded up.
[[nodiscard]] std::uint32_t round_trip_packets(const fabric::Wiring& wiring,
                                               const PacketSizes& sizes, std::uint64_t bytes);

}  // namespace hawser::baseline
