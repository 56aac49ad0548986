// SPDX-License-Identifier: Apache-2.0
// Which bytes the one-sided tasks move: the same table on every rank, computed from the seed.
//
// A rank's *window* is the memory that its peers reach. It holds the results of put, dispatch and
// combine, and the source of get. Its layout depends on its rank alone. An initiator therefore
// knows each offset in the window of a peer:
//
//   put, get   [ share of rank 0 | share of rank 1 | ... ]
//   dispatch   [ expert e: tokens of rank 0 | tokens of rank 1 | ... | expert e+1: ... ]
//   combine    [ expert 0: own tokens | expert 1: own tokens | ... ]
#pragma once

#include <cstdint>
#include <vector>

#include "tool/run/schedule.hpp"

namespace hawser::tool {

// Consecutive bytes between this rank and another, or itself.
struct Transfer {
  std::uint32_t member = 0;  // the other's place in the group
  std::uint64_t own_offset = 0;
  std::uint64_t remote_offset = 0;
  std::uint64_t bytes = 0;  // never 0
  std::uint64_t first = 0;  // place in all that the sender has for this receiver
};

struct Transfers {
  std::vector<Transfer> outgoing;  // from the rank's source to the results of others
  std::vector<Transfer> incoming;
  std::uint64_t source_bytes = 0;
  std::uint64_t result_bytes = 0;
};

// The transfers of a one-sided task, except atomics, for the rank at place `index` of the group
// whose first rank is `group`.
[[nodiscard]] Transfers make_transfers(const Task& task, std::uint32_t size, std::uint32_t index,
                                       std::uint64_t seed, std::uint32_t step, std::uint32_t group);

// How many operations move a transfer.
[[nodiscard]] std::uint64_t operations_of(const Task& task, const Transfer& transfer);

// The group's member that has an expert.
[[nodiscard]] std::uint32_t member_of_expert(const Task& task, std::uint32_t size,
                                             std::uint32_t expert);

// At least the bytes that any rank of the group receives in a dispatch, in any step.
[[nodiscard]] std::uint64_t most_dispatched_bytes(const Task& task, std::uint32_t size);

// The operations of a rank on the words of one member.
[[nodiscard]] std::uint64_t atomics_to_each(const Task& task, std::uint32_t size);

// At least the bytes of the window in this task, at any rank and in any step.
[[nodiscard]] std::uint64_t window_bytes(const Task& task, const GroupLayout& layout);
// The window of the largest one-sided task; 0 if the schedule has none.
[[nodiscard]] std::uint64_t largest_window_bytes(const Schedule& schedule);

}  // namespace hawser::tool
