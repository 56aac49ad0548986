// SPDX-License-Identifier: Apache-2.0
// Workloads as connection matrices: a node for each rank.
//
// Ranks are numbered as in Megatron: tensor first, then data, in which neighbours make up the
// expert groups, then pipeline. All-gathers, reduce-scatters and long all-reduces are rings. Short
// all-reduces use recursive doubling, all-to-alls send all at once, and broadcasts are trees. A
// rank does one thing after the other, except for operations `beside`. Computing after the last
// message leaves no trace.
#pragma once

#include <cstdint>

#include "sim/traffic/workload.hpp"

namespace hawser::fabric {

struct Mapping {
  std::uint32_t ranks =
      0;  // 0: what the workload says, as in the next two; what it doesn't say is 1
  std::uint32_t tensor =
      0;  // group sizes; that of the pipeline is the workload's, and that of data
  std::uint32_t expert = 0;  // follows
  // Groups that are whole within a host have links of their own there: they take no time and send
  // nothing over the fabric.
  std::uint32_t ranks_per_host = 1;
  std::uint32_t channels = 1;          // of rings
  std::uint64_t short_bytes = 65'536;  // all-reduces up to so long double
  std::uint64_t shrink = 1;  // bytes and times are divided by it, so that it takes less to run
};

// Throws InputError if the numbers don't fit each other, or if a rank would wait for ever.
[[nodiscard]] ConnectionMatrix training(const Workload& workload, const Mapping& mapping);

}  // namespace hawser::fabric
