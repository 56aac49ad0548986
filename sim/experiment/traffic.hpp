// SPDX-License-Identifier: Apache-2.0
// A plan's traffic as a connection matrix, which was read from a file or comes from a generator.
#pragma once

#include <cstdint>

#include "sim/experiment/plan.hpp"
#include "sim/traffic/connection_matrix.hpp"

namespace hawser::experiment {

// The plan's matrix for a fabric of `hosts`, all of which take part.
// The generators (sim/traffic/generate.hpp) and their numbers. Those in brackets may be left out.
//   permutation           bytes
//   incast                bytes [senders] [receivers]
//   ring                  bytes [rounds] [channels]
//   butterfly, doubling   bytes [rounds]
//   all_to_all            bytes [rounds] [window] [shuffled: 0 or 1]
//   moe                   bytes tokens [rounds] [experts] [top] [skew_percent] [compute_us]
//   background            bytes, the mean of exponentially distributed ones, load_percent of the
//                         gbps that each host has, for duration_us
//
// All draws follow from the seed. Throws InputError for an unknown name or number, and for a number
// that is missing or out of its range.
[[nodiscard]] fabric::ConnectionMatrix make_matrix(const TrafficPlan& plan, std::uint32_t hosts,
                                                   std::uint64_t seed);

// Adds the plan's background, if it has one, behind the traffic's own connections. It has a seed
// apart from theirs. Throws InputError as above.
void add_beside(const TrafficPlan& plan, std::uint32_t hosts, std::uint64_t seed,
                fabric::ConnectionMatrix& matrix);

// Gives all messages to one receiver the hint that they come together, and how many they are; more
// than 65535 count as that many. A receiver of a single message gets no hint. Throws InputError if
// messages to one receiver don't come together: a trigger starts one of them, or they start at
// different times. Throws it, too, if no receiver has several messages.
void group_by_receiver(fabric::ConnectionMatrix& matrix);

}  // namespace hawser::experiment
