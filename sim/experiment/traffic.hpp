// SPDX-License-Identifier: Apache-2.0
// A plan's traffic as a connection matrix: as it was read from a file, or made by a generator.
#pragma once

#include <cstdint>

#include "sim/experiment/plan.hpp"
#include "sim/traffic/connection_matrix.hpp"

namespace hawser::experiment {

// Of a fabric of `hosts`, all of which take part. Generators (sim/traffic/generate.hpp), and their
// numbers (those in brackets may be left out):
//   permutation           bytes
//   incast                bytes [senders] [receivers]
//   ring                  bytes [rounds] [channels]
//   butterfly, doubling   bytes [rounds]
//   all_to_all            bytes [rounds] [window] [shuffled: 0 or 1]
//   moe                   bytes tokens [rounds] [experts] [top] [skew_percent] [compute_us]
//   background            bytes, the mean of exponentially distributed ones, load_percent of the
//                         gbps that each host has, for duration_us
// What is drawn follows from the seed. Throws InputError for an unknown name or number, and for a
// number that is missing or out of its range.
[[nodiscard]] fabric::ConnectionMatrix make_matrix(const TrafficPlan& plan, std::uint32_t hosts,
                                                   std::uint64_t seed);

// Adds the plan's background, if it has one, behind the traffic's own connections: of a seed
// another one than theirs. Throws InputError as above.
void add_beside(const TrafficPlan& plan, std::uint32_t hosts, std::uint64_t seed,
                fabric::ConnectionMatrix& matrix);

// Gives all messages to one receiver the hint that they come together, and how many they are; more
// than 65535 count as that many. Receivers of one message get none. Throws InputError if a trigger
// starts one of several, or if they start at different times: they don't come together. Also if no
// receiver has several.
void group_by_receiver(fabric::ConnectionMatrix& matrix);

}  // namespace hawser::experiment
