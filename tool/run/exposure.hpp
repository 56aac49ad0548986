// SPDX-License-Identifier: Apache-2.0
// The memory that a rank exposes to the others for one-sided tasks: its window, and a counter for
// each rank, which that rank's writes signal.
//
// Counters only grow, from task to task, so that no signal meets a counter that is being set back.
// After the failure of a rank, when nothing is under way, all ranks expose their memory anew. The
// new process of the failed rank begins with counters of 0, and the others must do the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hawser/engine.hpp"

namespace hawser::tool {

// The keys that a rank sends to the others.
struct ExposedKeys {
  RegionKey window{};
  RegionKey counters{};
};

class Exposure {
 public:
  // Outlives the endpoint, as `window` does.
  Exposure(std::span<std::byte> window, std::uint32_t ranks);

  // Withdraws what was exposed, sets the counters to 0, and exposes all anew. Nothing is under way.
  // Throws hawser::Error.
  void renew(Endpoint& endpoint);

  [[nodiscard]] const ExposedKeys& keys() const { return keys_; }
  [[nodiscard]] std::span<std::byte> window() const { return window_; }
  // How often a rank has signalled. Its writes before that are visible.
  [[nodiscard]] std::uint64_t signals_of(std::uint32_t rank) const;

 private:
  std::span<std::byte> window_;
  mutable std::vector<std::uint64_t> counters_;  // of which atomic_ref wants no const
  RegionId window_region_ = kNoRegion;
  RegionId counters_region_ = kNoRegion;
  ExposedKeys keys_;
};

}  // namespace hawser::tool
