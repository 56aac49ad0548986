// A plan's traffic as a connection matrix: as it was read from a file, or made by a generator.
#pragma once

#include <cstdint>

#include "sim/experiment/plan.hpp"
#include "sim/traffic/connection_matrix.hpp"

namespace hawser::experiment {

// Of a fabric of `hosts`. Generators, and their numbers (those in brackets may be left out):
//   permutation  bytes               each host sends to another one, and receives from one
//   incast       bytes [senders]     that many of the hosts (all others) send to one of them
// What is drawn follows from the seed. Throws InputError for an unknown name or number, and for a
// number that is missing or out of its range.
[[nodiscard]] fabric::ConnectionMatrix make_matrix(const TrafficPlan& plan, std::uint32_t hosts,
                                                   std::uint64_t seed);

}  // namespace hawser::experiment
